// Datasets: pictures as they lie, with captions that are edited in place.

const byName = new Intl.Collator(undefined, {numeric: true});
const orders = {
  name: (a, b) => byName.compare(a.file, b.file), size: (a, b) => b.width * b.height - a.width * a.height, shape: (a, b) => a.width / Math.max(1, a.height) - b.width / Math.max(1, b.height),
  caption: (a, b) => (a.caption ?? "").length - (b.caption ?? "").length, blur: (a, b) => (a.sharpness ?? Infinity) - (b.sharpness ?? Infinity),
};
const filters = {
  all: () => true, captionless: item => !item.caption, left: item => item.is_left_out, unreadable: item => item.problem !== "", masked: item => item.mask !== null, maskless: item => item.mask === null, alike: item => item.group > 0,
  clips: item => item.is_clip, small: item => item.width > 0 && Math.min(item.width, item.height) < 512,
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
    this.grid = new Grid(item => this.cell(item), 364);
    this.count = h("p", {class: "explain", role: "status"});
    this.search = h("input", {type: "search", placeholder: words.searchCaptions, "aria-label": words.searchCaptions, oninput: () => this.show()});
    this.cuts = new Cuts(name, () => this.show());
    this.looks = new Looks(name, () => this.items, () => this.show());
    this.looks.element.append(h("button", {type: "button", onclick: doing(() => this.leaveOut(this.looks.smaller(), true))}, words.leaveOutSmaller));
    this.annotator = new Annotator(name, () => this.readItems());
    this.tags = h("div", {class: "chips", role: "group", "aria-label": words.tags});
    this.undoButton = h("button", {type: "button", disabled: true, onclick: doing(() => this.takeBack())}, words.undo);
    const select = (choices, change, label) => h("select", {"aria-label": label, onchange: event => { change(event.target.value); this.show(); }},
      ...Object.entries(choices).map(([value, text]) => h("option", {value}, text)));
    this.find = h("input", {"aria-label": words.find, placeholder: words.find});
    this.replacement = h("input", {"aria-label": words.replacement, placeholder: words.replacement});
    const files = h("input", {type: "file", multiple: true, hidden: true, onchange: event => this.add(event.target.files)});
    this.element = h("div", {class: "dataset", ondragover: event => event.preventDefault(), ondrop: event => { event.preventDefault(); droppedFiles(event.dataTransfer).then(dropped => this.add(dropped.map(([, file]) => file))).catch(error => say(error.message, "bad")); }},
      h("div", {class: "section-head"}, h("h1", {}, name), h("span", {class: "actions"}, ...this.annotator.buttons, h("button", {type: "button", onclick: () => files.click()}, words.add), files, this.undoButton)),
      this.annotator.element, this.count,
      h("div", {class: "controls"}, this.search, select(words.orders, value => { this.order = value; }, words.order), select(words.filters, value => { this.filter = value; }, words.filter), this.cuts.element),
      this.cuts.note, this.looks.element,
      h("div", {class: "controls"}, this.find, this.replacement, h("button", {type: "button", onclick: doing(() => this.replace())}, words.replace),
        h("button", {type: "button", onclick: doing(() => this.prefix())}, words.prefix)),
      this.tags, h("p", {class: "drop explain"}, words.drop), this.grid.element);
  }

  async read() {
    await this.readItems();
    await this.looks.follow();
  }

  /** What files say, beside what was seen of pictures before. */
  async readItems() {
    const before = new Map(this.items.map(item => [item.file, item])), items = await get(`datasets/${named(this.name)}/items`);
    this.items = items.map(item => Object.assign(before.get(item.file) ?? {}, item));
    this.show();
  }

  leave() {
    this.annotator.leave();
    this.grid.leave();
    this.looks.leave();
  }

  shown() {
    const wish = this.search.value.trim().toLowerCase();
    const order = this.filter === "alike" ? (a, b) => a.group - b.group || orders.size(a, b) : this.order === "bucket" ? (a, b) => this.bucketOf(a) - this.bucketOf(b) : orders[this.order];
    return this.items.filter(filters[this.filter]).filter(item => this.cuts.shows(item)).filter(item => !this.tag || tagsOf(item.caption).includes(this.tag))
      .filter(item => !wish || `${item.file} ${item.caption ?? ""}`.toLowerCase().includes(wish)).sort(order);
  }

  /** A number by which those of one bucket stand together, the narrowest first. */
  bucketOf(item) {
    const [cut] = this.cuts.of(item);
    return cut ? cut.width * 1e6 + cut.height : Infinity;
  }

  show() {
    const shown = this.shown(), without = this.items.filter(item => !item.caption && !item.is_left_out).length;
    this.count.textContent = words.countOf(this.items.length, shown.length, without);
    this.grid.set(shown);
    this.cuts.count(this.items);
    this.looks.element.hidden = this.filter !== "alike";
    const counts = new Map();
    for (const item of this.items) for (const tag of tagsOf(item.caption)) counts.set(tag, (counts.get(tag) ?? 0) + 1);
    const most = [...counts].filter(([, count]) => count > 1 || counts.size < 12).sort((a, b) => b[1] - a[1]).slice(0, 40);
    this.tags.replaceChildren(...most.map(([tag, count]) => h("button", {type: "button", class: "chip", "aria-pressed": String(tag === this.tag),
      onclick: () => { this.tag = this.tag === tag ? "" : tag; this.show(); }}, tag, h("span", {class: "number"}, ` ${count}`))));
    this.undoButton.disabled = this.undo.length === 0;
  }

  path(item) { return `datasets/${named(this.name)}/items/${named(item.file)}`; }

  /** The picture with what is laid over it. */
  thumbnail(item) {
    if (item.problem) return h("p", {class: "problem"}, item.problem);
    const mask = item.mask === null ? null : h("img", {class: "over", src: `/api/${this.path(item)}/mask?side=320&v=${item.mask}`, alt: "", draggable: "false"});
    return h("div", {class: "shot"}, h("img", {src: `/api/${this.path(item)}/thumbnail`, alt: item.caption || item.file, draggable: "false"}), mask,
      ...this.cuts.frames(item), item.is_clip ? h("button", {type: "button", class: "play", "aria-label": `${words.play}: ${item.file}`, onclick: event => this.play(item, event.currentTarget)}, "▶") : null);
  }

  /** The clip in the place of its first frame, where the browser knows its format. */
  play(item, button) {
    const video = h("video", {src: `/api/${this.path(item)}/file`, controls: true, autoplay: true, loop: true, playsinline: true, "aria-label": item.file});
    video.addEventListener("error", () => { video.replaceWith(button); say(words.cannotPlay(item.file), "bad"); });
    button.replaceWith(video);
    video.focus();
  }

  cell(item) {
    const act = (text, sign, action) => h("button", {type: "button", title: text, "aria-label": `${text}: ${item.file}`, "data-key": `${text}: ${item.file}`, onclick: doing(action)}, sign);
    const caption = h("textarea", {"data-file": item.file, "data-key": item.file, "aria-label": `${words.caption}: ${item.file}`, placeholder: words.noCaption, spellcheck: "true",
      onchange: doing(event => this.write({[item.file]: event.target.value}))});
    caption.value = item.caption ?? "";
    return h("figure", {class: `item ${item.is_left_out ? "out" : ""}`, role: "listitem"}, h("div", {class: "thumb-box"}, this.thumbnail(item)),
      h("figcaption", {}, h("span", {class: "file", title: item.file}, item.file),
        item.problem ? null : act(words.mask, "◐", () => this.drawMask(item)),
        act(item.is_left_out ? words.takeIn : words.leaveOut, item.is_left_out ? "↺" : "–", () => this.leaveOut([item], !item.is_left_out)),
        act(words.bin, "×", async () => {
          await ask("DELETE", this.path(item));
          this.items = this.items.filter(one => one !== item);
          this.show();
        })),
      h("p", {class: "facts-line explain number"}, this.facts(item)), caption);
  }

  facts(item) {
    return [item.width > 0 ? `${item.width} × ${item.height}` : "", this.cuts.facts(item), item.frames ? words.ofClip(item.frames, item.seconds) : "",
      this.filter === "alike" ? words.group(item.group) : "", this.order === "blur" && item.sharpness !== undefined ? words.sharpness(item.sharpness) : ""].filter(Boolean).join(" · ");
  }

  async drawMask(item) {
    await new MaskEditor(this.path(item), item, takeBack => {
      this.undo.push(async () => { await takeBack(); this.grid.renew(item); });
      this.show();
    }).open();
  }

  async leaveOut(items, out, isUndo = false) {
    await post(`datasets/${named(this.name)}/leave_out`, {files: items.map(item => item.file), out});
    for (const item of items) item.is_left_out = out;
    if (!isUndo) this.undo.push(() => this.leaveOut(items, !out, true));
    this.show();
  }

  /** Writes captions by file, and keeps what stood there. */
  async write(captions, isUndo = false) {
    const {before} = await post(`datasets/${named(this.name)}/captions`, {captions});
    for (const item of this.items) if (item.file in captions) item.caption = captions[item.file].trim() || null;
    if (!isUndo) this.undo.push(() => this.write(before, true));
    this.show();
  }

  async takeBack() {
    await this.undo.pop()();
    this.undoButton.disabled = this.undo.length === 0;
  }

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
    let count = 0, sent = 0;
    for (const file of files) {
      this.count.textContent = words.adding(sent++, files.length);
      const response = await fetch(`/api/datasets/${named(this.name)}/files/${named(file.name)}`, {method: "PUT", body: file}), answer = await response.json().catch(() => ({}));
      if (response.ok) count += answer.added;
      else say(answer.sentence ?? words.notAdded(file.name), "bad");
      if (answer.passed_over?.length > 0) say(words.passedOver(answer.passed_over.length, answer.passed_over[0]), "bad");
    }
    if (count > 0) say(words.added(count));
    await this.read();
  }
}

async function showData(view, query) {
  const name = query.get("set");
  if (name) {
    const page = new DatasetPage(name);
    view.replaceChildren(page.element);
    const seen = Promise.all([page.read(), page.cuts.offer()]);
    seen.catch(error => say(error.message, "bad"));
    return () => page.leave();
  }
  const wish = h("input", {"aria-label": words.newDataset, placeholder: words.newDataset}), folder = h("input", {"aria-label": words.linkFolder, placeholder: words.linkFolder, class: "folder"});
  const make = doing(async () => {
    const path = folder.value.trim(), made = await post("datasets", {name: wish.value.trim() || path.replace(/\/+$/, "").split("/").pop(), folder: path});
    location.hash = `#/data?set=${named(made.name)}`;
  });
  const list = h("div", {});
  const refresh = async () => {
    const sets = await get("datasets");
    list.replaceChildren(sets.length === 0 ? h("p", {class: "explain"}, words.noData) : h("ul", {class: "sets"}, ...sets.map(one => {
      const text = one.folder ? words.unlink : words.bin;
      return h("li", {}, h("a", {href: `#/data?set=${named(one.name)}`}, one.name), one.folder ? h("span", {class: "explain linked"}, words.linkedTo(one.folder)) : null,
        one.problem ? h("span", {class: "problem"}, one.problem) : h("span", {class: "explain number"}, words.ofSet(one.items, one.captions)),
        h("button", {type: "button", "aria-label": `${text}: ${one.name}`, onclick: doing(async () => {
          if (!confirm(one.folder ? words.unlinkSure(one.name) : words.binDataSure(one.name))) return;
          await ask("DELETE", `datasets/${named(one.name)}`);
          await refresh();
        })}, text));
    })));
  };
  view.replaceChildren(h("div", {class: "section-head"}, h("h1", {}, words.datasets),
    h("form", {class: "actions", onsubmit: event => event.preventDefault()}, wish, folder, h("button", {class: "primary", onclick: make}, words.make))), list);
  await refresh();
}
