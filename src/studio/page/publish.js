// A run's card, and its way to a hub.

const cardLicenses = ["cc-by-4.0", "cc-by-nc-4.0", "cc0-1.0", "apache-2.0", "mit", "openrail"];

class Publishing {
  constructor(run) {
    this.run = run;
    const t = words.publishing, field = (id, label, input, note) => h("div", {class: "field"}, h("label", {for: id}, label), input, note ? h("p", {class: "explain"}, note) : null);
    this.id = h("input", {id: "publish-id", placeholder: "name/model", autocomplete: "off", spellcheck: "false"});
    this.license = h("input", {id: "publish-license", list: "licenses", autocomplete: "off", spellcheck: "false"});
    this.description = h("textarea", {id: "publish-description", rows: 3});
    this.isPrivate = h("input", {type: "checkbox", id: "publish-private", checked: true});
    this.make = h("button", {type: "button", onclick: doing(() => this.ask())}, t.make);
    this.send = h("button", {type: "button", class: "primary", onclick: doing(() => this.publish())}, t.send);
    this.standing = h("p", {role: "status", class: "explain"});
    this.text = h("pre", {tabindex: 0, role: "group", "aria-label": t.card, hidden: true});
    this.element = h("form", {class: "publishing", hidden: true, onsubmit: event => event.preventDefault()}, h("h2", {}, t.title), h("p", {class: "explain"}, t.about),
      field("publish-description", t.description, this.description), field("publish-license", t.license, this.license, t.licenseNote), h("datalist", {id: "licenses"}, ...cardLicenses.map(value => h("option", {value}))),
      field("publish-id", t.id, this.id, t.idNote), h("label", {class: "switch"}, this.isPrivate, t.isPrivate), h("div", {class: "actions"}, this.make, this.send), this.standing, this.text);
    this.button = h("button", {type: "button", "aria-expanded": "false", onclick: doing(() => this.toggle())}, t.open);
  }

  async toggle() {
    this.element.hidden = !this.element.hidden;
    this.button.setAttribute("aria-expanded", String(!this.element.hidden));
    await this.refresh();
    if (!this.element.hidden) this.description.focus();
  }

  /** Has the card made, and sent where that is said. */
  async ask(more = {}) {
    const texts = {license: this.license.value.trim(), description: this.description.value.trim()};
    await post(`runs/${named(this.run)}/card`, {...Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== "")), ...more});
    this.isSent = "publish" in more;
    await this.refresh();
  }

  async publish() {
    if (this.id.value.trim() === "") {
      this.id.focus();
      throw new Error(words.publishing.needsId);
    }
    await this.ask({publish: this.id.value.trim(), private: this.isPrivate.checked});
  }

  /** How far it is; nothing is asked while the box is closed. */
  async refresh() {
    if (this.element.hidden) return;
    const now = await get(`runs/${named(this.run)}/card`), goesOn = ["waiting", "running"].includes(now.state), isWrong = !goesOn && now.exit_code > 0, page = /^https?:\/\/\S+$/.exec(now.says)?.[0];
    this.make.disabled = this.send.disabled = goesOn;
    this.text.hidden = now.text === "";
    if (this.text.textContent !== now.text) this.text.textContent = now.text;
    this.standing.className = isWrong ? "problem" : "explain";
    const said = goesOn ? now.says || words.publishing.working : isWrong ? plainSentence(now.says) : page ? words.publishing.sent : now.state === "ended" ? words.publishing.made : "";
    if (this.said === `${said} ${page}`) return;
    this.said = `${said} ${page}`;
    this.standing.replaceChildren(said, page && !goesOn && !isWrong ? " " : "", page && !goesOn && !isWrong ? h("a", {href: page, target: "_blank", rel: "noopener"}, page) : "");
  }
}
