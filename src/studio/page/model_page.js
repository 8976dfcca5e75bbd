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

/** What the form would train a LoRA of a model with: the preset for this machine, or what is usual. */
function settingsOfLora(context, name, planned) {
  const [preset] = presetsOf(context, name), usual = "lora_rank = 16\nmax_steps = 1000\nresolution = [1024]\nenable_bucket = true\n";
  return withValue(preset ? preset.settings : usual, "model", [planned]);
}

class ModelsPage {
  constructor(context) {
    const t = words.modelsPage;
    this.context = context;
    this.undo = new Undo();
    this.here = h("ul", {class: "model-rows"});
    this.hereList = new KeptList(this.here, one => one.name, one => this.row(one));
    this.coming = h("ul", {class: "model-rows"});
    this.comingList = new KeptList(this.coming, one => one.name, downloadRow);
    this.comingBox = h("section", {hidden: true}, h("h2", {}, t.coming), this.coming);
    this.away = h("ul", {class: "model-rows"});
    this.awayList = new KeptList(this.away, one => one.id, one => this.awayRow(one));
    this.looking = h("p", {class: "explain", role: "status"}, t.looking);
    this.element = h("div", {class: "models-page"}, h("div", {class: "section-head"}, h("h1", {}, t.title)), h("section", {}, h("h2", {}, t.here), this.looking, this.here, h("p", {class: "explain"}, t.hereNote)), this.comingBox,
      h("section", {}, h("h2", {}, t.away), h("p", {class: "explain"}, t.awayNote), this.away));
  }

  /** A button that says whether a LoRA of a model trains here, by plan; `planned` is what stands for the model in that. */
  fit(title, name, planned) {
    const t = words.modelsPage, said = h("span", {class: "explain fit", role: "status"});
    return [said, h("button", {type: "button", "aria-label": `${t.fit} ${title}`, onclick: doing(async () => {
      said.textContent = t.planning;
      const settings = settingsOfLora(this.context, name, planned), alone = await post("plan", {settings, alone: true});
      const {plan, sentence, problems} = alone.plan?.fits === false ? await post("plan", {settings, fit: true}) : alone;
      const isFit = plan && plan.fits !== false, amount = isFit || !plan?.fit ? plan?.bytes : plan.fit.bytes;
      said.className = `judged fit ${isFit ? "good" : plan?.fit ? "" : "bad"}`;
      said.textContent = !plan ? plainSentence(sentence ?? problems?.[0]?.sentence ?? "") : (isFit ? t.fits : plan.fit ? t.fitsWith : t.fitsNot)(bytes(amount));
    })}, t.fit)];
  }

  row(one) {
    const t = words.modelsPage, kind = one.program ? t.ofProgram(one.program) : t.kinds[one.kind] ?? "", canGo = one.kind === "hub" || one.name.startsWith("models/");
    return h("li", {}, h("span", {class: "file"}, h("strong", {}, one.title), h("span", {class: "explain"}, one.name)), h("span", {class: "explain number"}, [kind, bytes(one.bytes)].filter(Boolean).join(" · ")), ...this.fit(one.title, one.name, one.name),
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
    const size = h("span", {class: "explain number"});
    const look = h("button", {type: "button", "aria-label": `${words.howLarge}: ${one.id}`, onclick: doing(async () => {
      const amount = await post("models/size", {name: one.id});
      size.textContent = words.modelSize(bytes(amount.bytes), bytes(amount.missing_bytes));
    })}, words.howLarge);
    return h("li", {}, h("span", {class: "file"}, h("strong", {}, one.title), h("span", {class: "explain"}, one.id)), size, ...this.fit(one.title, one.id, one.name), look,
      h("button", {type: "button", "aria-label": `${words.fetch}: ${one.id}`, onclick: doing(async () => { await post("fetches", {name: one.id}); await this.follow(); })}, words.fetch));
  }

  async look() {
    const [{here, published}, {demo}] = await Promise.all([get("models"), get("studio")]), own = demo && !here.some(one => one.name === demo.model) ? [{name: demo.model, title: demo.title, bytes: demo.bytes}] : [];
    this.context.models = {here: [...here, ...own], published};
    this.hereList.show([...here, ...own]);
    this.awayList.show(published.filter(one => !here.some(model => model.name === one.id)));
    this.looking.hidden = true;
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
  return () => { stop(); page.undo.leave(); };
}
