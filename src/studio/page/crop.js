// A picture is turned and cut by hand: what is dragged over stays, in the picture's own format and size of pixels.

/** A dialog on a picture. `changed` is called with the id in the bin of what the picture was. */
class CropEditor {
  constructor(path, item, changed) {
    this.path = path;
    this.item = item;
    this.changed = changed;
    this.turns = 0;
    this.canvas = h("canvas", {class: "crop-canvas"});
    this.frame = h("i", {class: "crop-frame"});
    this.board = h("div", {class: "crop-board"}, this.canvas, this.frame);
    this.area = h("p", {class: "explain number", role: "status"});
    this.shape = h("select", {id: "crop-shape", onchange: () => this.center()}, ...Object.entries(words.shapes).map(([value, text]) => h("option", {value}, text)));
    this.saveButton = h("button", {type: "button", class: "primary", onclick: doing(() => this.save())}, words.saveCrop);
    this.element = h("dialog", {class: "mask-editor crop-editor", "aria-label": words.cropOf(item.file), onclose: () => this.element.remove(), onkeydown: event => this.key(event)},
      h("div", {class: "controls"}, h("button", {type: "button", onclick: () => this.turn(3)}, words.rotateLeft), h("button", {type: "button", onclick: () => this.turn(1)}, words.rotateRight),
        h("label", {for: "crop-shape"}, words.shape), this.shape), this.board, this.area, h("p", {class: "explain"}, words.cropHint),
      h("div", {class: "controls"}, this.saveButton, h("button", {type: "button", onclick: () => this.element.close()}, words.cancel)));
    this.board.addEventListener("pointerdown", event => this.down(event));
    this.board.addEventListener("pointermove", event => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) this.board.addEventListener(end, () => { this.from = null; });
  }

  async open() {
    document.body.append(this.element);
    this.element.showModal();
    this.picture = await this.load(`${root}api/${this.path}/file`).catch(error => { this.element.close(); throw error; });
    this.mask = this.item.mask === null ? null : await this.load(`${root}api/${this.path}/mask`);
    this.turn(0);
  }

  /** A picture as the browser reads it, upright. */
  async load(address) {
    const bytes = await (await fetch(address)).blob();
    return createImageBitmap(bytes).catch(() => { throw new Error(words.noPicture(this.item.file)); });
  }

  /** The picture, or its mask, turned by quarters. */
  turned(source) {
    const isAcross = this.turns % 2 === 1, canvas = h("canvas", {width: isAcross ? source.height : source.width, height: isAcross ? source.width : source.height}), pen = canvas.getContext("2d");
    pen.translate(canvas.width / 2, canvas.height / 2);
    pen.rotate(this.turns * Math.PI / 2);
    pen.drawImage(source, -source.width / 2, -source.height / 2);
    return canvas;
  }

  turn(by) {
    this.turns = (this.turns + by) % 4;
    const now = this.turned(this.picture);
    Object.assign(this.canvas, {width: now.width, height: now.height});
    this.canvas.getContext("2d").drawImage(now, 0, 0);
    this.board.style.setProperty("--shape", now.width / now.height);
    this.center();
  }

  /** Width over height of what may stay; 0 for any. */
  get ratio() { return {square: 1, own: this.canvas.width / this.canvas.height}[this.shape.value] ?? 0; }

  /** The largest area of the shape, in the middle. */
  center() {
    const {width, height} = this.canvas, ratio = this.ratio || width / height, w = Math.min(width, Math.round(height * ratio)), tall = Math.min(height, Math.round(width / ratio));
    this.put(Math.round((width - w) / 2), Math.round((height - tall) / 2), w, tall);
  }

  put(left, top, width, height) {
    this.box = {left, top, width, height};
    const share = (part, of) => `${100 * part / of}%`, {width: all, height: tall} = this.canvas;
    this.frame.style.cssText = `left: ${share(left, all)}; top: ${share(top, tall)}; width: ${share(width, all)}; height: ${share(height, tall)}`;
    this.area.textContent = words.areaOf(width, height);
    this.saveButton.disabled = this.turns === 0 && width === all && height === tall;
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect(), within = (value, most) => Math.max(0, Math.min(most, Math.round(value)));
    return {x: within((event.clientX - box.left) * this.canvas.width / box.width, this.canvas.width), y: within((event.clientY - box.top) * this.canvas.height / box.height, this.canvas.height)};
  }

  /** A drag within the area of a shape moves it; any other one makes an area. */
  down(event) {
    if (event.button !== 0 || !this.picture) return;
    event.preventDefault();
    this.board.setPointerCapture(event.pointerId);
    const point = this.point(event), {left, top, width, height} = this.box, isWhole = width === this.canvas.width && height === this.canvas.height;
    const isIn = !isWhole && point.x > left && point.x < left + width && point.y > top && point.y < top + height;
    this.from = {...point, moves: isIn ? {left, top} : null};
  }

  move(event) {
    if (!this.from) return;
    const {x, y} = this.point(event), {width, height} = this.box, limit = (value, most) => Math.max(0, Math.min(most, value));
    if (this.from.moves) return this.put(limit(this.from.moves.left + x - this.from.x, this.canvas.width - width), limit(this.from.moves.top + y - this.from.y, this.canvas.height - height), width, height);
    let w = Math.abs(x - this.from.x), tall = Math.abs(y - this.from.y);
    if (this.ratio) tall = Math.min(Math.round(w / this.ratio), y < this.from.y ? this.from.y : this.canvas.height - this.from.y);
    if (this.ratio) w = Math.round(tall * this.ratio);
    if (w < 8 || tall < 8) return;
    this.put(x < this.from.x ? this.from.x - w : this.from.x, y < this.from.y ? this.from.y - tall : this.from.y, w, tall);
  }

  /** Arrows move the area by a pixel, with Shift by ten; with Alt they make it larger or smaller. */
  key(event) {
    const way = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[event.key];
    if (!way || !this.picture || event.target.tagName === "SELECT") return;
    event.preventDefault();
    const by = event.shiftKey ? 10 : 1, {left, top, width, height} = this.box, limit = (value, least, most) => Math.max(least, Math.min(most, value));
    if (!event.altKey) return this.put(limit(left + way[0] * by, 0, this.canvas.width - width), limit(top + way[1] * by, 0, this.canvas.height - height), width, height);
    const w = limit(width + way[0] * by, 8, this.canvas.width - left), tall = this.ratio ? Math.round(w / this.ratio) : limit(height + way[1] * by, 8, this.canvas.height - top);
    if (top + tall <= this.canvas.height) this.put(left, top, w, tall);
  }

  /** What stays of the picture, or of its mask, as a file of that type. */
  cut(source, type) {
    const {left, top, width, height} = this.box, whole = this.turned(source), part = h("canvas", {width, height});
    part.getContext("2d").drawImage(whole, -left, -top);
    return new Promise(made => part.toBlob(made, type, 0.97));
  }

  async save() {
    const send = async (what, body) => {
      const response = await fetch(`${root}api/${this.path}/${what}`, {method: "PUT", body}), answer = await response.json().catch(() => ({}));
      if (!response.ok) throw new Refused(answer, response.status);
      return answer;
    };
    const type = {jpg: "image/jpeg", jpeg: "image/jpeg", webp: "image/webp"}[this.item.file.split(".").pop().toLowerCase()] ?? "image/png";
    const {bin} = await send("picture", await this.cut(this.picture, type));
    if (this.mask) await send("mask", await this.cut(this.mask, "image/png"));
    this.element.close();
    await this.changed(bin);
  }
}
