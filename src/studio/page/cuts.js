// What a run cuts out of each picture, for which size: as the program itself says it of a run's settings.

const cutName = cut => `${cut.width} × ${cut.height}${cut.frames > 1 ? ` × ${cut.frames}` : ""}`;

/** The choice of settings and, once they are chosen, of a size. `changed` is called when items have other cuts, or others are to be shown. */
class Cuts {
  constructor(name, changed) {
    this.name = name;
    this.changed = changed;
    this.size = "";
    this.settings = h("select", {id: "cuts-of", "aria-label": words.cutsFor, onchange: doing(() => this.read())}, h("option", {value: ""}, words.noCuts));
    this.sizes = h("select", {"aria-label": words.sizes, hidden: true, onchange: event => { this.size = event.target.value; this.changed(); }});
    this.note = h("p", {class: "explain", role: "status", hidden: true});
    this.element = h("span", {class: "cuts-choice"}, h("span", {class: "labelled"}, h("label", {for: "cuts-of"}, words.cutsFor), this.settings), this.sizes);
  }

  /** Runs, jobs that wait, and what stands in the form. */
  async offer() {
    const [runs, queue] = await Promise.all([get("runs"), get("queue")]), group = (label, kind, names) => names.length === 0 ? null :
      h("optgroup", {label}, ...names.map(([value, text]) => h("option", {value: JSON.stringify({[kind]: value})}, text)));
    const draft = runDraft.read()?.settings, groups = [draft ? h("option", {value: JSON.stringify({settings: draft})}, words.draft) : null,
      group(words.waiting, "job", queue.jobs.filter(job => job.state === "waiting").map(job => [job.id, job.run])), group(words.runs, "run", runs.map(run => [run.name, run.name]))];
    this.settings.append(...groups.filter(Boolean));
  }

  async read() {
    this.size = "";
    this.cuts = null;
    this.note.hidden = this.settings.value === "";
    this.note.textContent = words.check;
    try {
      if (this.settings.value !== "") {
        const answer = await post(`datasets/${named(this.name)}/cuts`, JSON.parse(this.settings.value));
        if (!answer.cuts) throw new Error((answer.problems?.map(problem => problem.sentence).join(" ") ?? answer.sentence).replace(/^\[\w+\] /, ""));
        this.cuts = answer.cuts.files;
      }
      this.note.hidden = true;
    } catch (error) {
      this.note.textContent = error.message;
    }
    this.changed();
  }

  /** What is cut out of an item; nothing where that is not known, or the item is not used. */
  of(item) { return item.is_left_out ? [] : this.cuts?.[item.file] ?? []; }

  shows(item) {
    const cuts = this.of(item);
    if (this.size === "up") return cuts.some(cut => cut.is_scaled_up);
    if (this.size === "unused") return !item.is_left_out && cuts.length === 0;
    return this.size === "" || cuts.some(cut => cutName(cut) === this.size);
  }

  /** The sizes that there are, with how many pictures each has. */
  count(items) {
    this.sizes.hidden = !this.cuts;
    if (!this.cuts) return;
    const counts = new Map();
    for (const item of items) for (const name of new Set(this.of(item).map(cutName))) counts.set(name, (counts.get(name) ?? 0) + 1);
    const up = items.filter(item => this.of(item).some(cut => cut.is_scaled_up)).length, unused = items.filter(item => !item.is_left_out && this.of(item).length === 0).length;
    const choices = [["", words.allSizes(counts.size)], ...[...counts].sort((a, b) => b[1] - a[1]).map(([name, count]) => [name, `${name} (${whole(count)})`]),
      ...(up > 0 ? [["up", words.scaledUp(up)]] : []), ...(unused > 0 ? [["unused", words.unused(unused)]] : [])];
    this.sizes.replaceChildren(...choices.map(([value, text]) => h("option", {value, selected: value === this.size}, text)));
  }

  /** Frames over a thumbnail, each around what is cut out of the picture. */
  frames(item) {
    return this.of(item).map(cut => {
      const [left, top, width, height] = cut.window, share = (part, of) => `${100 * part / of}%`;
      return h("i", {class: "cut", style: `left: ${share(left, item.width)}; top: ${share(top, item.height)}; width: ${share(width, item.width)}; height: ${share(height, item.height)}`});
    });
  }

  facts(item) { return [...new Set(this.of(item).map(cut => `→ ${cutName(cut)}${cut.is_scaled_up ? " ↑" : ""}`))].join(" "); }
}
