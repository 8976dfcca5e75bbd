// Choosing between two pictures of a drawing: what is liked becomes a dataset of pairs to train on.

/** Where choices go; it stays while pages are left and come back to. */
let likedDataset = "";

/** Pairs between which nobody chose yet: of each prompt and size a picture and the next one. */
function pairsOf({cells, pictures, choices}) {
  const groups = new Map(), judged = new Set(choices.map(pair => String([...pair].sort((a, b) => a - b))));
  for (const cell of cells) {
    const key = JSON.stringify([cell.prompt, cell.size]), group = groups.get(key) ?? [];
    if (pictures[cell.picture] && !group.includes(cell.picture)) groups.set(key, [...group, cell.picture]);
  }
  const pairs = [...groups.values()].flatMap(group => group.flatMap((one, i) => i === 0 ? [] : [[group[i - 1], one]]).concat(group.length > 2 ? [[group.at(-1), group[0]]] : []));
  return pairs.filter(pair => !judged.has(String([...pair].sort((a, b) => a - b))));
}

/** A dialog that shows two pictures at a time. Arrow keys choose, the key down goes on without a choice. */
class Chooser {
  constructor(image) {
    this.image = image;
    this.element = h("dialog", {class: "viewer chooser", "aria-label": words.choosing.title, onkeydown: event => {
      const at = ["ArrowLeft", "ArrowRight"].indexOf(event.key);
      if (event.target.tagName === "INPUT" || (at < 0 && event.key !== "ArrowDown")) return;
      event.preventDefault();
      this.take(at).catch(error => say(error.message, "bad"));
    }});
  }

  open(drawing) {
    this.drawing = drawing;
    this.pairs = pairsOf(drawing);
    this.count = 0;
    likedDataset ||= `${drawing.name}-liked`;
    this.show();
    this.element.showModal();
    this.element.querySelector("button.picture")?.focus();
  }

  show() {
    const t = words.choosing, {cells, pictures, name} = this.drawing, pair = this.pairs[0];
    const close = h("button", {type: "button", onclick: () => this.element.close()}, words.drawing.close);
    if (!pair) {
      this.element.replaceChildren(h("p", {role: "status"}, t.done(this.count)), h("div", {class: "actions"},
        this.count > 0 || this.drawing.choices.length > 0 ? h("a", {class: "button primary", href: `#/new?task=dpo&dataset=${named(likedDataset)}${this.drawing.settings.run ? `&run=${named(this.drawing.settings.run)}` : ""}`, onclick: () => this.element.close()}, t.train) : null, close));
      return;
    }
    const dataset = h("input", {id: "choose-dataset", value: likedDataset, autocomplete: "off", spellcheck: "false", oninput: event => { likedDataset = event.target.value.trim(); }});
    this.element.replaceChildren(h("p", {class: "explain"}, cells.find(cell => cell.picture === pair[0]).prompt),
      h("div", {class: "choice"}, ...pair.map((number, at) => h("button", {type: "button", class: "picture", "aria-label": at === 0 ? t.left : t.right, onclick: doing(() => this.take(at))}, this.image(pictures[number], "")))),
      h("p", {class: "explain", role: "status"}, t.leftOver(this.pairs.length)),
      h("div", {class: "actions"}, h("label", {for: "choose-dataset"}, t.dataset), dataset, h("button", {type: "button", onclick: doing(() => this.take(-1))}, t.neither), close));
  }

  /** Of the two the first (0) or the second (1) is liked more; -1 for neither. */
  async take(at) {
    const pair = this.pairs[0];
    if (!pair || this.sending) return;
    this.sending = true;
    try {
      if (at >= 0) {
        await post(`drawings/${named(this.drawing.name)}/choices`, {dataset: likedDataset, chosen: pair[at], rejected: pair[1 - at]});
        this.count += 1;
      }
      this.pairs.shift();
      this.show();
      this.element.querySelector("button.picture, a.primary, button")?.focus();
    } finally {
      this.sending = false;
    }
  }
}
