// What is said of settings beside the form: what is still needed, what is wrong, what a step takes, and what would take less.

/** Whether a run of these numbers has room, on the device and in main memory. */
const hasRoom = (plan, bytesOfDevice, bytesOfHost) => (!plan.limit || bytesOfDevice <= plan.limit) && (!plan.host?.limit || bytesOfHost <= plan.host.limit);

/** "--optimizer adamw8bit --batch_size 1" as [[name, value]]; a value is true where a flag stands alone. */
function flagsOf(text) {
  const parts = text.split(/\s+/), flags = [];
  for (let i = 0; i < parts.length; ++i) {
    if (!parts[i].startsWith("--")) continue;
    const hasValue = i + 1 < parts.length && !parts[i + 1].startsWith("--");
    flags.push([parts[i].slice(2).replaceAll("-", "_"), hasValue ? parts[++i] : true]);
  }
  return flags;
}

/** What flags do, in words. */
const changeText = text => flagsOf(text).map(([name, value]) => words.changes[name]?.(value)).filter(one => one !== "").map((one, i) => one ?? flagsOf(text)[i].join(" ")).join(", ");

class Judge {
  constructor(form) {
    this.form = form;
    this.element = h("div", {class: "verdict", role: "status", "aria-live": "polite"});
    this.short = h("p", {class: "short"});
  }

  busy(is) {
    if (is) this.element.setAttribute("aria-busy", "true");
    else this.element.removeAttribute("aria-busy");
    if (is && !this.element.querySelector(".judged")) this.element.replaceChildren(h("p", {class: "explain"}, words.check));
  }

  say(kind, text, ...more) {
    this.short.replaceChildren(h("span", {class: `judged ${kind}`}, text));
    this.element.replaceChildren(h("p", {class: `judged ${kind}`}, text), ...more.filter(Boolean));
  }

  /** What nobody said yet is no mistake. */
  needs(options) {
    const links = options.flatMap((name, i) => [i === 0 ? " " : ", ", h("button", {type: "button", class: "link", onclick: () => this.form.showOption(name)}, words.needs[name])]);
    this.short.replaceChildren(h("span", {class: "explain"}, words.stillNeeded, " ", options.map(name => words.needs[name]).join(", ")));
    this.element.replaceChildren(h("p", {class: "explain"}, words.stillNeeded, ...links));
  }

  problems(sentences) {
    this.short.replaceChildren(h("span", {class: "problem"}, plainSentence(sentences[0])));
    this.element.replaceChildren(...sentences.map(sentence => h("p", {class: "problem"}, plainSentence(sentence))));
  }

  /** A plan: what a step takes against what there is. */
  plan(plan, pace) {
    const isHostShort = Boolean(plan.host?.limit) && plan.host.bytes > plan.host.limit, isDeviceShort = plan.limit > 0 && plan.bytes > plan.limit;
    const amount = plan.limit > 0 ? words.ofDevice(bytes(plan.bytes), bytes(plan.limit)) : words.onDevice(bytes(plan.bytes));
    const host = isHostShort ? h("p", {class: "judged bad"}, words.hostShort(bytes(plan.host.bytes), bytes(plan.host.limit))) : null;
    if (plan.fits !== false) return this.say("good", `${words.fits} ${amount}`, planBar(plan), this.length(plan, pace));
    this.say("bad", isDeviceShort || !isHostShort ? words.short(bytes(plan.bytes), bytes(plan.limit ?? 0)) : words.hostShort(bytes(plan.host.bytes), bytes(plan.host.limit)), isDeviceShort ? host : null, planBar(plan), this.length(plan, pace),
      this.choices(plan));
  }

  /** Steps, passes over the data, and the time that they take by what ran here before. */
  length({length}, pace) {
    if (!length?.steps) return null;
    const time = pace ? h("a", {href: `${root}runs/${named(pace.run)}/`}, words.takes(duration(pace.seconds_a_step * length.steps), pace.run)) : words.timeUnknown;
    return h("p", {class: "explain length"}, words.length(length.steps, length.epochs, length.samples), " ", time);
  }

  /** What takes less: what fits by one change as buttons, and a search for what fits by several. */
  choices(plan) {
    const fitting = (plan.changes ?? []).filter(change => hasRoom(plan, change.bytes, change.host_bytes ?? 0)).sort((a, b) => b.bytes - a.bytes);
    const wasSought = "fit" in plan || "fit_training_less" in plan || plan.wasSought, less = plan.fit_training_less;
    const button = change => h("button", {type: "button", onclick: () => this.form.takeFlags(change.flags)},
      h("span", {}, h("b", {class: "tick", "aria-hidden": "true"}, "✓"), " ", changeText(change.flags), " ", h("code", {class: "option-name"}, change.flags)), h("span", {class: "number"}, bytes(change.bytes)));
    const listed = plan.fit ? [plan.fit] : fitting;
    const seek = h("button", {type: "button", class: "seek", onclick: doing(() => this.form.fit())}, words.fitTitle);
    return h("div", {class: "choices"}, wasSought ? listed.length === 0 && !less ? h("p", {}, words.nothingFits) : null : seek, listed.length > 0 || less ? h("h2", {}, words.wouldFit) : null, ...listed.map(button),
      less ? h("p", {class: "explain"}, words.trainsLess) : null, less ? button(less) : null);
  }

  seeking() { this.element.querySelector(".choices")?.replaceChildren(h("p", {class: "explain"}, words.seeking)); }
}
