// The datasets of the workspace.

/** The form that makes a dataset: by its name, of files, or of a folder on this machine. */
function newDataset() {
  const wish = h("input", {id: "dataset-name", autocomplete: "off", spellcheck: "false"}), folder = h("input", {id: "dataset-folder", class: "folder", autocomplete: "off", spellcheck: "false"});
  const make = doing(async () => {
    const path = folder.value.trim(), made = await post("datasets", {name: wish.value.trim() || path.replace(/\/+$/, "").split("/").pop(), folder: path});
    location.hash = `#/data?set=${named(made.name)}`;
  });
  const link = h("details", {}, h("summary", {}, words.useFolder), h("div", {class: "field"}, h("label", {for: "dataset-folder"}, words.linkFolder), folder, h("p", {class: "explain"}, words.linkNote)));
  return h("form", {class: "new-dataset", hidden: true, onsubmit: event => event.preventDefault()}, h("div", {class: "field"}, h("label", {for: "dataset-name"}, words.newDataset), wish), link, h("button", {class: "primary", onclick: make}, words.make));
}

class DatasetsPage {
  constructor() {
    this.undo = new Undo();
    this.form = newDataset();
    this.add = h("button", {type: "button", class: "primary", "aria-expanded": "false", onclick: () => this.open(this.form.hidden)}, words.addDataset);
    this.none = h("p", {class: "explain"}, words.noData);
    this.grid = h("ul", {class: "sets-grid"});
    this.list = new KeptList(this.grid, one => one.name, one => this.tile(one));
    this.element = h("div", {}, h("div", {class: "section-head"}, h("h1", {}, words.datasets), this.add), this.form, this.none, this.grid);
  }

  open(is) {
    this.form.hidden = !is;
    this.add.setAttribute("aria-expanded", String(is));
    if (is) this.form.querySelector("input").focus();
  }

  tile(one) {
    const text = one.folder ? words.unlink : words.bin, address = `#/data?set=${named(one.name)}`;
    return h("li", {class: "set"}, h("a", {href: address}, h("span", {class: "tile-shots"}, ...(one.first ?? []).map(file => h("img", {src: thumbnailUrl(one.name, file), alt: "", loading: "lazy"}))),
      h("span", {class: "tile-words"}, h("strong", {}, one.name), one.problem ? h("span", {class: "problem"}, one.problem) : h("span", {class: "explain number"}, words.ofSet(one.items, one.captions)), one.folder ? h("span", {class: "explain linked"}, words.linkedTo(one.folder)) : null)),
    h("span", {class: "actions"}, one.items > 0 ? h("a", {class: "button", href: `#/new?dataset=${named(one.name)}`, "aria-label": `${words.trainOn}: ${one.name}`}, words.trainOn) : null,
      h("button", {type: "button", "aria-label": `${text}: ${one.name}`, onclick: doing(() => this.remove(one))}, text)));
  }

  /** A link alone goes; its folder stays as it is. What lies here goes into the bin. */
  async remove(one) {
    const path = `datasets/${named(one.name)}`;
    if (!one.folder) return throwAway(path, one.name, this.undo, () => this.refresh());
    await ask("DELETE", path);
    this.undo.add(async () => { await post("datasets", {name: one.name, folder: one.folder}); await this.refresh(); }, words.unlinked(one.name));
    await this.refresh();
  }

  async refresh() {
    const sets = await get("datasets");
    this.none.hidden = sets.length > 0;
    this.list.show(sets);
  }
}

async function showData(view, query) {
  const name = query.get("set");
  if (name) {
    const page = new DatasetPage(name);
    view.replaceChildren(page.element);
    Promise.all([page.read(), page.cuts.offer()]).catch(error => {
      if (error.status !== 404) return say(error.message, "bad");
      page.leave();
      view.replaceChildren(h("h1", {}, words.noSuchDataset(name)), h("p", {}, h("a", {href: "#/data"}, words.datasets)));
    });
    return () => page.leave();
  }
  const page = new DatasetsPage();
  view.replaceChildren(page.element);
  const stop = poll(() => page.refresh(), 4000);
  return () => { stop(); page.undo.leave(); };
}
