// What was typed and not sent yet: it is there after a reload, on another page and in another tab.

class Draft {
  constructor(name) { this.key = `burnish.${name}`; }

  /** Null where nothing is kept. */
  read() {
    try { return JSON.parse(localStorage.getItem(this.key)); } catch { return null; }
  }

  keep(value) { localStorage.setItem(this.key, JSON.stringify(value)); }
  forget() { localStorage.removeItem(this.key); }

  /** Calls `changed` with what another tab keeps, until the function that is returned is called. */
  follow(changed) {
    const look = event => { if (event.key === this.key && event.newValue) changed(JSON.parse(event.newValue)); };
    addEventListener("storage", look);
    return () => removeEventListener("storage", look);
  }
}

const runDraft = new Draft("run"), drawDraft = new Draft("drawing");
