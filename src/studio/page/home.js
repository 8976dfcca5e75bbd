// The front door, while nothing was trained yet: three steps, each with where it stands, and a demo that takes all three.

/** A step, by its number. */
const stepCard = (number, title, state, isDone, ...children) => h("li", {class: `step ${isDone ? "done" : ""}`},
  h("span", {class: "step-number", "aria-hidden": "true"}, isDone ? "✓" : number), h("h2", {}, title), h("p", {class: "explain", role: "status"}, state), ...children);

class Home {
  constructor() {
    this.upload = new Upload(() => this.refresh());
    this.picker = h("input", {type: "file", multiple: true, hidden: true, id: "first-files", onchange: event => this.add([...event.target.files])});
    this.title = h("div", {});
    this.steps = h("ol", {class: "steps"});
    this.element = h("div", {class: "home", ondragover: event => event.preventDefault(), ondrop: event => {
      event.preventDefault();
      droppedFiles(event.dataTransfer).then(dropped => this.add(dropped.map(([, file]) => file), dropped[0]?.[0].split("/").slice(0, -1)[0])).catch(error => say(error.message, "bad"));
    }}, this.title, h("p", {class: "about"}, words.homeAbout), this.steps, this.upload.element, this.picker);
  }

  /** Puts files into a dataset that is made for them. */
  async add(files, name = words.firstDataset) {
    if (files.length === 0) return;
    const made = await post("datasets", {name});
    await this.upload.send(made.name, files);
    await this.refresh();
  }

  /** `isTried`: the demo was taken, whose pictures are nobody's own. */
  async refresh(isTried = false) {
    const [datasets, studio] = await Promise.all([get("datasets"), this.studio ?? get("studio")]), text = JSON.stringify([datasets, runDraft.read(), isTried]);
    this.studio = studio;
    this.isTried = isTried;
    if (text === this.text) return;
    this.text = text;
    this.draw(datasets.filter(one => one.items > 0 && !(isTried && isDemo(one.name))), /^\s*model\s*=/m.test(runDraft.read()?.settings ?? ""));
  }

  draw(datasets, hasModel) {
    const [first] = datasets, form = `#/new${datasets.length === 1 ? `?dataset=${named(first.name)}` : ""}`;
    const choose = h("button", {type: "button", class: first ? "" : "primary", onclick: () => this.picker.click()}, words.choosePictures);
    const shots = (first?.first ?? []).map(file => h("img", {src: thumbnailUrl(first.name, file), alt: ""}));
    this.title.replaceChildren(h(this.isTried ? "h2" : "h1", {}, words.homeTitle));
    this.steps.replaceChildren(
      stepCard(1, words.stepPictures, first ? words.ofSet(first.items, first.captions) : words.stepPicturesNote, Boolean(first), shots.length > 0 ? h("div", {class: "tile-shots"}, ...shots) : null,
        h("div", {class: "actions"}, choose, first ? h("a", {class: "button", href: `#/data?set=${named(first.name)}`}, words.lookAtThem) : null)),
      stepCard(2, words.stepLearn, hasModel ? words.stepLearnDone : words.stepLearnNote, hasModel, h("div", {class: "actions"},
        h("a", {class: `button ${first && !hasModel ? "primary" : ""}`, href: form}, words.chooseWhat))),
      stepCard(3, words.stepTrain, words.stepTrainNote, false, h("div", {class: "actions"}, h("a", {class: `button ${first && hasModel ? "primary" : ""}`, href: form}, words.toTraining))),
      ...(this.studio.demo && !this.isTried ? [h("li", {class: "step demo"}, h("h2", {}, words.demoTitle), h("p", {class: "explain"}, words.demoNote(this.studio.demo.pictures)),
        h("div", {class: "actions"}, h("button", {type: "button", onclick: doing(() => this.demo())}, words.demo)))] : []));
  }

  /** Trains the small model on the pictures that come with the program; what it draws before and after stands on the run's page. */
  async demo() {
    const {name} = await post("demo"), {model, settings} = this.studio.demo, {path} = await post("prompts", {text: demoPrompts.join("\n")});
    const values = {model: [model], dataset_base_path: `../datasets/${name}`, preview_prompts: path, preview_steps: 30};
    const job = await post("queue/jobs", {name: "demo", settings: Object.entries(values).reduce((text, [key, value]) => withValue(text, key, value), settings)});
    say(words.queued(job.run));
  }
}

/** Whether a dataset or a run is called as those of the demo are. */
const isDemo = name => /^demo(-\d+)?$/.test(name);

const demoPrompts = ["bear face", "mushroom", "hamburger", "rabbit face"].map(prompt => `${prompt} --w 192 --h 192 --s 20 --l 1.5 --d 7`);
