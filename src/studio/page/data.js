// Datasets: pictures as they lie, with captions that are edited in place.

/** Rows of cells of one height of which only those in sight are there, so that ten thousand pictures are as quick as ten. */
class Grid {
  constructor(cell, height) {
    this.cell = cell;
    this.height = height;
    this.items = [];
    this.element = h("div", {class: "grid", role: "list"});
    this.look = () => this.draw();
    addEventListener("scroll", this.look, {passive: true});
    addEventListener("resize", this.look);
  }

  leave() {
    removeEventListener("scroll", this.look);
    removeEventListener("resize", this.look);
  }

  set(items) {
    this.items = items;
    this.drawn = null;
    this.draw();
  }

  draw() {
    const box = this.element.getBoundingClientRect(), columns = Math.max(1, Math.floor((box.width + 16) / 216)), rows = Math.ceil(this.items.length / columns);
    const first = Math.max(0, Math.floor(-box.top / this.height) - 2), last = Math.min(rows, Math.ceil((innerHeight - box.top) / this.height) + 2), range = `${columns} ${first} ${last}`;
    if (range === this.drawn) return;
    this.drawn = range;
    this.element.style.height = `${rows * this.height}px`;
    const focused = document.activeElement?.dataset?.file;
    const cells = this.items.slice(first * columns, last * columns).map((item, i) => {
      const cell = this.cell(item), at = first * columns + i;
      cell.style.cssText = `top: ${Math.floor(at / columns) * this.height}px; left: calc(${at % columns} * (100% + 16px) / ${columns}); width: calc((100% + 16px) / ${columns} - 16px); height: ${this.height - 16}px`;
      return cell;
    });
    this.element.replaceChildren(...cells);
    if (focused) this.element.querySelector(`textarea[data-file="${CSS.escape(focused)}"]`)?.focus();
  }
}

const orders = {
  name: (a, b) => a.file.localeCompare(b.file, undefined, {numeric: true}), size: (a, b) => b.width * b.height - a.width * a.height, shape: (a, b) => a.width / Math.max(1, a.height) - b.width / Math.max(1, b.height),
  caption: (a, b) => (a.caption ?? "").length - (b.caption ?? "").length,
};
const filters = {
  all: () => true, captionless: item => !item.caption, left: item => item.is_left_out, unreadable: item => item.problem !== "",
};

const tagsOf = caption => (caption ?? "").split(",").map(tag => tag.trim()).filter(Boolean);

/** One dataset: what is shown of it, and what was changed, so that it can be taken back. */
class DatasetPage {
  constructor(name) {
    this.name = name;
    this.items = [];
    this.undo = [];
    this.order = "name";
    this.filter = "all";
    this.tag = "";
    this.grid = new Grid(item => this.cell(item), 340);
    this.count = h("p", {class: "explain", role: "status"});
    this.search = h("input", {type: "search", placeholder: words.searchCaptions, "aria-label": words.searchCaptions, oninput: () => this.show()});
    this.tags = h("div", {class: "chips", role: "group", "aria-label": words.tags});
    this.undoButton = h("button", {type: "button", disabled: true, onclick: doing(() => this.takeBack())}, words.undo);
    const select = (choices, change, label) => h("select", {"aria-label": label, onchange: event => { change(event.target.value); this.show(); }},
      ...Object.entries(choices).map(([value, text]) => h("option", {value}, text)));
    this.find = h("input", {"aria-label": words.find, placeholder: words.find});
    this.replacement = h("input", {"aria-label": words.replacement, placeholder: words.replacement});
    const files = h("input", {type: "file", multiple: true, hidden: true, onchange: event => this.add(event.target.files)});
    this.element = h("div", {class: "dataset", ondragover: event => event.preventDefault(), ondrop: event => { event.preventDefault(); this.add(event.dataTransfer.files); }},
      h("div", {class: "section-head"}, h("h1", {}, name), h("span", {class: "actions"}, h("button", {type: "button", onclick: () => files.click()}, words.add), files, this.undoButton)),
      this.count,
      h("div", {class: "controls"}, this.search, select(words.orders, value => { this.order = value; }, words.order), select(words.filters, value => { this.filter = value; }, words.filter)),
      h("div", {class: "controls"}, this.find, this.replacement, h("button", {type: "button", onclick: doing(() => this.replace())}, words.replace),
        h("button", {type: "button", onclick: doing(() => this.prefix())}, words.prefix)),
      this.tags, h("p", {class: "drop explain"}, words.drop), this.grid.element);
  }

  async read() {
    this.items = await get(`datasets/${named(this.name)}/items`);
    this.show();
  }

  shown() {
    const wish = this.search.value.trim().toLowerCase();
    return this.items.filter(filters[this.filter]).filter(item => !this.tag || tagsOf(item.caption).includes(this.tag))
      .filter(item => !wish || `${item.file} ${item.caption ?? ""}`.toLowerCase().includes(wish)).sort(orders[this.order]);
  }

  show() {
    const shown = this.shown(), without = this.items.filter(item => !item.caption && !item.is_left_out).length;
    this.count.textContent = words.countOf(this.items.length, shown.length, without);
    this.grid.set(shown);
    const counts = new Map();
    for (const item of this.items) for (const tag of tagsOf(item.caption)) counts.set(tag, (counts.get(tag) ?? 0) + 1);
    const most = [...counts].filter(([, count]) => count > 1 || counts.size < 12).sort((a, b) => b[1] - a[1]).slice(0, 40);
    this.tags.replaceChildren(...most.map(([tag, count]) => h("button", {type: "button", class: "chip", "aria-pressed": String(tag === this.tag),
      onclick: () => { this.tag = this.tag === tag ? "" : tag; this.show(); }}, tag, h("span", {class: "number"}, ` ${count}`))));
    this.undoButton.disabled = this.undo.length === 0;
  }

  cell(item) {
    const path = `datasets/${named(this.name)}/items/${named(item.file)}`;
    const picture = item.problem ? h("p", {class: "problem"}, item.problem) : item.is_clip ? h("div", {class: "blank"}, words.clip) :
      h("img", {src: `/api/${path}/thumbnail`, alt: item.caption || item.file, loading: "lazy", draggable: "false"});
    const caption = h("textarea", {"data-file": item.file, "aria-label": `${words.caption}: ${item.file}`, placeholder: words.noCaption, spellcheck: "true",
      onchange: doing(event => this.write({[item.file]: event.target.value}))});
    caption.value = item.caption ?? "";
    const out = h("button", {type: "button", title: item.is_left_out ? words.takeIn : words.leaveOut, "aria-label": `${item.is_left_out ? words.takeIn : words.leaveOut}: ${item.file}`,
      onclick: doing(async () => { await post(`${path}/leave_out`, {out: !item.is_left_out}); item.is_left_out = !item.is_left_out; this.show(); })}, item.is_left_out ? "↺" : "–");
    const bin = h("button", {type: "button", title: words.bin, "aria-label": `${words.bin}: ${item.file}`, onclick: doing(async () => {
      await ask("DELETE", path);
      this.items = this.items.filter(one => one !== item);
      this.show();
    })}, "×");
    const size = item.width > 0 ? `${item.width} × ${item.height}` : "";
    return h("figure", {class: `item ${item.is_left_out ? "out" : ""}`, role: "listitem"}, h("div", {class: "thumb-box"}, picture),
      h("figcaption", {}, h("span", {class: "file", title: item.file}, item.file), h("span", {class: "explain number"}, size), out, bin), caption);
  }

  /** Writes captions by file, and keeps what stood there. */
  async write(captions, isUndo = false) {
    const {before} = await post(`datasets/${named(this.name)}/captions`, {captions});
    for (const item of this.items) if (item.file in captions) item.caption = captions[item.file].trim() || null;
    if (!isUndo) this.undo.push(before);
    this.show();
  }

  async takeBack() { await this.write(this.undo.pop(), true); }

  /** Of the captions that are shown. */
  async replace() {
    if (!this.find.value) return;
    const changed = this.shown().filter(item => item.caption?.includes(this.find.value));
    await this.write(Object.fromEntries(changed.map(item => [item.file, item.caption.replaceAll(this.find.value, this.replacement.value)])));
    say(words.changed(changed.length));
  }

  async prefix() {
    const text = this.find.value;
    if (!text) return;
    const changed = this.shown().filter(item => !(item.caption ?? "").startsWith(text));
    await this.write(Object.fromEntries(changed.map(item => [item.file, text + (item.caption ?? "")])));
    say(words.changed(changed.length));
  }

  async add(files) {
    let count = 0;
    for (const file of files) {
      const response = await fetch(`/api/datasets/${named(this.name)}/files/${named(file.name)}`, {method: "PUT", body: file});
      if (response.ok) ++count;
      else say((await response.json().catch(() => ({}))).sentence ?? words.notAdded(file.name), "bad");
      this.count.textContent = words.adding(count, files.length);
    }
    await this.read();
  }
}

async function showData(view, query) {
  const name = query.get("set");
  if (name) {
    const page = new DatasetPage(name);
    view.replaceChildren(page.element);
    await page.read();
    return () => page.grid.leave();
  }
  const list = await get("datasets"), wish = h("input", {"aria-label": words.newDataset, placeholder: words.newDataset});
  const make = doing(async () => {
    const made = await post("datasets", {name: wish.value.trim()});
    location.hash = `#/data?set=${named(made.name)}`;
  });
  view.replaceChildren(h("div", {class: "section-head"}, h("h1", {}, words.datasets), h("form", {class: "actions", onsubmit: event => event.preventDefault()}, wish, h("button", {class: "primary", onclick: make}, words.make))),
    list.length === 0 ? h("p", {class: "explain"}, words.noData) :
    h("ul", {class: "sets"}, ...list.map(one => h("li", {}, h("a", {href: `#/data?set=${named(one.name)}`}, one.name), h("span", {class: "explain number"}, words.ofSet(one.items, one.captions))))));
}
