// Which pictures a run learned badly, and which it knows by heart; each can be left out of the next run.

class LearnedPictures {
  constructor(run) {
    this.run = run;
    this.explain = h("p", {class: "explain"});
    this.grid = h("div", {class: "grid learned", role: "list", "aria-label": words.tabs.pictures});
    this.list = new KeptList(this.grid, one => String(one.row), one => this.picture(one));
    this.element = h("section", {class: "learned-box", "data-part": "pictures"}, h("h2", {}, words.tabs.pictures), this.explain, this.grid);
  }

  /** Shown only while somebody looks at it: losses change with each step. */
  async refresh() {
    const {visits, dataset, samples} = await get(`runs/${named(this.run)}/pictures`);
    this.dataset = dataset;
    this.explain.textContent = visits === 0 ? words.noVisits : samples.length === 0 ? words.nothingStandsOut(visits) : words.standOut(visits);
    this.list.show(samples);
  }

  picture(one) {
    const isBadly = one.stands_out === "badly", percent = Math.round(100 * (Math.exp(isBadly ? one.difference : one.noisy_difference) - 1));
    const shot = one.item ? h("img", {src: thumbnailUrl(this.dataset, one.item), alt: one.caption || one.item, loading: "lazy"}) : h("div", {class: "blank"}, one.file || `${one.row}`);
    const out = one.item ? h("button", {type: "button", "aria-label": `${one.is_left_out ? words.takeIn : words.leaveOut}: ${one.item}`, onclick: doing(() => this.leaveOut(one))}, one.is_left_out ? words.takeIn : words.leaveOut) : null;
    return h("figure", {class: `item ${one.is_left_out ? "out" : ""}`, role: "listitem"}, h("div", {class: "thumb-box"}, shot),
      h("figcaption", {}, h("strong", {}, isBadly ? words.learnedBadly(percent) : words.knownByHeart(percent)), h("p", {class: "caption"}, one.caption), h("p", {class: "explain"}, one.item || one.file), out));
  }

  async leaveOut(one) {
    await post(`datasets/${named(this.dataset)}/leave_out`, {files: [one.item], out: !one.is_left_out});
    say((one.is_left_out ? words.wasTakenIn : words.wasLeftOut)(one.item));
    await this.refresh();
  }
}
