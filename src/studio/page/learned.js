// Which pictures a run learned badly, and which it knows by heart; each can be left out of the next run.

class LearnedPictures {
  constructor(run) {
    this.run = run;
    this.explain = h("p", {class: "explain"});
    this.grid = h("div", {class: "grid learned", role: "list", "aria-label": words.tabs.pictures});
    this.list = new KeptList(this.grid, one => String(one.row), one => this.picture(one));
    this.compared = ["captions", "gradients"].map(kind => new ComparedPictures(run, kind));
    this.element = h("section", {class: "learned-box", "data-part": "pictures"}, h("h2", {}, words.tabs.pictures), this.explain, this.grid, ...this.compared.map(one => one.element));
  }

  /** Shown only while somebody looks at it: losses change with each step. */
  async refresh() {
    const {visits, dataset, samples} = await get(`runs/${named(this.run)}/pictures`);
    this.dataset = dataset;
    this.explain.textContent = visits === 0 ? words.noVisits : samples.length === 0 ? words.nothingStandsOut(visits) : words.standOut(visits);
    this.list.show(samples);
    for (const one of this.compared) await one.refresh();
  }

  picture(one) {
    const isBadly = one.stands_out === "badly", percent = Math.round(100 * (Math.exp(isBadly ? one.difference : one.noisy_difference) - 1));
    return pictureOfRun(this.dataset, one, isBadly ? words.learnedBadly(percent) : words.knownByHeart(percent), one => this.leaveOut(one));
  }

  async leaveOut(one) {
    await leaveOutOf(this.dataset, one);
    await this.refresh();
  }
}

async function leaveOutOf(dataset, one) {
  await post(`datasets/${named(dataset)}/leave_out`, {files: [one.item], out: !one.is_left_out});
  say((one.is_left_out ? words.wasTakenIn : words.wasLeftOut)(one.item));
}

/** A picture of a run, by the name that it has in its dataset: what is said of it, and a button that leaves it out. */
function pictureOfRun(dataset, one, says, leaveOut) {
  const shot = one.item ? h("img", {src: thumbnailUrl(dataset, one.item), alt: one.caption || one.item, loading: "lazy"}) : h("div", {class: "blank"}, one.file || `${one.row}`);
  const out = one.item ? h("button", {type: "button", "aria-label": `${one.is_left_out ? words.takeIn : words.leaveOut}: ${one.item}`, onclick: doing(() => leaveOut(one))}, one.is_left_out ? words.takeIn : words.leaveOut) : null;
  return h("figure", {class: `item ${one.is_left_out ? "out" : ""}`, role: "listitem"}, h("div", {class: "thumb-box"}, shot),
    h("figcaption", {}, h("strong", {}, says), h("p", {class: "caption"}, one.caption), h("p", {class: "explain"}, one.item || one.file), out));
}

/** What the run's model, as it was before training, says of captions ("captions") or of what pictures would teach ("gradients"). */
class ComparedPictures {
  constructor(run, kind) {
    Object.assign(this, {run, t: words.compared[kind], address: `runs/${named(run)}/compared_${kind}`});
    this.start = h("button", {type: "button", onclick: doing(async () => { await post(this.address, {}); await this.refresh(); })}, this.t.start);
    this.stop = h("button", {type: "button", hidden: true, onclick: doing(async () => { await post(`${this.address}/stop`, {}); await this.refresh(); })}, words.drawing.stop);
    this.standing = h("span", {role: "status"});
    this.grid = h("div", {class: "grid learned", role: "list", "aria-label": this.t.title});
    this.list = new KeptList(this.grid, one => String(one.row ?? one.file), one => pictureOfRun(this.dataset, one, this.t.says(one), async one => { await leaveOutOf(this.dataset, one); await this.refresh(); }));
    this.element = h("div", {class: "compared"}, h("h3", {}, this.t.title), h("p", {class: "explain"}, this.t.about), h("div", {class: "controls"}, this.start, this.stop, this.standing), this.grid);
  }

  async refresh() {
    const now = await get(this.address), goesOn = ["waiting", "running"].includes(now.state);
    this.dataset = now.dataset;
    this.start.disabled = goesOn;
    this.stop.hidden = !goesOn;
    this.standing.className = !goesOn && now.exit_code > 0 && now.exit_code !== 130 ? "problem" : "explain";
    this.standing.textContent = now.samples === null ? plainSentence(now.says) || (goesOn ? words.compared.asking : "") : now.samples.length === 0 ? words.compared.none : "";
    this.list.show(now.samples ?? []);
  }
}
