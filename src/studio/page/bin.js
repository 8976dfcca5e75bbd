// The bin: what was deleted anywhere in the studio, and comes back from here.

class BinPage {
  constructor() {
    const t = words.binPage;
    this.rows = h("ul", {class: "sets bin-rows"});
    this.list = new KeptList(this.rows, one => one.id, one => this.row(one));
    this.none = h("p", {class: "explain", hidden: true}, t.none);
    this.element = h("div", {}, h("div", {class: "section-head"}, h("h1", {}, t.title)), h("p", {class: "explain"}, t.note), this.none, this.rows);
  }

  /** "datasets/faces/koala.png" is koala.png of the dataset faces. */
  row(one) {
    const t = words.binPage, [place, ...names] = one.from.split("/"), name = names.at(-1) ?? place, whose = names.slice(0, -1).join("/");
    const back = doing(async () => { await post("bin/back", {id: one.id}); say(t.isBack(name)); await this.refresh(); });
    return h("li", {}, h("span", {class: "file"}, name, h("span", {class: "explain"}, ` ${[t.places[place] ?? place, whose].filter(Boolean).join(" · ")}`)), h("span", {class: "explain number"}, new Date(1000 * one.when).toLocaleString()),
      h("button", {type: "button", "aria-label": `${t.bringBack}: ${one.from}`, onclick: back}, t.bringBack));
  }

  async refresh() {
    const all = await get("bin");
    this.none.hidden = all.length > 0;
    this.list.show(all);
  }
}

function showBin(view) {
  const page = new BinPage();
  view.replaceChildren(page.element);
  return poll(() => page.refresh(), 4000);
}

const binnedKey = "burnish.binned";

/** Says on the next page that something is in the bin: the page that it had is gone. */
const tellOfBin = (bin, name) => sessionStorage.setItem(binnedKey, JSON.stringify({bin, name}));

/** What the page before moved to the bin can be brought back here. */
function hearOfBin(undo, after) {
  const told = JSON.parse(sessionStorage.getItem(binnedKey) ?? "null");
  sessionStorage.removeItem(binnedKey);
  if (told) undo.add(async () => { await post("bin/back", {id: told.bin}); await after(); }, words.binned(told.name));
}
