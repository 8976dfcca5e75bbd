// A mask that is drawn over its picture: what is white counts in the loss, what is black does not.

/** What is drawn: strokes, fillings and inversions over what was there, drawn again from the start when one of them is taken back. */
class MaskDrawing {
  constructor(canvas, base) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", {willReadFrequently: true});
    this.base = base;
    this.steps = [];
    this.draw();
  }

  draw() {
    this.fill("#000");
    if (this.base) this.context.drawImage(this.base, 0, 0, this.canvas.width, this.canvas.height);
    for (const step of this.steps) step();
  }

  fill(color) {
    this.context.globalCompositeOperation = "source-over";
    this.context.fillStyle = color;
    this.context.fillRect(0, 0, this.canvas.width, this.canvas.height);
  }

  do(step) {
    this.steps.push(step);
    step();
  }

  fillAll(color) { this.do(() => this.fill(color)); }

  invert() {
    this.do(() => {
      this.context.globalCompositeOperation = "difference";
      this.context.fillStyle = "#fff";
      this.context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    });
  }

  /** A stroke that goes on while points are added to it. */
  begin(color) {
    const points = [];
    this.do(() => points.forEach((_, i) => this.segment(points, i, color)));
    return point => {
      points.push(point);
      this.segment(points, points.length - 1, color);
    };
  }

  segment(points, i, color) {
    const to = points[i], from = points[Math.max(0, i - 1)], context = this.context;
    context.globalCompositeOperation = "source-over";
    context.strokeStyle = color;
    context.lineCap = "round";
    context.lineWidth = to.width;
    context.beginPath();
    context.moveTo(from.x, from.y);
    context.lineTo(to.x, to.y);
    context.stroke();
  }

  undo() {
    this.steps.pop();
    this.draw();
  }
}

/** The window in which a mask is drawn. `saved` is called once it was written, with what takes that back. */
class MaskEditor {
  constructor(path, item, saved) {
    this.path = path;
    this.item = item;
    this.saved = saved;
    this.erases = false;
    this.canvas = h("canvas", {class: "mask", "aria-label": words.maskOf(item.file), role: "img"});
    this.ring = h("i", {class: "ring", hidden: true});
    this.board = h("div", {class: "board"}, this.canvas, this.ring);
    this.size = h("input", {type: "range", min: 2, max: 400, value: 60, id: "brush-size", "aria-label": words.brushSize, oninput: () => this.showRing()});
    this.undoButton = this.button(words.undo, () => this.drawing.undo(), "Ctrl+Z");
    this.tools = [[false, words.paint, "P"], [true, words.erase, "E"]].map(([erases, text, key]) => {
      const tool = h("button", {type: "button", title: key, onclick: () => this.take(erases)}, text);
      tool.erases = erases;
      return tool;
    });
    this.element = h("dialog", {class: "mask-editor", "aria-label": words.maskOf(item.file), onkeydown: event => this.key(event), oncancel: event => { if (!this.mayClose()) event.preventDefault(); }, onclose: () => this.element.remove()},
      h("div", {class: "controls"}, h("div", {class: "segments", role: "group", "aria-label": words.brush}, ...this.tools), this.size,
        this.button(words.fill, () => this.drawing.fillAll("#fff"), "F"), this.button(words.invert, () => this.drawing.invert(), "I"),
        this.button(words.clear, () => this.drawing.fillAll("#000"), "C"), this.undoButton),
      this.board, h("p", {class: "explain"}, words.maskHint),
      h("div", {class: "controls"}, h("button", {type: "button", class: "primary", onclick: doing(() => this.save())}, words.saveMask),
        item.mask === null ? null : h("button", {type: "button", onclick: doing(() => this.remove())}, words.removeMask),
        h("button", {type: "button", onclick: () => { if (this.mayClose()) this.element.close(); }}, words.cancel)));
    this.canvas.addEventListener("pointerdown", event => this.down(event));
    this.canvas.addEventListener("pointermove", event => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) this.canvas.addEventListener(end, () => { this.stroke = null; this.mark(); });
    this.canvas.addEventListener("pointerleave", () => { this.ring.hidden = true; });
    this.take(false);
  }

  button(text, act, key) { return h("button", {type: "button", title: key, onclick: () => { act(); this.mark(); }}, text); }

  async open() {
    document.body.append(this.element);
    this.element.showModal();
    const load = address => new Promise((loaded, failed) => {
      const picture = new Image();
      picture.onload = () => loaded(picture);
      picture.onerror = () => failed(new Error(words.noPicture(this.item.file)));
      picture.src = address;
    });
    const picture = await load(`${root}api/${this.path}/thumbnail?side=1280`);
    const base = this.item.mask === null ? null : await load(`${root}api/${this.path}/mask?side=1280&v=${this.item.mask}`);
    this.board.prepend(picture);
    picture.alt = this.item.caption || this.item.file;
    this.canvas.width = picture.naturalWidth;
    this.canvas.height = picture.naturalHeight;
    this.board.style.setProperty("--shape", picture.naturalWidth / picture.naturalHeight);
    this.drawing = new MaskDrawing(this.canvas, base);
    this.mark();
  }

  /** What was painted is not thrown away without a question. */
  mayClose() { return !this.drawing || this.drawing.steps.length === 0 || confirm(words.dropMask); }

  mark() { this.undoButton.disabled = !this.drawing || this.drawing.steps.length === 0; }

  take(erases) {
    this.erases = erases;
    for (const tool of this.tools) tool.setAttribute("aria-pressed", String(tool.erases === erases));
  }

  key(event) {
    if (event.key === "Escape") {  // of which a browser takes a second one for an order
      event.preventDefault();
      return this.mayClose() ? this.element.close() : undefined;
    }
    const does = {p: () => this.take(false), e: () => this.take(true), f: () => this.drawing.fillAll("#fff"), i: () => this.drawing.invert(), c: () => this.drawing.fillAll("#000"),
      "[": () => { this.size.value -= 10; }, "]": () => { this.size.value = Number(this.size.value) + 10; }};
    if (!this.drawing || event.altKey) return;
    const undoes = (event.ctrlKey || event.metaKey) && event.key === "z" && this.drawing.steps.length > 0;
    const act = undoes ? () => this.drawing.undo() : event.ctrlKey || event.metaKey ? null : does[event.key];
    if (!act) return;
    event.preventDefault();
    act();
    this.mark();
  }

  /** A pen paints as wide as it is pressed. */
  point(event) {
    const box = this.canvas.getBoundingClientRect(), scale = this.canvas.width / box.width;
    return {x: (event.clientX - box.left) * scale, y: (event.clientY - box.top) * scale, width: Number(this.size.value) * (event.pointerType === "pen" ? 0.25 + 0.75 * event.pressure : 1)};
  }

  down(event) {
    if (event.button !== 0 || !this.drawing) return;
    event.preventDefault();
    this.canvas.setPointerCapture(event.pointerId);
    this.stroke = this.drawing.begin(this.erases ? "#000" : "#fff");
    this.stroke(this.point(event));
  }

  move(event) {
    this.pointed = event;
    this.showRing();
    if (!this.stroke) return;
    for (const one of event.getCoalescedEvents?.() ?? [event]) this.stroke(this.point(one));
  }

  /** Where and how wide the brush would paint. */
  showRing() {
    if (!this.pointed || this.pointed.pointerType === "touch") return;
    const box = this.board.getBoundingClientRect(), width = Number(this.size.value) * this.canvas.getBoundingClientRect().width / this.canvas.width;
    this.ring.hidden = false;
    this.ring.style.cssText = `left: ${this.pointed.clientX - box.left - width / 2}px; top: ${this.pointed.clientY - box.top - width / 2}px; width: ${width}px; height: ${width}px`;
  }

  /** Writes a mask, or takes it away where there is none, and says how to take that back. */
  async put(mask) {
    const address = `${root}api/${this.path}/mask`, before = this.item.mask === null ? null : await (await fetch(address)).blob();
    const write = async blob => {
      const response = await fetch(address, blob ? {method: "PUT", body: blob} : {method: "DELETE"});
      if (!response.ok) throw new Error((await response.json()).sentence);
      this.item.mask = blob ? Date.now() : null;
    };
    await write(mask);
    this.element.close();
    this.saved(() => write(before));
  }

  async save() { await this.put(await new Promise(made => this.canvas.toBlob(made, "image/png"))); }
  async remove() { await this.put(null); }
}
