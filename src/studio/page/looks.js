// What only pixels say of pictures: which look the same, and which are blurred; and how long clips are.

/** Asks until all were looked at. `changed` is called when something new is known of items, which are those of the page. */
class Looks {
  constructor(name, items, changed) {
    this.name = name;
    this.items = items;
    this.changed = changed;
    this.bits = h("input", {type: "range", min: 0, max: 24, value: 3, id: "alike-bits", onchange: doing(() => this.group())});
    this.progress = h("p", {class: "explain", role: "status"});
    this.element = h("div", {class: "controls", hidden: true}, h("label", {for: "alike-bits"}, words.howAlike), this.bits);
    this.element.append(this.progress);
  }

  async follow() {
    clearTimeout(this.timer);
    if (this.left) return;
    const {done, total, looks} = await get(`datasets/${named(this.name)}/looks`);
    this.progress.textContent = looks ? "" : words.lookedAt(done, total);
    if (!looks) {
      this.timer = setTimeout(() => this.follow().catch(error => say(error.message, "bad")), total > 500 ? 3000 : 700);
      return;
    }
    for (const item of this.items()) {
      const {height, width, ...look} = looks[item.file] ?? {};
      Object.assign(item, look, item.is_clip && width ? {height, width} : {}, {problem: item.problem || look.problem || ""});
    }
    await this.group();
  }

  leave() {
    this.left = true;
    clearTimeout(this.timer);
  }

  /** Groups of those that differ by at most so many of 64 bits from another one. */
  async group() {
    const groups = await get(`datasets/${named(this.name)}/alike?bits=${this.bits.value}`), of = new Map(groups.flatMap((files, i) => files.map(file => [file, i + 1])));
    for (const item of this.items()) item.group = of.get(item.file) ?? 0;
    this.changed();
  }

  /** Of each group all that are in but the best: with a caption and a mask before those without, then the largest. */
  smaller() {
    const groups = new Map(), work = item => (item.caption ? 1 : 0) + (item.mask === null ? 0 : 1);
    for (const item of this.items()) if (item.group > 0 && !item.is_left_out) groups.set(item.group, [...groups.get(item.group) ?? [], item]);
    return [...groups.values()].flatMap(items => items.sort((a, b) => work(b) - work(a) || b.width * b.height - a.width * a.height || b.bytes - a.bytes).slice(1));
  }
}
