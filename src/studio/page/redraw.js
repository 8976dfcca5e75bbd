// Lists that are asked for again and again: what is said of a thing that did not change stays the element that it is.

/** `make` returns the element of an item, which may have a function `update` that takes the item as it is now. */
class KeptList {
  constructor(element, keyOf, make) {
    this.element = element;
    this.keyOf = keyOf;
    this.make = make;
    this.made = new Map();
  }

  show(items) {
    const next = new Map();
    for (const item of items) next.set(this.keyOf(item), this.renewed(this.made.get(this.keyOf(item)), item));
    for (const [key, {element}] of this.made) if (!next.has(key)) element.remove();
    this.made = next;
    [...next.values()].forEach(({element}, i) => {
      if (this.element.children[i] !== element) this.element.insertBefore(element, this.element.children[i] ?? null);
    });
  }

  renewed(before, item) {
    const text = JSON.stringify(item);
    if (before?.text === text) return before;
    if (before?.element.update) {
      before.element.update(item);
      return {text, element: before.element};
    }
    const element = this.make(item), label = before?.element.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    before?.element.replaceWith(element);
    if (label) element.querySelector(`[aria-label="${CSS.escape(label)}"]`)?.focus();
    return {text, element};
  }
}
