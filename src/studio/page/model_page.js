// The models: those on this machine, those on their way, and those that can be downloaded.

/** How far a download is, as its last line says; 0 where it does not. */
function shareOf(says) {
  const [, done, all] = /([\d.,]+) of ([\d.,]+)/.exec(says)?.map(text => Number(text.replaceAll(",", ""))) ?? [];
  return all > 0 ? Math.min(1, done / all) : 0;
}

/** A download, which stays the same element while it goes on. */
function downloadRow(fetch) {
  const line = h("span", {class: "explain number"}), bar = h("i", {}), meter = h("div", {class: "meter wide", role: "progressbar", "aria-label": fetch.name, "aria-valuemin": 0, "aria-valuemax": 100}, bar);
  const pause = h("button", {type: "button", "aria-label": `${words.stopFetch}: ${fetch.name}`, onclick: doing(() => post("fetches/stop", {name: fetch.name}))}, words.stopFetch);
  const again = h("button", {type: "button", "aria-label": `${words.resume}: ${fetch.name}`, onclick: doing(() => post("fetches", {name: fetch.name}))}, words.resume);
  const row = h("li", {}, h("span", {class: "file"}, fetch.name, line), pause, again, meter);
  row.update = now => {
    const isOver = now.state === "ended", share = Math.round(100 * shareOf(now.says));
    line.textContent = now.says || words.fetching;
    line.className = isOver && ![0, 130, null].includes(now.exit_code) ? "problem" : "explain number";
    pause.hidden = isOver;
    again.hidden = !isOver;
    bar.style.width = `${share}%`;
    meter.setAttribute("aria-valuenow", share);
  };
  row.update(fetch);
  return row;
}

/** A family of models as people read it. */
const familyName = family => (family ?? "").replaceAll("_", " ");

class ModelsPage {
  constructor(context) {
    const t = words.modelsPage;
    this.context = context;
    this.sizes = new Map();
    this.undo = new Undo();
    this.fits = new Fits(context, () => this.show());
    this.onlyFits = h("input", {type: "checkbox", onchange: () => this.show()});
    this.here = h("ul", {class: "model-rows"});
    this.hereList = new KeptList(this.here, one => one.name, one => this.row(one));
    this.coming = h("ul", {class: "model-rows"});
    this.comingList = new KeptList(this.coming, one => one.name, downloadRow);
    this.comingBox = h("section", {hidden: true}, h("h2", {}, t.coming), this.coming);
    this.away = h("ul", {class: "model-rows"});
    this.awayList = new KeptList(this.away, one => one.id, one => this.awayRow(one));
    this.looking = h("p", {class: "explain", role: "status"}, t.looking);
    this.element = h("div", {class: "models-page"}, h("div", {class: "section-head"}, h("h1", {}, t.title)), h("section", {}, h("h2", {}, t.here), this.looking, this.here, h("p", {class: "explain"}, t.hereNote)), this.comingBox,
      h("section", {}, h("div", {class: "section-head"}, h("h2", {}, t.away), h("label", {class: "switch"}, this.onlyFits, t.onlyFits)), h("p", {class: "explain"}, t.awayNote), this.away));
  }

  /** What is planned of a model; of one that does not fit as it is, a button looks for what would make it fit. */
  fit(name, title = "", planned = "") {
    const found = plannedFits.get(name), said = h("span", {class: found ? fitClass(found) : "explain fit"}, found ? fitText(found) : words.modelsPage.planning, found?.whole ? h("span", {class: "explain"}, ` ${wholeText(found)}`) : null);
    if (found?.kind !== "unsure") return said;
    said.append(" ", h("button", {type: "button", class: "link", "aria-label": `${words.fitTitle}: ${title}`, onclick: doing(async () => {
      said.textContent = words.seeking;
      await this.fits.seek(name, planned);
    })}, words.fitTitle));
    return said;
  }

  row({fit, ...one}) {
    const t = words.modelsPage, kind = one.program ? t.ofProgram(one.program) : t.kinds[one.kind] ?? "", canGo = one.kind === "hub" || one.name.startsWith("models/");
    return h("li", {}, h("span", {class: "file"}, h("strong", {}, one.title), h("span", {class: "explain"}, one.name)), h("span", {class: "explain number"}, [familyName(one.family), kind, bytes(one.bytes)].filter(Boolean).join(" · ")), this.fit(one.name),
      h("a", {class: "button", href: `#/new?model=${named(one.name)}`, "aria-label": `${t.train}: ${one.title}`}, t.train),
      canGo ? h("button", {type: "button", "aria-label": `${t.remove}: ${one.title}`, onclick: doing(() => this.remove(one))}, t.remove) : null);
  }

  /** What lies in the workspace goes into the bin; what a hub has is deleted, since it can be had again. */
  async remove(one) {
    const t = words.modelsPage;
    if (one.kind === "hub" && !confirm(t.removeSure(one.title))) return;
    const {bin} = await post("models/remove", {name: one.name});
    if (bin) this.undo.add(async () => { await post("bin/back", {id: bin}); await this.look(); }, words.binned(one.title));
    else say(t.wasRemoved(one.title));
    await this.look();
  }

  awayRow(one) {
    const size = h("span", {}, this.sizes.get(one.id) ?? "");
    const look = h("button", {type: "button", "aria-label": `${words.howLarge}: ${one.id}`, onclick: doing(async () => {
      const amount = await post("models/size", {name: one.id});
      this.sizes.set(one.id, ` · ${words.modelSize(bytes(amount.bytes), bytes(amount.missing_bytes))}`);
      size.textContent = this.sizes.get(one.id);
    })}, words.howLarge);
    return h("li", {}, h("span", {class: "file"}, h("strong", {}, one.title), h("span", {class: "explain"}, one.id)), h("span", {class: "explain number"}, familyName(one.family), size), this.fit(one.id, one.title, one.name), look,
      h("button", {type: "button", "aria-label": `${words.fetch}: ${one.id}`, onclick: doing(async () => { await post("fetches", {name: one.id}); await this.follow(); })}, words.fetch));
  }

  async look() {
    const [{here, published}, {demo}] = await Promise.all([get("models"), get("studio")]), own = demo && !here.some(one => one.name === demo.model) ? [{name: demo.model, title: demo.title, family: demo.family, denoiser: "", bytes: demo.bytes}] : [];
    this.context.models = {here: [...here, ...own], published};
    this.looking.hidden = true;
    this.show();
    const away = this.awayModels.map(one => ({name: one.id, planned: one.name}));
    this.fits.look([...this.context.models.here.map(one => ({name: one.name, planned: one.name, isThorough: true, denoiser: one.denoiser})), ...away]);
  }

  /** Published models that are not here. */
  get awayModels() { return this.context.models.published.filter(one => !this.context.models.here.some(model => model.name === one.id)); }

  /** Shows models with what is planned of them; of those to download, where somebody wants that, what fits alone. */
  show() {
    const known = name => plannedFits.get(name) ?? null, isKept = one => !this.onlyFits.checked || ["good", "with"].includes(known(one.id)?.kind);
    this.hereList.show(this.context.models.here.map(one => ({...one, fit: known(one.name)})));
    this.awayList.show(this.awayModels.filter(isKept).map(one => ({...one, fit: known(one.id)})));
  }

  /** Downloads as they go on; when one of them has ended, models are looked for again. */
  async follow() {
    const fetches = (await get("fetches")).filter(one => one.state !== "ended" || one.exit_code !== 0), ended = this.count > fetches.length;
    this.count = fetches.length;
    this.comingBox.hidden = fetches.length === 0;
    this.comingList.show(fetches);
    if (ended) await this.look();
  }
}

async function showModels(view) {
  const page = new ModelsPage(await presetContext());
  view.replaceChildren(page.element);
  page.look().catch(error => say(error.message, "bad"));
  const stop = poll(() => page.follow(), 1000);
  return () => { stop(); page.fits.leave(); page.undo.leave(); };
}
