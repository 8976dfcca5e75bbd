// Which save of a run is best, as `burnish best` ranks them, each with the pictures that it drew.

class BestSave {
  constructor(run) {
    this.run = run;
    const t = words.best;
    this.model = h("input", {id: "best-model", list: "best-models", value: "openai/clip-vit-large-patch14", autocomplete: "off", spellcheck: "false", "aria-describedby": "best-note"});
    this.start = h("button", {type: "button", class: "primary", onclick: doing(async () => {
      await post(this.address(), {model: this.model.value.split(",").map(one => one.trim()).filter(Boolean)});
      await this.refresh();
    })}, t.rank);
    this.stop = h("button", {type: "button", hidden: true, onclick: doing(async () => { await post(this.address("/stop")); await this.refresh(); })}, words.drawing.stop);
    this.form = h("form", {class: "best-form", onsubmit: event => event.preventDefault()}, h("div", {class: "field"}, h("label", {for: "best-model"}, t.model), this.model,
      h("datalist", {id: "best-models"}, ...["openai/clip-vit-large-patch14", "facebook/dinov2-base", "facebook/dinov3-vits16-pretrain-lvd1689m"].map(value => h("option", {value}))), h("p", {class: "explain", id: "best-note"}, t.note)), this.start);
    this.standing = h("p", {role: "status"});
    this.table = h("div", {});
    this.standingBox = h("div", {class: "controls", hidden: true}, this.standing, this.stop);
    this.element = h("section", {class: "best"}, h("h2", {}, t.title), h("p", {class: "explain"}, t.about), this.form, this.standingBox, this.table);
  }

  address(more = "") { return `runs/${named(this.run)}/best${more}`; }

  /** Asks how far it is; the same answer changes nothing. */
  async refresh() {
    const now = await get(this.address()), text = JSON.stringify(now), goesOn = ["waiting", "running"].includes(now.state);
    if (text === this.text) return;
    this.text = text;
    this.start.disabled = goesOn;
    this.stop.hidden = !goesOn;
    this.standing.className = !goesOn && now.exit_code > 0 && now.exit_code !== 130 ? "problem" : "explain";
    this.standing.textContent = now.ranking ? "" : plainSentence(now.says) || (goesOn ? words.best.looking : "");
    this.standingBox.hidden = this.standing.textContent === "" && !goesOn;
    this.table.replaceChildren(...now.ranking ? this.ranked(now.ranking, now.previews) : []);
  }

  ranked(ranking, previews) {
    const t = words.best, {saves, overfitting, missing} = ranking, columns = ["validation_loss", "likeness", "held_out", "memory", "answer", "variety", "drift"].filter(column => saves.some(one => typeof one[column] === "number"));
    const head = h("tr", {}, h("th", {scope: "col"}, t.save), ...columns.map(column => h("th", {scope: "col", class: "number"}, t.columns[column])), h("th", {scope: "col"}, t.drew), h("td", {}));
    return [h("p", {class: "judged good"}, t.take(whole(ranking.take))), h("p", {class: "explain"}, asSentence(ranking.why)), overfitting ? h("p", {class: "judged bad"}, t.overfitting(whole(overfitting.after))) : null,
      ...missing.map(sentence => h("p", {class: "explain"}, asSentence(plainSentence(sentence)))),
      h("div", {class: "scroll"}, h("table", {class: "ranking"}, h("thead", {}, head), h("tbody", {}, ...saves.map((save, i) => this.row(save, i, columns, previews)))))].filter(Boolean);
  }

  /** A save with what it drew, or, where nothing looked at that, what was drawn at its step. */
  row(save, place, columns, previews) {
    const t = words.best, file = save.files[0]?.split("/").at(-1) ?? "", drawnAt = save.drawn_at ?? save.step, shown = (previews[drawnAt] ?? []).slice(0, 4);
    const marks = [place === 0 ? h("span", {class: "state done"}, t.best) : null, save.is_overfit ? h("span", {class: "state failed"}, t.overfit) : null, save.memorises ? h("span", {class: "state failed"}, t.byHeart) : null, save.copies > 0 ? h("span", {class: "state failed"}, t.copies(save.copies)) : null].filter(Boolean);
    return h("tr", {}, h("th", {scope: "row"}, h("span", {}, t.step(whole(save.step))), ...marks), ...columns.map(column => h("td", {class: "number"}, typeof save[column] === "number" ? number(save[column], 3) : "–")),
      h("td", {}, h("div", {class: "drawn-by"}, ...shown.map(one => h("img", {src: `${root}runs/${named(this.run)}/previews/0/${drawnAt}/${one}`, alt: t.picture(one + 1, whole(save.step)), loading: "lazy"})))),
      h("td", {}, file ? h("div", {class: "actions"}, h("a", {class: "button", href: `${root}#/draw?run=${named(this.run)}&save=${named(file)}`, "aria-label": `${words.drawWith}: ${t.step(save.step)}`}, words.drawWith),
        h("a", {class: "button", href: `${root}api/runs/${named(this.run)}/files/${named(file)}`, download: `${this.run}-${file}`, "aria-label": `${words.drawing.download}: ${t.step(save.step)}`}, "↓")) : null));
  }
}
