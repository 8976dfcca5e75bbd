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

/** One dataset: what is shown of it, and what was changed, so that it can be taken back. */
class DatasetPage {
  constructor(name) {
    this.name = name;
    this.items = [];
    this.undo = new Undo(() => { this.undoButton.disabled = this.undo.isEmpty; });
    this.captions = new Captions(name, file => this.items.find(item => item.file === file), this.undo, isTyped => this.wrote(isTyped));
    this.order = "name";
    this.filter = "all";
    this.tag = "";
    this.areTags = false;
    this.allTags = h("datalist", {id: "all-tags"});
    this.grid = new Grid(item => this.cell(item), 396);
    this.count = h("p", {class: "explain", role: "status"});
    this.search = h("input", {type: "search", id: "caption-search", oninput: () => this.show()});
    this.cuts = new Cuts(name, () => this.show());
    this.looks = new Looks(name, () => this.items, () => this.show());
    this.looks.element.append(h("button", {type: "button", onclick: doing(() => this.leaveOut(this.looks.smaller(), true))}, words.leaveOutSmaller));
    this.annotator = new Annotator(name, () => this.readItems());
    this.tags = h("div", {class: "chips", role: "group", "aria-label": words.tags});
    this.undoButton = h("button", {type: "button", disabled: true, onclick: doing(() => this.undo.back())}, words.undo);
    this.upload = new Upload(() => this.readItems());
    this.edits = new CaptionForm(() => this.shown(), captions => this.captions.write(captions));
    this.trainButton = h("a", {class: "button primary", href: `#/new?dataset=${named(name)}`}, words.trainOn);
    const select = (id, choices, change, label) => h("span", {class: "labelled"}, h("label", {for: id}, label), h("select", {id, "aria-label": label, onchange: event => { change(event.target.value); this.show(); }},
      ...Object.entries(choices).map(([value, text]) => h("option", {value}, text))));
    const files = h("input", {type: "file", multiple: true, hidden: true, onchange: event => this.add([...event.target.files])});
    this.element = h("div", {class: "dataset", ondragover: event => event.preventDefault(), ondrop: event => { event.preventDefault(); droppedFiles(event.dataTransfer).then(dropped => this.add(dropped.map(([, file]) => file))).catch(error => say(error.message, "bad")); }},
      h("div", {class: "section-head"}, h("h1", {}, name), h("span", {class: "actions"}, this.undoButton, ...this.annotator.buttons, h("button", {type: "button", onclick: () => files.click()}, words.add), files, this.trainButton)),
      this.annotator.element, this.count, this.upload.element,
      h("div", {class: "controls"}, h("span", {class: "labelled"}, h("label", {for: "caption-search"}, words.searchCaptions), this.search), select("data-order", words.orders, value => { this.order = value; }, words.order),
        select("data-filter", words.filters, value => { this.filter = value; }, words.filter), select("caption-kind", words.captionKinds, value => { this.areTags = value === "tags"; this.grid.renewAll(); }, words.captionsAs), this.cuts.element, this.allTags),
      this.cuts.note, this.looks.element, this.edits.element, this.tags, h("p", {class: "drop explain"}, words.drop), this.grid.element);
  }

  async read() {
    await this.readItems();
    this.watch();
    await this.looks.follow();
  }

  /** What files say, beside what was seen of pictures before. */
  async readItems() {
    const before = new Map(this.items.map(item => [item.file, item])), items = await get(`datasets/${named(this.name)}/items`), text = JSON.stringify(items);
    if (text === this.text) return;
    this.text = text;
    for (const item of items) this.keepTyped(item, before.get(item.file));
    this.items = items.map(item => Object.assign(before.get(item.file) ?? {}, item));
    this.show();
  }

  /** A caption in whose field somebody writes stays what that began with, so that a change elsewhere is merged when it is sent. */
  keepTyped(item, before) {
    const field = document.activeElement;
    if (!before || field.tagName !== "TEXTAREA" || field.dataset.file !== item.file || item.caption === before.caption) return;
    if (field.value.trim() === (before.caption ?? "")) field.value = item.caption ?? "";
    else item.caption = before.caption;
  }

  /** What is changed elsewhere, in another tab or by a program, is shown: of large datasets less often, and never while something is on its way. */
  watch() {
    clearTimeout(this.watching);
    if (this.isLeft) return;
    this.watching = setTimeout(async () => {
      if (!document.hidden && this.captions.waiting.size === 0) await this.readItems().catch(() => {});
      this.watch();
    }, this.items.length > 2000 ? 15000 : 2500);
  }

  leave() {
    this.isLeft = true;
    clearTimeout(this.watching);
    this.captions.leave();
    this.undo.leave();
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
    const shown = this.shown();
    this.grid.set(shown);
    this.showFacts(shown);
  }

  /** Captions were written; while somebody types, pictures stay where they are. */
  wrote(isTyped) {
    this.text = "";
    if (isTyped) this.showFacts(this.shown());
    else this.show();
    for (const file of isTyped ? [document.activeElement.dataset.file ?? ""] : []) this.grid.element.querySelector(`[data-saved="${CSS.escape(file)}"]`)?.animate([{opacity: 1}, {opacity: 1}, {opacity: 0}], 2500);
  }

  /** How many there are, and their tags. */
  showFacts(shown) {
    const without = this.items.filter(item => !item.caption && !item.is_left_out).length;
    this.count.textContent = words.countOf(this.items.length, shown.length, without);
    this.trainButton.hidden = this.items.length === 0;
    this.cuts.count(this.items);
    this.looks.element.hidden = this.filter !== "alike";
    const counts = new Map();
    for (const item of this.items) for (const tag of tagsOf(item.caption)) counts.set(tag, (counts.get(tag) ?? 0) + 1);
    this.allTags.replaceChildren(...[...counts].sort((a, b) => b[1] - a[1]).slice(0, 500).map(([tag]) => h("option", {value: tag})));
    const most = [...counts].filter(([, count]) => count > 1 || counts.size < 12).sort((a, b) => b[1] - a[1]).slice(0, 40);
    this.tags.replaceChildren(...most.map(([tag, count]) => h("button", {type: "button", class: "chip", "aria-pressed": String(tag === this.tag),
      onclick: () => { this.tag = this.tag === tag ? "" : tag; this.edits.takeTag(this.tag); this.show(); }}, tag, h("span", {class: "number"}, ` ${count}`))));
  }

  path(item) { return `datasets/${named(this.name)}/items/${named(item.file)}`; }

  /** The picture with what is laid over it. */
  thumbnail(item) {
    if (item.problem) return h("p", {class: "problem"}, item.problem);
    const mask = item.mask === null ? null : h("img", {class: "over", src: `${root}api/${this.path(item)}/mask?side=320&v=${item.mask}`, alt: "", draggable: "false"});
    return h("div", {class: "shot"}, h("img", {src: `${root}api/${this.path(item)}/thumbnail${item.version ? `?v=${item.version}` : ""}`, alt: item.caption || item.file, draggable: "false"}), mask,
      ...this.cuts.frames(item), item.is_clip ? h("button", {type: "button", class: "play", "aria-label": `${words.play}: ${item.file}`, onclick: event => this.play(item, event.currentTarget)}, "▶") : null);
  }

  /** The clip in the place of its first frame, where the browser knows its format. */
  play(item, button) {
    const src = `${root}api/${this.path(item)}/file`;
    if (/\.(gif|webp)$/i.test(item.file)) return button.replaceWith(h("img", {src, class: "moving", alt: item.caption || item.file}));
    const video = h("video", {src, controls: true, autoplay: true, loop: true, playsinline: true, "aria-label": item.file});
    video.addEventListener("error", () => { video.replaceWith(button); say(words.cannotPlay(item.file), "bad"); });
    button.replaceWith(video);
    video.after(spectrogramOf(video, video.src));
    video.focus();
  }

  cell(item) {
    const act = (text, sign, action) => h("button", {type: "button", title: text, "aria-label": `${text}: ${item.file}`, "data-key": `${text}: ${item.file}`, onclick: doing(action)}, sign);
    const caption = h("textarea", {"data-file": item.file, "data-key": item.file, "aria-label": `${words.caption}: ${item.file}`, placeholder: words.noCaption, spellcheck: "true",
      oninput: event => this.captions.typed(item.file, event.target.value), onblur: () => this.captions.left().catch(error => say(error.message, "bad"))});
    caption.value = item.caption ?? "";
    return h("figure", {class: `item ${item.is_left_out ? "out" : ""}`, role: "listitem"}, h("div", {class: "thumb-box"}, this.thumbnail(item)),
      h("figcaption", {}, h("span", {class: "file", title: item.file}, item.file), h("span", {class: "saved", "data-saved": item.file, title: words.saved}, "✓"),
        item.problem || item.is_clip || !/\.(png|jpe?g|webp)$/i.test(item.file) ? null : act(words.crop, "✂", () => this.crop(item)),
        item.problem ? null : act(words.captionOne, "✎", () => this.annotator.open("caption", item)),
        item.problem ? null : act(words.mask, "◐", () => this.drawMask(item)),
        act(item.is_left_out ? words.takeIn : words.leaveOut, item.is_left_out ? "↺" : "–", () => this.leaveOut([item], !item.is_left_out)),
        act(words.bin, "×", () => throwAway(this.path(item), item.file, this.undo, () => this.readItems()))),
      h("p", {class: "facts-line explain number"}, this.facts(item)), this.areTags ? tagField(item, this.captions) : caption);
  }

  facts(item) {
    return [item.width > 0 ? `${item.width} × ${item.height}` : "", this.cuts.facts(item), item.frames ? words.ofClip(item.frames, item.seconds) : "",
      this.filter === "alike" ? words.group(item.group) : "", this.order === "blur" && item.sharpness !== undefined ? words.sharpness(item.sharpness) : ""].filter(Boolean).join(" · ");
  }

  async crop(item) {
    await new CropEditor(this.path(item), item, bin => {
      this.undo.add(async () => { await post(`${this.path(item)}/restore`, {bin}); await this.changedPicture(item); }, words.wasCropped(item.file));
      return this.changedPicture(item);
    }).open();
  }

  /** A picture has other pixels: what was seen of it, and its thumbnail, are of before. */
  async changedPicture(item) {
    item.version = Date.now();
    this.text = "";
    await this.readItems();
    this.grid.renew(item);
  }

  async drawMask(item) {
    await new MaskEditor(this.path(item), item, takeBack => {
      this.undo.add(async () => { await takeBack(); this.grid.renew(item); });
      this.show();
    }).open();
  }

  async leaveOut(items, out, isUndo = false) {
    await post(`datasets/${named(this.name)}/leave_out`, {files: items.map(item => item.file), out});
    for (const item of items) item.is_left_out = out;
    this.text = "";
    if (!isUndo) this.undo.add(() => this.leaveOut(items, !out, true), items.length === 1 ? (out ? words.wasLeftOut : words.wasTakenIn)(items[0].file) : "");
    this.show();
  }

  /** Adds files; tables among them say captions of pictures that are there, or come with them. */
  async add(files) {
    const tables = files.filter(file => isTable(file.name)), others = files.filter(file => !isTable(file.name));
    if (others.length > 0) await this.upload.send(this.name, others);
    for (const file of tables) {
      try {
        const found = captionsOfItems(captionsOfTable(file.name, await file.text()), this.items), count = Object.keys(found).length;
        if (count > 0) await this.captions.write(found);
        say(words.ofTable(count, file.name), count > 0 ? "" : "bad");
      } catch (error) {
        say(error.message, "bad");
      }
    }
    await this.read();
  }
}
