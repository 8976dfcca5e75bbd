// Where a run begins from: a preset for what one wants to train, a run, another program's settings, or nothing.

const lastOf = path => path.replace(/\/+$/, "").split("/").pop();

/** How many GB of a device a preset was made for; 0 where it does not say. */
const gigabytesOf = preset => Number(/_(\d+)gb$/.exec(preset.name)?.[1] ?? 0);

/** What presets may call a model: a folder on this machine, which may have any name, by the published model that it is, too. */
function namesOf({models}, model) {
  const title = models.here.find(one => one.name === model)?.title;
  return [model, ...models.published.filter(one => one.title === title).map(one => one.id)].map(name => lastOf(name).toLowerCase());
}

/** Presets for a model, the best first: the largest that this machine has room for, or the smallest where none is known to fit. */
function presetsOf(context, model) {
  const {presets, gigabytes} = context, names = namesOf(context, model), modelOf = preset => /^model = \["([^"]+)"/m.exec(preset.settings)?.[1] ?? "";
  const made = presets.filter(one => names.includes(lastOf(modelOf(one)).toLowerCase()) && !/_full_/.test(one.name));
  const fits = one => !gigabytes || gigabytesOf(one) <= gigabytes;
  return made.sort((a, b) => fits(b) - fits(a) || (fits(a) && gigabytes ? gigabytesOf(b) - gigabytesOf(a) : gigabytesOf(a) - gigabytesOf(b)));
}

class Beginning {
  constructor(form, runs, ofRun) {
    this.form = form;
    const {presets, goals} = form.context;
    const field = (id, text, input, ...more) => h("div", {class: "field"}, h("label", {for: id}, text), input, ...more);
    this.run = h("select", {id: "from-run", onchange: doing(() => this.takeRun())}, h("option", {value: ""}, words.choose), ...runs.map(one => h("option", {value: one.name, selected: one.name === ofRun}, one.name)));
    this.goal = h("select", {id: "goal", onchange: () => this.takeGoal()}, ...goals.map(one => h("option", {value: one.title, selected: one.title === form.goal}, words.goals?.[one.title]?.[0] ?? one.title)));
    this.preset = h("select", {id: "recipe", onchange: () => { if (this.preset.value) form.takePreset(presets.find(one => one.name === this.preset.value)); }});
    this.about = h("p", {class: "explain"});
    this.files = h("input", {id: "from-files", type: "file", multiple: true, onchange: doing(event => this.takeFiles([...event.target.files]))});
    this.note = h("div", {class: "note", role: "status", hidden: true});
    form.element.querySelector(".as-file").append(h("button", {type: "button", onclick: doing(() => this.keepPreset())}, words.savePreset));
    this.ways = {
      recipe: [words.recipes, h("div", {class: "beside"}, field("goal", words.goal, this.goal, this.about), field("recipe", words.recipe, this.preset))],
      run: [words.ofRun, field("from-run", words.ofRunLong, this.run)],
      import: [words.ofProgram, field("from-files", words.ofProgramLong, this.files, h("p", {class: "explain"}, words.dropSettings))],
      empty: [words.empty, h("p", {class: "explain"}, words.emptyHint)],
    };
    this.place = h("div", {});
    this.buttons = Object.entries(this.ways).map(([way, [text]]) => h("button", {type: "button", "data-way": way, onclick: () => this.choose(way)}, text));
    this.element = h("section", {class: "beginning", "aria-label": words.from}, h("div", {class: "segments", role: "group", "aria-label": words.from}, ...this.buttons), this.place, this.note);
    this.choose(ofRun ? "run" : "recipe", false);
    this.list();
  }

  /** Shows what belongs to a way to begin; settings become others only where something is chosen there. */
  choose(way, takes = true) {
    this.buttons.forEach(button => button.setAttribute("aria-pressed", String(button.dataset.way === way)));
    this.place.replaceChildren(this.ways[way][1]);
    this.note.hidden = true;
    if (takes && way === "empty") this.form.replace({settings: "", preset: "", prompts: null});
  }

  get goalNow() { return this.form.context.goals.find(one => one.title === this.goal.value); }

  /** The presets that go with what one wants to train, and which of them the settings come from. */
  list() {
    const {form} = this, fits = new RegExp(this.goalNow?.recipes ?? "");
    this.about.textContent = words.goals?.[this.goal.value]?.[1] ?? this.goalNow?.about ?? "";
    const offered = form.context.presets.filter(one => one.isOwn || one.isDemo || fits.test(one.name) || one.name === form.preset);
    this.preset.replaceChildren(h("option", {value: ""}, words.noPreset), ...offered.map(one => h("option", {value: one.name, selected: one.name === form.preset}, one.title)));
  }

  takeGoal() {
    this.form.goal = this.goal.value;
    this.list();
    const chosen = this.form.context.presets.find(one => one.name === this.form.preset);
    if (chosen) this.form.takePreset(chosen);
    else this.form.keep();
  }

  keepPreset() {
    const name = prompt(words.presetName, this.form.name.value.trim());
    if (!name) return;
    const own = new Draft("presets"), kept = (own.read() ?? []).filter(one => one.title !== name);
    own.keep([...kept, {name: `own ${name}`, title: name, settings: this.form.settings, isOwn: true}]);
    this.form.context.presets = [...this.form.context.presets.filter(one => one.name !== `own ${name}`), ...own.read().filter(one => one.title === name)];
    this.form.preset = `own ${name}`;
    this.form.keep();
    this.list();
    say(words.presetKept(name));
  }

  async takeRun() {
    if (this.run.value) await this.form.takeText((await get(`runs/${named(this.run.value)}/settings`)).text);
  }

  async takeFiles(files) {
    if (files.length === 0) return;
    const texts = await Promise.all(files.map(async file => ({name: file.name, text: await file.text()})));
    await this.takeTexts(texts);
  }

  /** Takes settings of another program; of several that they may be of, somebody says which. */
  async takeTexts(texts, program = "") {
    let imported;
    this.choose("import", false);
    try {
      imported = await post("import", {files: texts, from: program});
    } catch (error) {
      const programs = /--from ([\w-]+(?:\|[\w-]+)+)/.exec(error.answer?.sentence ?? "")?.[1].split("|");
      if (!programs) throw error;
      this.note.hidden = false;
      return this.note.replaceChildren(h("p", {class: "problem"}, error.message), h("p", {}, words.whoseSettings),
        h("div", {class: "actions"}, ...programs.map(one => h("button", {type: "button", onclick: doing(() => this.takeTexts(texts, one))}, one))));
    }
    const name = texts.map(({text}) => /output_name["']?\s*[=:]\s*["']?([\w .-]+?)["']?\s*[,\n]/.exec(`${text}\n`)?.[1]).find(Boolean);
    await this.form.takeText(imported.settings, name);
    const list = (title, lines) => lines.length === 0 ? null : h("details", {open: lines.length < 8}, h("summary", {}, title(lines.length)), h("ul", {}, ...lines.map(line => h("li", {}, line))));
    this.note.hidden = false;
    this.note.replaceChildren(...[h("p", {}, words.imported(imported.num_carried, imported.program)), list(words.notCarried, imported.not_carried),
      list(words.different, imported.different)].filter(Boolean));
  }
}
