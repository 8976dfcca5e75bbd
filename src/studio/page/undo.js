// What was done on a page and can be taken back, by the button that says so, by the page's own, and by Ctrl+Z.

class Undo {
  /** `changed` is called when there is something else to take back. */
  constructor(changed = () => {}) {
    this.steps = [];
    this.changed = changed;
    this.onKey = event => {
      if (event.key !== "z" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.target.closest("input, textarea, dialog") || this.steps.length === 0) return;
      event.preventDefault();
      this.back().catch(error => say(error.message, "bad"));
    };
    addEventListener("keydown", this.onKey);
  }

  leave() { removeEventListener("keydown", this.onKey); }

  get isEmpty() { return this.steps.length === 0; }

  /** Keeps how something is taken back; a text is said, with a button beside it. */
  add(back, text = "") {
    this.steps.push(back);
    this.changed();
    if (text) say(text, "", {title: words.undo, act: () => this.back(back)});
  }

  /** Takes back what was done last, or one thing that is named by how it is taken back. */
  async back(step = this.steps.at(-1)) {
    if (!this.steps.includes(step)) return;
    this.steps = this.steps.filter(one => one !== step);
    await step();
    this.changed();
  }
}

/** Moves something to the bin by a request, and brings it back when that is asked for. `after` is called when either is done. */
async function throwAway(path, name, undo, after) {
  const {bin} = await ask("DELETE", path);
  undo.add(async () => {
    await post("bin/back", {id: bin});
    await after();
  }, words.binned(name));
  await after();
}
