// A choice of one among tiles, each with a name, what is to be known of it, and pictures.

class Tiles {
  /** `choose` is given the value of the tile that somebody takes. */
  constructor(name, label, choose) {
    this.name = name;
    this.choose = choose;
    this.element = h("div", {class: "tiles", role: "radiogroup", "aria-label": label});
    this.list = new KeptList(this.element, one => one.value, one => this.tile(one));
  }

  tile({value, title, note, mark = null, pictures = [], isEmpty = false}) {
    const shots = pictures.map(src => h("img", {src, alt: "", loading: "lazy"}));
    return h("label", {class: "tile"}, h("input", {type: "radio", name: this.name, value, onchange: () => this.choose(value)}),
      shots.length > 0 ? h("span", {class: "tile-shots"}, ...shots) : isEmpty ? h("span", {class: "tile-shots"}) : null,
      h("span", {class: "tile-words"}, h("strong", {}, title), note ? h("span", {class: "explain"}, note) : null, mark ? h("span", {class: fitClass(mark)}, fitText(mark)) : null));
  }

  /** Shows tiles, of which one is chosen, or none. */
  show(tiles, chosen) {
    this.list.show(tiles);
    for (const input of this.element.querySelectorAll("input")) input.checked = input.value === chosen;
  }
}

const thumbnailUrl = (dataset, file) => `${root}api/datasets/${named(dataset)}/items/${named(file)}/thumbnail`;

/** A dataset as a tile. */
const datasetTile = one => ({value: one.name, title: one.name, note: one.problem || words.ofSet(one.items, one.captions), isEmpty: true, pictures: (one.first ?? []).map(file => thumbnailUrl(one.name, file))});
