// Many things as cells of one height, of which only those in sight are there.

/** Rows of cells; `cell` makes the element of an item, `height` is that of a row. Cells that stay in sight stay what they are, and so does the one that has the focus. */
class Grid {
  constructor(cell, height) {
    this.cell = cell;
    this.height = height;
    this.items = [];
    this.cells = new Map();
    this.element = h("div", {class: "grid", role: "list"});
    this.look = () => this.draw();
    addEventListener("scroll", this.look, {passive: true});
    addEventListener("resize", this.look);
  }

  leave() {
    removeEventListener("scroll", this.look);
    removeEventListener("resize", this.look);
  }

  /** Other items, or items that changed: their cells are made anew, but for the one in which somebody writes. */
  set(items) {
    const focused = this.focusedIn(), there = new Set(items);
    this.items = items;
    this.drawn = null;
    for (const [item, cell] of this.cells) {
      if (there.has(item) && document.activeElement.tagName === "TEXTAREA" && cell.contains(document.activeElement)) continue;
      cell.remove();
      this.cells.delete(item);
    }
    this.draw();
    if (focused) this.element.querySelector(focused)?.focus();
  }

  /** All of them look otherwise. */
  renewAll() {
    for (const cell of this.cells.values()) cell.remove();
    this.cells.clear();
    this.drawn = null;
    this.draw();
  }

  /** One item that changed. */
  renew(item) {
    const focused = this.focusedIn();
    this.cells.get(item)?.remove();
    this.cells.delete(item);
    this.drawn = null;
    this.draw();
    if (focused) this.element.querySelector(focused)?.focus();
  }

  /** What finds the element that has the focus, once it was made anew: its label says what it is and of which item. */
  focusedIn() {
    const label = this.element.contains(document.activeElement) ? document.activeElement.getAttribute("data-key") : null;
    return label ? `[data-key="${CSS.escape(label)}"]` : null;
  }

  draw() {
    const box = this.element.getBoundingClientRect(), columns = Math.max(1, Math.floor((box.width + 16) / 216)), rows = Math.ceil(this.items.length / columns);
    const first = Math.max(0, Math.floor(-box.top / this.height) - 2), last = Math.min(rows, Math.ceil((innerHeight - box.top) / this.height) + 2), range = `${columns} ${first} ${last}`;
    if (range === this.drawn) return;
    this.drawn = range;
    this.element.style.height = `${rows * this.height}px`;
    const shown = this.items.slice(first * columns, last * columns), stay = new Set(shown);
    for (const [item, cell] of this.cells) {
      if (stay.has(item) || cell.contains(document.activeElement)) continue;
      cell.remove();
      this.cells.delete(item);
    }
    shown.forEach((item, i) => {
      const at = first * columns + i, isNew = !this.cells.has(item), cell = this.cells.get(item) ?? this.cell(item);
      cell.style.cssText = `top: ${Math.floor(at / columns) * this.height}px; left: calc(${at % columns} * (100% + 16px) / ${columns}); width: calc((100% + 16px) / ${columns} - 16px); height: ${this.height - 16}px`;
      cell.setAttribute("aria-posinset", at + 1);
      cell.setAttribute("aria-setsize", this.items.length);
      if (!isNew) return;
      this.cells.set(item, cell);
      this.element.append(cell);
    });
  }
}
