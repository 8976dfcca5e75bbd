// Files on their way into a dataset, several at a time, with how far they are and a button that stops them.

const kAtOnce = 4;

class Upload {
  /** `changed` is called when files have come, once in a while. */
  constructor(changed) {
    this.changed = changed;
    this.line = h("p", {class: "explain", role: "status"});
    this.bar = h("i", {});
    this.meter = h("div", {class: "meter wide", role: "progressbar", "aria-label": words.uploading, "aria-valuemin": 0, "aria-valuemax": 100}, this.bar);
    this.element = h("div", {class: "upload", hidden: true}, this.line, this.meter, h("button", {type: "button", onclick: () => { this.isStopped = true; this.control.abort(); }}, words.drawing.stop));
  }

  /** Sends files into a dataset; how many came, and what is wrong with the others is said in one sentence. */
  async send(dataset, files) {
    const waiting = [...files], problems = [];
    let added = 0, done = 0, looked = performance.now();
    this.isStopped = false;
    this.control = new AbortController();  // of what is on its way when somebody stops it
    this.element.hidden = files.length === 0;
    const turn = async () => {
      while (waiting.length > 0 && !this.isStopped) {
        const file = waiting.shift(), answer = await this.put(dataset, file);
        added += answer.added ?? 0;
        if (answer.sentence) problems.push(answer.sentence);
        if (answer.passed_over?.length > 0) problems.push(words.passedOver(answer.passed_over.length, answer.passed_over[0]));
        this.show(++done, files.length);
        if (performance.now() - looked < 1000) continue;
        looked = performance.now();
        await this.changed();
      }
    };
    this.show(0, files.length);
    await Promise.all(Array.from({length: kAtOnce}, turn));
    this.element.hidden = true;
    const said = [added > 0 || problems.length === 0 ? words.added(added) : "", problems.length > 0 ? words.notAll(problems[0], problems.length) : ""].filter(Boolean).join(" ");
    say(said, problems.length > 0 ? "bad" : "");
    await this.changed();
    return added;
  }

  async put(dataset, file) {
    try {
      const response = await fetch(`${root}api/datasets/${named(dataset)}/files/${named(file.name)}`, {method: "PUT", body: file, signal: this.control.signal}), answer = await response.json().catch(() => ({}));
      return response.ok ? answer : {sentence: answer.sentence ?? words.notAdded(file.name)};
    } catch {
      return this.isStopped ? {} : {sentence: words.notAdded(file.name)};
    }
  }

  show(done, all) {
    this.line.textContent = words.adding(done, all);
    this.bar.style.width = `${100 * done / Math.max(1, all)}%`;
    this.meter.setAttribute("aria-valuenow", Math.round(100 * done / Math.max(1, all)));
  }
}
