// Captions and masks that a model writes for the pictures of a dataset, while the page shows those that are there.

/** What is asked for by itself; the other options of the verb stand behind a fold. */
const annotateFirst = {
  caption: ["model", "caption_style", "caption_layout", "trigger_word", "caption_prompt", "caption_mode"],
  mask: ["mask_prompt", "mask_mode", "mask_threshold", "smooth_pixels", "expand_pixels", "model"],
};
const annotateNever = ["folder", "only", "json", "num_threads", "mask_folder"];

/** The buttons of a dataset's page, the dialog that each opens, and how far the work is. `changed` is called while files are written. */
class Annotator {
  constructor(name, changed) {
    this.name = name;
    this.changed = changed;
    this.buttons = Object.keys(annotateFirst).map(verb => h("button", {type: "button", onclick: doing(() => this.open(verb))}, words.annotate.verbs[verb].button));
    this.dialog = h("dialog", {class: "viewer annotate"});
    this.list = h("ul", {class: "sets"});
    this.element = h("div", {}, this.list, this.dialog);
    this.follow().catch(error => say(error.message, "bad"));
  }

  leave() {
    this.left = true;
    clearTimeout(this.timer);
  }

  /** `item`: the one picture that is asked about, whose caption is written anew; without it all of them. */
  async open(verb, item = null) {
    const t = words.annotate, {none} = t.verbs[verb], title = item ? t.titleOf(item.file) : t.verbs[verb].title, close = h("button", {type: "button", onclick: () => this.dialog.close()}, words.cancel);
    this.dialog.setAttribute("aria-label", title);
    this.dialog.replaceChildren(h("h2", {}, title), h("p", {class: "explain", role: "status"}, t.looking), close);
    this.dialog.showModal();
    const [schema, models] = await Promise.all([get(`options/${verb}`), get("models")]), here = models[verb] ?? [];
    const list = h("datalist", {id: `${verb}-models`}, ...here.map(one => h("option", {value: one.name}, `${one.title}, ${bytes(one.bytes)}`)));
    const offered = schema.options.filter(option => !annotateNever.includes(option.name));
    const fields = wanted => new OptionFields(verb, wanted, option => option.name === "model" ? {list: list.id} : {});
    const first = fields(annotateFirst[verb].map(name => offered.find(option => option.name === name)).filter(Boolean)), more = fields(offered.filter(option => !annotateFirst[verb].includes(option.name)));
    const offeredMode = offered.some(option => option.name === "caption_mode");
    first.set({...(here.length > 0 ? {model: [here[0].name]} : {}), ...(item && offeredMode ? {caption_mode: "replace"} : {})});
    const start = doing(async () => {
      if (verb === "caption" && !first.changed().model?.length && here.length === 0) {
        document.getElementById("caption-model").focus();
        throw new Error(t.needsModel);
      }
      await post(`datasets/${named(this.name)}/annotations`, {verb, settings: (item ? `only = ${tomlValue([item.file])}\n` : "") + first.toml() + more.toml()});
      this.dialog.close();
      await this.follow();
    });
    this.dialog.replaceChildren(h("h2", {}, title), h("p", {class: "explain"}, here.length > 0 ? t.here(here[0].title) : none), list,
      h("form", {class: "annotate-form", onsubmit: event => event.preventDefault()}, first.element, h("details", {}, h("summary", {}, words.drawing.more), more.element),
        h("div", {class: "actions"}, h("button", {class: "primary", onclick: start}, t.start), close)));
    this.dialog.querySelector("input, select")?.focus();
  }

  row(job) {
    const t = words.annotate, state = job.state !== "ended" ? job.state : job.exit_code === 0 ? "done" : job.exit_code === 130 ? "interrupted" : "failed", {title} = t.verbs[job.verb];
    return h("li", {}, h("span", {class: "file"}, title, h("span", {class: state === "failed" ? "problem" : "explain"}, ` ${plainSentence(job.says)}`)), h("span", {class: `state ${state}`}, t.states[state]),
      h("span", {class: "actions"}, h("button", {type: "button", "aria-label": `${state === "running" ? words.drawing.stop : words.remove}: ${title}`, onclick: doing(async () => { await ask("DELETE", `annotations/${named(job.id)}`); await this.follow(); })},
        state === "running" ? words.drawing.stop : words.remove)));
  }

  /** Shows what is done, and asks again while something is. */
  async follow() {
    clearTimeout(this.timer);
    if (this.left) return;
    const jobs = (await get("annotations")).filter(job => job.dataset === this.name), goesOn = jobs.some(job => job.state !== "ended"), now = JSON.stringify(jobs);
    if (now !== this.shown) this.list.replaceChildren(...jobs.map(job => this.row(job)));
    if (this.shown !== undefined && now !== this.shown) await this.changed();
    this.shown = now;
    if (goesOn && !this.left) this.timer = setTimeout(() => this.follow().catch(error => say(error.message, "bad")), 1500);
  }
}
