// The tags of a run, by which the list of runs finds it.

class RunTags {
  constructor(run) {
    this.run = run;
    this.tags = [];
    this.list = h("ul", {class: "tag-list", "aria-label": words.runTags});
    this.input = h("input", {id: "run-tag", placeholder: words.addRunTag, "aria-label": words.addRunTag, maxlength: 60, autocomplete: "off", onkeydown: event => {
      if (event.key !== "Enter" && event.key !== ",") return;
      event.preventDefault();
      this.add();
    }, onblur: () => this.add()});
    this.element = h("div", {class: "tags-of-run"}, this.list, this.input);
    this.draw();
  }

  /** What the run has, as it was told last. */
  show(tags) {
    if (JSON.stringify(tags) === JSON.stringify(this.tags) || this.isSending) return;
    this.tags = tags;
    this.draw();
  }

  draw() {
    this.list.replaceChildren(...this.tags.map(tag => h("li", {class: "run-tag"}, tag, h("button", {type: "button", class: "plain", "aria-label": words.removeRunTag(tag), onclick: () => this.keep(this.tags.filter(one => one !== tag))}, "×"))));
  }

  add() {
    const tag = this.input.value.trim();
    this.input.value = "";
    if (tag !== "" && !this.tags.includes(tag)) this.keep([...this.tags, tag]);
  }

  /** Tags that cannot be kept are not shown either. */
  async keep(tags) {
    const before = this.tags;
    this.tags = tags;
    this.isSending = true;
    this.draw();
    try {
      await post(`runs/${named(this.run)}/tags`, {tags});
    } catch (error) {
      this.tags = before;
      this.draw();
      say(error.message, "bad");
    } finally {
      this.isSending = false;
    }
  }
}
