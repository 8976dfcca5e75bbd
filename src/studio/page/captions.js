// Captions as they are typed, merged with what was changed elsewhere, and changed many at a time.

const tagsOf = caption => (caption ?? "").split(",").map(tag => tag.trim()).filter(Boolean);

/** What becomes of a caption that two changed: the other's, with the parts that were added here, without those that were removed here. */
function mergedCaption(base, mine, theirs) {
  const before = tagsOf(base), here = tagsOf(mine), there = tagsOf(theirs);
  const added = here.filter(tag => !before.includes(tag) && !there.includes(tag)), removed = before.filter(tag => !here.includes(tag));
  return [...there.filter(tag => !removed.includes(tag)), ...added].join(", ");
}

/** What can be done with all captions that are shown: each is given a caption, what is sought, and what takes its place. */
const captionEdits = {
  replace: (text, find, by) => text.replaceAll(find, by),
  regex: (text, find, by) => text.replace(new RegExp(find, "gu"), by),
  before: (text, find) => text.startsWith(find) ? text : find + text,
  after: (text, find) => text.endsWith(find) ? text : text + find,
  addTag: (text, find) => tagsOf(text).includes(find) ? text : [...tagsOf(text), find].join(", "),
  removeTag: (text, find) => tagsOf(text).includes(find) ? tagsOf(text).filter(tag => tag !== find).join(", ") : text,
  renameTag: (text, find, by) => tagsOf(text).includes(find) ? [...new Set(tagsOf(text).map(tag => tag === find ? by : tag))].join(", ") : text,
  lower: text => text.toLowerCase(),
};
const editsWithoutText = ["lower"], editsByText = ["replace", "regex", "renameTag"];

/** Writes captions of a dataset: half a second after the last key, at once where the field is left, and when the page is. */
class Captions {
  /** `changed` is called when captions were written, with whether somebody still types. */
  constructor(name, itemOf, undo, changed) {
    this.name = name;
    this.itemOf = itemOf;
    this.undo = undo;
    this.changed = changed;
    this.waiting = new Map();  // file: what stands in its field
    this.onHide = () => { if (document.hidden) this.send(true).catch(() => {}); };
    document.addEventListener("visibilitychange", this.onHide);
    addEventListener("pagehide", this.onHide);
  }

  leave() {
    this.send(true).catch(error => say(error.message, "bad"));
    document.removeEventListener("visibilitychange", this.onHide);
    removeEventListener("pagehide", this.onHide);
  }

  typed(file, text) {
    this.waiting.set(file, text);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.send().catch(error => say(error.message, "bad")), 500);
  }

  /** The field of a caption is left: what is typed there next is another change. */
  async left() {
    await this.send();
    this.session = null;
    this.changed(false);
  }

  /** Sends what waits. `isLast`: of a page that is being left. */
  async send(isLast = false) {
    clearTimeout(this.timer);
    const typed = [...this.waiting].filter(([file, text]) => this.itemOf(file) && text.trim() !== (this.itemOf(file).caption ?? ""));
    this.waiting.clear();
    if (typed.length === 0) return;
    const [[file]] = typed, isNew = this.session !== file;
    this.session = file;
    await this.write(Object.fromEntries(typed), {isUndone: !isNew, isLast, isTyped: true});
  }

  /** Writes captions by file, and keeps what stood there. One that was changed elsewhere meanwhile is merged with that. */
  async write(captions, {isUndone = false, isLast = false, isTyped = false} = {}) {
    const known = Object.fromEntries(Object.keys(captions).map(file => [file, this.itemOf(file)?.caption ?? ""]));
    const {before, other = {}} = await ask("POST", `datasets/${named(this.name)}/captions`, {captions, known}, isLast);
    for (const file of Object.keys(before)) {
      this.is(file, captions[file]);
      if (!isTyped) this.put(file);
    }
    if (!isUndone && Object.keys(before).length > 0) this.undo.add(() => this.write(before, {isUndone: true}));
    this.changed(isTyped);
    if (Object.keys(other).length > 0) await this.merge(captions, known, other);
    return Object.keys(before).length;
  }

  is(file, caption) {
    const item = this.itemOf(file);
    if (item) item.caption = caption.trim() || null;
  }

  /** A field in which somebody is shows what was written without him. */
  put(file) {
    const field = document.querySelector(`textarea[data-file="${CSS.escape(file)}"]`);
    if (field && !this.waiting.has(file)) field.value = this.itemOf(file)?.caption ?? "";
  }

  async merge(captions, known, other) {
    const merged = Object.fromEntries(Object.entries(other).map(([file, theirs]) => [file, mergedCaption(known[file], captions[file], theirs)]));
    for (const [file, theirs] of Object.entries(other)) this.is(file, theirs);
    await this.write(merged, {isUndone: true});
    this.undo.add(() => this.write(other, {isUndone: true}), words.merged(Object.keys(other)[0]));
    this.changed(false);
  }
}

/** The caption of one picture as its tags: each is taken out by a press, and more are typed behind them. */
function tagField(item, captions) {
  const write = tags => captions.write({[item.file]: tags.join(", ")});
  const chips = tagsOf(item.caption).map(tag => h("button", {type: "button", class: "chip", "aria-label": words.removeTagOf(tag, item.file), "data-key": `${item.file} ${tag}`, onclick: doing(() => write(tagsOf(item.caption).filter(one => one !== tag)))}, tag, h("span", {"aria-hidden": "true"}, " ×")));
  const input = h("input", {"aria-label": `${words.addTag}: ${item.file}`, "data-key": `${item.file} +`, placeholder: words.addTag, list: "all-tags", autocomplete: "off"});
  const add = doing(async () => {
    const typed = tagsOf(input.value).filter(tag => !tagsOf(item.caption).includes(tag));
    input.value = "";
    if (typed.length > 0) await write([...tagsOf(item.caption), ...typed]);
  });
  return h("form", {class: "tag-field", onsubmit: event => { event.preventDefault(); add(event).catch(error => say(error.message, "bad")); }}, ...chips, input);
}

/** The form that changes all captions which are shown. */
class CaptionForm {
  constructor(shown, write) {
    this.shown = shown;
    this.write = write;
    this.edit = h("select", {id: "caption-edit", onchange: () => this.show()}, ...Object.entries(words.edits).map(([value, text]) => h("option", {value}, text)));
    this.find = h("input", {id: "caption-find", autocomplete: "off"});
    this.by = h("input", {id: "caption-by", autocomplete: "off"});
    this.findField = h("span", {class: "labelled"}, h("label", {for: "caption-find"}, words.find), this.find);
    this.byField = h("span", {class: "labelled"}, h("label", {for: "caption-by"}, words.replacement), this.by);
    this.element = h("form", {class: "controls", onsubmit: event => event.preventDefault()}, h("span", {class: "labelled"}, h("label", {for: "caption-edit"}, words.editCaptions), this.edit),
      this.findField, this.byField, h("button", {onclick: doing(() => this.run())}, words.apply));
    this.show();
  }

  show() {
    this.findField.hidden = editsWithoutText.includes(this.edit.value);
    this.byField.hidden = !editsByText.includes(this.edit.value);
  }

  /** A tag that somebody looks at is what is asked about. */
  takeTag(tag) {
    if (/Tag$/.test(this.edit.value) && tag) this.find.value = tag;
  }

  async run() {
    const edit = captionEdits[this.edit.value];
    if (!this.find.value && !editsWithoutText.includes(this.edit.value)) return this.find.focus();
    const changed = this.shown().map(item => [item.file, edit(item.caption ?? "", this.find.value, this.by.value), item.caption ?? ""]).filter(([, now, before]) => now !== before);
    const count = changed.length === 0 ? 0 : await this.write(Object.fromEntries(changed));
    say(words.changed(count));
  }
}
