// Models: those on this machine, and those on their way from a hub.

/** What the workspace and the caches of hubs hold, once it is known; the program needs a second or two to look. */
class Models {
  /** `demo` is the one that comes with the program, or null. */
  constructor(demo) {
    this.demo = demo ? [{name: demo.model, title: demo.title, family: demo.family, bytes: demo.bytes}] : [];
    this.here = this.demo;
    this.published = [];
    this.changed = () => {};
    this.isKnown = false;  // what else is here
    this.list = h("datalist", {id: "models"});
    this.note = h("div", {class: "model-note", role: "status"});
    this.name = "";
    this.look().catch(error => say(error.message, "bad"));
  }

  async look() {
    const {here, published} = await get("models");
    this.here = [...here, ...this.demo.filter(one => !here.some(other => other.name === one.name))];
    this.published = published;
    this.isKnown = true;
    const ids = published.filter(one => !here.some(model => model.name === one.id));
    this.list.replaceChildren(...this.here.map(one => h("option", {value: one.name}, `${one.title}, ${bytes(one.bytes)}`)), ...ids.map(one => h("option", {value: one.id}, one.title)));
    this.changed();
  }

  /** The published model of an id that is not on this machine. */
  away(id) { return this.here.some(one => one.name === id) ? undefined : this.published.find(one => one.id === id); }

  /** Says of a name what it is, and how to have it where it is not here. */
  show(name) {
    const isNew = name !== this.name;
    this.name = name;
    const here = this.here.find(one => one.name === name), published = this.published.find(one => one.id === name || one.name === name);
    if (here) return this.note.replaceChildren();
    const isId = published || /^[\w.-]+\/[\w.-]+$/.test(name) && !/^\.\.?\//.test(name);
    if (!isId) return this.note.replaceChildren();
    if (!isNew && this.note.children.length > 0) return;
    const id = published?.id ?? name, size = h("p", {class: "explain", hidden: true});
    this.note.replaceChildren(h("p", {class: "explain"}, words.modelAway(published?.title ?? id)), size, h("div", {class: "actions"},
      h("button", {type: "button", onclick: doing(async () => {
        const amount = await post("models/size", {name: id});
        size.hidden = false;
        size.textContent = words.modelSize(bytes(amount.bytes), bytes(amount.missing_bytes));
      })}, words.howLarge),
      h("button", {type: "button", onclick: doing(async () => { await post("fetches", {name: id}); await this.follow(id); })}, words.fetch)));
  }

  /** Shows how far a model is on its way, until it is here. */
  async follow(id) {
    const line = h("p", {class: "explain number"}), bar = h("i", {style: "width: 0"}), meter = h("div", {class: "meter wide", role: "progressbar", "aria-label": words.fetch, "aria-valuemin": 0, "aria-valuemax": 100}, bar), stop = h("button", {type: "button", onclick: doing(() => post("fetches/stop", {name: id}))}, words.stopFetch);
    this.note.replaceChildren(line, meter, stop);
    for (;;) {
      const fetch = (await get("fetches")).find(one => one.name === id);
      if (!fetch || !line.isConnected) return;
      line.textContent = fetch.says || words.fetching;
      const share = Math.round(100 * shareOf(fetch.says));
      bar.style.width = `${share}%`;
      meter.setAttribute("aria-valuenow", share);
      if (fetch.state !== "ended") {
        await new Promise(resolve => { setTimeout(resolve, 1000); });
        continue;
      }
      stop.remove();
      if (fetch.exit_code !== 0) line.className = "problem";
      if (fetch.exit_code === 0) await this.look();
      return;
    }
  }
}
