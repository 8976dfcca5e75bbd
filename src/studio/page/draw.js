// Drawing: what is listed is combined into a grid, whose pictures appear as they are done.

const drawStates = drawing => drawing.state !== "ended" ? drawing.state : drawing.exit_code === 0 || drawing.done >= drawing.total ? "done" : drawing.exit_code === 130 ? "interrupted" : drawing.exit_code === null ? "" : "failed";
const pictureUrl = (name, file) => `${root}api/drawings/${named(name)}/${named(file)}`;
const isClipName = file => /\.(mp4|webm)$/.test(file);

/** Axes of a grid in the order in which they are offered, each with what a cell says of it. */
const gridAxes = ["strength", "prompt", "seed", "lora", "without", "steps", "guidance", "size"];
const cellText = (axis, value) => axis === "size" ? value.join(" × ") : axis === "prompt" ? value : axis === "lora" ? value.replace(/\.safetensors$/, "") : axis === "without" ? words.drawing.withoutGroup(value) : words.drawing.value(words.drawing.axes[axis], number(value));

/** Values of an axis in a list of cells, in their order. */
function valuesOf(cells, axis) {
  const seen = new Map();
  for (const cell of cells) if (axis in cell) seen.set(JSON.stringify(cell[axis]), cell[axis]);
  return [...seen.values()];
}
const isAt = (cell, axis, value) => JSON.stringify(cell[axis]) === JSON.stringify(value);

/** The prompts that a run draws while it learns, without flags, and the size that these name. */
async function samplesOf(run) {
  const {text} = await promptsOf((await get(`runs/${named(run)}/settings`)).text), lines = (text ?? "").split("\n").filter(line => line.trim());
  const [width, height] = ["w", "h"].map(flag => new RegExp(`--?${flag} (\\d+)`).exec(lines[0] ?? "")?.[1]);
  return {prompts: lines.map(line => line.replace(/\s+--?[a-z] .*$/, "")), sizes: width && height ? [`${width}x${height}`] : []};
}

/** What the form asks for. */
class DrawForm {
  /** `wanted`: the run to draw with; `save`: which of its files, the newest without it. */
  constructor(files, runs, schema, {wanted = "", save = "", isOfSaves = false} = {}) {
    this.files = files;
    this.save = save;
    this.adapters = files.filter(file => file.is_adapter || file.place === "loras");
    this.loras = [];
    const listed = (id, label, note, more = {}) => {
      this[id] = h("input", {id: `draw-${id}`, "aria-describedby": `draw-${id}-note`, autocomplete: "off", spellcheck: "false", oninput: () => this.count(), ...more});
      return h("div", {class: "field"}, h("label", {for: `draw-${id}`}, label), this[id], h("p", {class: "explain", id: `draw-${id}-note`}, note));
    };
    const t = words.drawing;
    this.run = h("select", {id: "draw-run", onchange: () => { this.follow(); this.count(); }}, h("option", {value: ""}, t.otherModel), ...runs.map(run => h("option", {value: run.name}, run.name)));
    const model = listed("model", t.model, t.modelNote);
    this.modelField = model;
    this.add = h("select", {id: "draw-add", onchange: event => { if (event.target.value) this.take(this.adapters[Number(event.target.value)]); event.target.value = ""; }});
    this.list = h("ul", {class: "loras", "aria-label": t.loras});
    this.apart = h("input", {type: "checkbox", id: "draw-apart", onchange: () => this.count()});
    this.saves = h("button", {type: "button", hidden: true, onclick: () => this.allSaves()}, t.allSaves);
    this.apartField = h("div", {class: "entry", hidden: true}, this.apart, h("label", {for: "draw-apart"}, t.apart));
    this.prompts = h("textarea", {id: "draw-prompts", rows: 4, "aria-describedby": "draw-prompts-note", oninput: () => this.count()});
    const axis = (id, label) => {
      this[id] = h("select", {id: `draw-${id}`, onchange: () => this.count()}, h("option", {value: ""}, t.automatic), ...gridAxes.map(one => h("option", {value: one}, t.axes[one])));
      return h("div", {class: "field"}, h("label", {for: `draw-${id}`}, label), this[id]);
    };
    const own = ["run", "prompt", "prompts", "negative_prompt", "lora", "height", "width", "num_inference_steps", "cfg_scale", "num_images", "output_path", "model", "seed", "noise", "save_latents", "lora_strengths", "without_blocks"];
    this.more = new OptionFields("sample", schema.options.filter(option => !own.includes(option.name)));
    this.total = h("p", {class: "explain", role: "status"});
    this.name = h("input", {id: "draw-name", autocomplete: "off", spellcheck: "false", value: "drawing", oninput: () => this.count()});
    this.element = h("form", {class: "draw-form", onsubmit: event => event.preventDefault()},
      h("div", {class: "field"}, h("label", {for: "draw-run"}, t.base), this.run), model,
      h("div", {class: "field"}, h("label", {for: "draw-add"}, t.loras), this.add, this.list, this.saves, this.apartField, h("p", {class: "explain"}, t.lorasNote)),
      h("div", {class: "field"}, h("label", {for: "draw-prompts"}, t.prompts), this.prompts, h("p", {class: "explain", id: "draw-prompts-note"}, t.promptsNote)),
      listed("negative", t.negative, t.negativeNote),
      h("div", {class: "pair"}, listed("seeds", t.seeds, t.listNote("1, 2, 3")), listed("sizes", t.sizes, t.listNote("512x512, 768x512"))),
      h("div", {class: "pair"}, listed("steps", t.steps, t.listNote("8, 28")), listed("guidance", t.guidance, t.listNote("1, 4"))),
      listed("strengths", t.strengths, t.strengthsNote), h("button", {type: "button", onclick: () => this.beforeAndAfter()}, t.beforeAfter),
      this.withoutField = listed("without", t.without, t.withoutNote, {inputmode: "numeric"}),
      h("div", {class: "pair"}, axis("x", t.across), axis("y", t.down)),
      h("details", {}, h("summary", {}, t.more), this.more.element),
      h("div", {class: "field"}, h("label", {for: "draw-name"}, words.name), this.name),
      h("button", {class: "primary", onclick: doing(() => this.draw())}, t.draw), this.total);
    this.offer();
    const last = drawDraft.read(), hasRun = name => runs.some(run => run.name === name);
    if (hasRun(wanted)) this.ofRun(wanted);
    else if (last) this.fill(last);
    else if (runs.length > 0) this.ofRun(runs[0].name);
    if (isOfSaves) this.allSaves();
    this.count();
  }

  /** The newest LoRA of a run comes with its model, and goes with it. */
  follow() {
    const before = this.lastRun, ofRun = this.adapters.filter(file => file.place === `runs/${this.run.value}`), newest = ofRun.find(file => file.name === this.save) ?? ofRun[0];
    this.modelField.hidden = this.run.value !== "";
    this.lastRun = this.run.value;
    if (before !== this.run.value) this.loras = this.loras.filter(lora => before === undefined || lora.place !== `runs/${before}`);
    if (newest && !this.loras.some(lora => lora.place === newest.place)) this.loras.unshift({...newest, strength: 1});
    this.offer();
  }

  /** A run with its LoRA and, where the form has none, with the prompts that it drew while it learned. */
  ofRun(name) {
    this.run.value = name;
    this.follow();
    samplesOf(name).then(({prompts, sizes}) => {
      if (this.prompts.value.trim() !== "" || prompts.length === 0) return;
      this.prompts.value = prompts.join("\n");
      this.sizes.value = sizes.join(", ");
      this.count();
    }, () => {});
  }

  take(file, strength = 1) {
    if (!this.loras.some(lora => lora.place === file.place && lora.name === file.name)) this.loras.push({...file, strength});
    this.offer();
    this.count();
  }

  offer() {
    const t = words.drawing;
    const places = [...new Set(this.adapters.map(file => file.place))], numbered = this.adapters.map((file, i) => ({file, i}));
    this.add.replaceChildren(h("option", {value: ""}, this.adapters.length > 0 ? t.addLora : t.noLoras), ...places.map(place => h("optgroup", {label: place},
      ...numbered.filter(({file}) => file.place === place).map(({file, i}) => h("option", {value: i}, calledBy(file))))));
    this.list.replaceChildren(...this.loras.map(lora => h("li", {}, h("span", {class: "file"}, calledBy(lora), lora.place.startsWith("runs/") ? null : h("span", {class: "explain"}, ` ${lora.place}`)), this.strength(lora),
      h("button", {type: "button", "aria-label": `${words.remove}: ${lora.name}`, onclick: () => { this.loras = this.loras.filter(one => one !== lora); this.offer(); this.count(); }}, "×"))));
    this.saves.hidden = this.adapters.filter(file => file.place === `runs/${this.run.value}`).length < 2;
    this.apartField.hidden = this.loras.length < 2;
    this.strengths.disabled = this.loras.length === 0;
    this.withoutField.hidden = this.loras.length !== 1;
  }

  /** The strength of a LoRA, by hand or by a slider. */
  strength(lora) {
    const label = words.drawing.strengthOf(lora.name), slider = h("input", {type: "range", min: 0, max: 1.5, step: 0.05, value: lora.strength, "aria-label": `${label}: ${words.slider}`, oninput: event => { box.value = event.target.value; take(event.target.value); }});
    const box = h("input", {"aria-label": label, value: String(lora.strength), inputmode: "decimal", class: "short", oninput: event => { slider.value = event.target.value; take(event.target.value); }});
    const take = value => { lora.strength = Number(value); this.count(); };
    const layers = h("input", {class: "layers", title: words.drawing.layersNote, "aria-label": words.drawing.layersOf(lora.name), placeholder: words.drawing.allLayers, value: lora.layers ?? "", autocomplete: "off", spellcheck: "false", oninput: event => { lora.layers = event.target.value.trim(); this.count(); }});
    return h("span", {class: "strength"}, slider, box, layers);
  }

  /** Every save of the run, each by itself beside the others: how it learned. */
  allSaves() {
    this.loras = this.adapters.filter(file => file.place === `runs/${this.run.value}`).reverse().map(file => ({...file, strength: 1}));
    this.apart.checked = true;
    this.x.value = "lora";
    this.offer();
    this.count();
  }

  beforeAndAfter() {
    this.strengths.value = "0, 1";
    this.x.value = "strength";
    this.count();
  }

  /** What would be drawn; an Error for what is no number. */
  wish() {
    const t = words.drawing, parts = box => box.value.split(",").map(part => part.trim()).filter(Boolean);
    const numbers = (box, label) => parts(box).map(part => { if (!Number.isFinite(Number(part))) throw new Error(t.noNumber(label, part)); return Number(part); });
    const sizes = parts(this.sizes).map(part => { const found = /^(\d+)\s*[x×]\s*(\d+)$/.exec(part); if (!found) throw new Error(t.noSize(part)); return [Number(found[1]), Number(found[2])]; });
    const model = parts(this.model), options = this.run.value === "" && model.length > 0 ? `model = ${tomlValue(model)}\n` : "";
    return {name: this.name.value.trim(), run: this.run.value, loras: this.loras.map(({place, name, strength, layers}) => ({place, name, strength, ...layers ? {layers} : {}})), without_blocks: this.loras.length === 1 ? numbers(this.without, t.without)[0] ?? 0 : 0, apart: this.apart.checked && this.loras.length > 1,
      prompts: this.prompts.value.split("\n").map(line => line.trim()).filter(Boolean), negative_prompt: this.negative.value.trim(), seeds: numbers(this.seeds, t.seeds), sizes,
      steps: numbers(this.steps, t.steps), guidance: numbers(this.guidance, t.guidance), strengths: this.loras.length > 0 ? numbers(this.strengths, t.strengths) : [],
      x: this.x.value, y: this.y.value, settings: options + this.more.toml(), model: this.run.value ? "" : this.model.value.trim(), more: this.more.changed()};
  }

  count() {
    try {
      const wish = this.wish(), product = ["prompts", "seeds", "sizes", "steps", "guidance", "strengths"].reduce((all, list) => all * Math.max(1, wish[list].length), (wish.apart ? wish.loras.length : 1) * (1 + wish.without_blocks));
      this.total.textContent = words.drawing.count(product);
      this.total.className = "explain";
      drawDraft.keep(wish);
    } catch (error) {
      this.total.textContent = error.message;
      this.total.className = "problem";
    }
  }

  /** Refuses what could only fail later. */
  check(wish) {
    const t = words.drawing, needs = (input, text) => { input.focus(); throw new Error(text); };
    if (wish.run === "" && wish.model === "") needs(this.model, t.needsModel);
    if (wish.prompts.length === 0) needs(this.prompts, t.needsPrompt);
  }

  async draw() {
    this.check(this.wish());
    const job = await post("drawings", this.wish());
    location.hash = `#/draw?show=${named(job.run)}`;
  }

  /** Puts settings into the form: those of a drawing, of one of its pictures, or of a picture from elsewhere, whose LoRAs are looked for by their names. */
  fill(settings) {
    const list = values => (values ?? []).join(", "), bare = path => path.replace(/^.*\//, "").replace(/\.safetensors$/, "");
    const missing = [];
    this.loras = (settings.loras ?? []).flatMap(lora => {
      const found = this.adapters.find(file => lora.place ? file.place === lora.place && file.name === lora.name : lora.path.endsWith(`/${file.place}/${file.name}`)) ??
        this.adapters.find(file => bare(file.name) === bare(lora.name ?? lora.path));
      if (!found) missing.push(lora.name ?? lora.path);
      return found ? [{...found, strength: lora.strength ?? 1, layers: lora.layers ?? ""}] : [];
    });
    const ofRun = this.loras.map(lora => /^runs\/(.+)$/.exec(lora.place)?.[1]).find(Boolean), hasRun = name => [...this.run.options].some(option => option.value === name);
    this.run.value = settings.run !== undefined && hasRun(settings.run) ? settings.run : ofRun && hasRun(ofRun) ? ofRun : "";
    this.model.value = settings.model ?? "";
    this.modelField.hidden = this.run.value !== "";
    this.lastRun = this.run.value;
    this.prompts.value = (settings.prompts ?? []).join("\n");
    this.negative.value = settings.negative_prompt ?? "";
    this.seeds.value = list(settings.seeds);
    this.sizes.value = list((settings.sizes ?? []).map(size => size.join("x")));
    this.steps.value = list(settings.steps);
    this.guidance.value = list(settings.guidance);
    this.strengths.value = list(settings.strengths);
    this.without.value = settings.without_blocks > 0 ? String(settings.without_blocks) : "";
    this.apart.checked = settings.apart ?? false;
    this.x.value = settings.x ?? "";
    this.y.value = settings.y ?? "";
    if (settings.more) this.more.set(settings.more);
    if (settings.name) this.name.value = settings.name;
    this.offer();
    this.count();
    if (missing.length > 0) say(words.drawing.missing(missing.join(", ")), "bad");
  }
}

/** The grid of a drawing: a table of its two axes, and one for each combination of the others. */
class DrawnGrid {
  /** `throwAway` takes the name of a drawing to the bin. */
  constructor(fill, throwAway) {
    this.fill = fill;
    this.throwAway = throwAway;
    this.element = h("section", {class: "drawn", "aria-label": words.drawing.title});
    this.chooser = new Chooser((file, alt) => this.image(file, alt));
    this.viewer = h("dialog", {class: "viewer", "aria-label": words.drawing.picture, onclick: event => { if (event.target === this.viewer) this.viewer.close(); }});
  }

  show(drawing) {
    this.drawing = drawing;
    const t = words.drawing, state = drawStates(drawing), shown = Object.keys(drawing.pictures).length;
    const goesOn = ["waiting", "running"].includes(drawing.state), steps = /\bsample (\d+)\/(\d+)/.exec(drawing.says);
    const share = Math.max(shown / Math.max(1, drawing.total), steps ? steps[1] / steps[2] : 0);
    this.element.replaceChildren(...[h("div", {class: "section-head"}, h("h2", {}, drawing.name), h("span", {class: "actions"},
      goesOn ? h("button", {type: "button", onclick: doing(async () => { await post(`drawings/${named(drawing.name)}/stop`); say(t.stopped); })}, t.stop) : null,
      pairsOf(drawing).length > 0 ? h("button", {type: "button", onclick: () => this.chooser.open(drawing)}, words.choosing.begin) : null,
      h("button", {type: "button", onclick: () => this.fill(drawing.settings)}, t.use),
      goesOn ? null : h("button", {type: "button", onclick: doing(async () => {
        await this.throwAway(drawing.name);
      })}, words.bin))),
    h("p", {class: "explain", role: "status"}, `${t.states[state] ?? state} · ${t.done(shown, drawing.total)}`),
    goesOn ? h("div", {class: "meter wide", role: "progressbar", "aria-valuenow": Math.round(100 * share), "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": drawing.name}, h("i", {style: `width: ${100 * share}%`})) : null,
    drawing.says && state !== "done" ? h("p", {class: state === "failed" ? "problem" : "explain"}, plainSentence(drawing.says)) : null, ...this.tables(), this.viewer, this.chooser.element].filter(Boolean));
  }

  tables() {
    const {cells, settings} = this.drawing, varied = gridAxes.filter(axis => valuesOf(cells, axis).length > 1);
    const x = varied.includes(settings.x) ? settings.x : varied.find(axis => axis !== settings.y), y = varied.includes(settings.y) && settings.y !== x ? settings.y : varied.find(axis => axis !== x);
    const others = varied.filter(axis => axis !== x && axis !== y);
    const groups = new Map();
    for (const cell of cells) {
      const key = others.map(axis => cellText(axis, cell[axis])).join(" · ");
      groups.set(key, [...groups.get(key) ?? [], cell]);
    }
    const heads = x ? valuesOf(cells, x) : [null], rows = y ? valuesOf(cells, y) : [null];
    const at = (group, column, row) => group.find(cell => (!x || isAt(cell, x, column)) && (!y || isAt(cell, y, row)));
    return [...groups].flatMap(([key, group]) => [key ? h("h3", {}, key) : null, h("div", {class: "scroll"}, h("table", {class: "sheet"},
      x ? h("thead", {}, h("tr", {}, y ? h("td", {}) : null, ...heads.map(value => h("th", {scope: "col"}, cellText(x, value))))) : null,
      h("tbody", {}, ...rows.map(row => h("tr", {}, y ? h("th", {scope: "row"}, cellText(y, row)) : null, ...heads.map(column => h("td", {}, this.cell(at(group, column, row)))))))))].filter(Boolean));
  }

  cell(cell) {
    if (!cell) return "";
    const file = this.drawing.pictures[cell.picture], text = gridAxes.filter(axis => axis in cell).map(axis => cellText(axis, cell[axis])).join(", ");
    if (!file) return h("div", {class: "blank", role: "img", "aria-label": words.drawing.notYet(text)});
    return h("button", {type: "button", class: "picture", "aria-label": text, onclick: () => this.open(cell, file)}, this.image(file, ""));
  }

  image(file, alt) {
    const src = pictureUrl(this.drawing.name, file);
    return isClipName(file) ? h("video", {src, muted: true, autoplay: true, loop: true, playsinline: true, "aria-label": alt}) : h("img", {src, alt, loading: "lazy"});
  }

  /** One picture, as large as there is room, with what it was drawn by. */
  open(cell, file) {
    const t = words.drawing, {settings} = this.drawing;
    const facts = gridAxes.filter(axis => axis in cell).flatMap(axis => [h("dt", {}, t.axes[axis]), h("dd", {}, axis === "prompt" || axis === "size" || axis === "lora" ? cellText(axis, cell[axis]) : String(cell[axis]))]);
    const listed = axis => axis in cell ? [cell[axis]] : [];
    const own = {...settings, prompts: listed("prompt"), seeds: listed("seed"), sizes: listed("size"), steps: listed("steps"), guidance: listed("guidance"), strengths: listed("strength"),
      loras: "lora" in cell ? settings.loras.filter(lora => lora.name === cell.lora) : settings.loras, apart: false};
    const shown = this.image(file, cell.prompt), isClip = shown.tagName === "VIDEO";
    if (isClip) Object.assign(shown, {controls: true});
    this.viewer.replaceChildren(shown, isClip ? spectrogramOf(shown, shown.src) : "", h("dl", {class: "settings-of"}, ...facts), h("div", {class: "actions"},
      h("button", {type: "button", class: "primary", autofocus: true, onclick: () => { this.viewer.close(); this.fill(own); }}, t.openSettings),
      h("a", {class: "button", href: pictureUrl(this.drawing.name, file), download: `${this.drawing.name}-${file}`}, t.download),
      h("button", {type: "button", onclick: () => this.viewer.close()}, t.close)));
    this.viewer.showModal();
  }
}

const drawingRow = (drawing, shown) => h("li", {}, h("a", {href: `#/draw?show=${named(drawing.name)}`, "aria-current": drawing.name === shown ? "true" : undefined}, drawing.name),
  h("span", {class: `state ${drawStates(drawing)}`}, `${words.drawing.states[drawStates(drawing)] ?? ""} ${words.drawing.done(drawing.done, drawing.total)}`));

/** Takes what is dropped: the settings of a picture, or LoRAs to draw with. */
async function takeDropped(files, form, refresh) {
  for (const file of files) {
    if (/\.(safetensors|pt|pth|ckpt|bin)$/.test(file.name)) {
      await upload("loras", file.name, file);
      await refresh(file.name);
      continue;
    }
    const texts = await pngTexts(await file.arrayBuffer()), settings = texts && settingsOfPicture(texts);
    if (settings) {
      say(words.drawing.filled);
      form.fill(settings);
    } else say(words.drawing.saysNothing(file.name), "bad");
  }
}

/** Drawings by the run whose model drew them, those of the newest drawing first; of many runs the first is open, and the one that is shown. */
class DrawingList {
  constructor() {
    this.element = h("div", {class: "drawing-groups"});
    this.groups = new KeptList(this.element, ({run}) => run, ({run, drawings, shown, isOpen}) => h("details", {open: isOpen}, h("summary", {}, run || words.drawing.ofOthers, h("span", {class: "explain number"}, ` ${whole(drawings.length)}`)),
      h("ul", {class: "sets"}, ...drawings.map(one => drawingRow(one, shown)))));
  }

  show(all, wish, shown) {
    const found = all.filter(one => `${one.name} ${one.of_run}`.toLowerCase().includes(wish)), runs = [...new Set(found.map(one => one.of_run))];
    this.groups.show(runs.map((run, i) => {
      const drawings = found.filter(one => one.of_run === run);
      return {run, drawings: drawings.map(({name, state, exit_code, done, total}) => ({name, state, exit_code, done, total})), shown, isOpen: wish !== "" || i === 0 || drawings.some(one => one.name === shown)};
    }));
  }
}

async function showDraw(view, query) {
  const [files, runs, schema] = await Promise.all([get("files"), get("runs"), get("options/sample")]);
  const form = new DrawForm(files, runs, schema, {wanted: query.get("run") ?? "", save: query.get("save") ?? "", isOfSaves: query.has("saves")}), drawn = new DrawnGrid(settings => { form.fill(settings); form.prompts.focus(); say(words.drawing.filled); }, name => binDrawing(name)), list = new DrawingList(), none = h("p", {class: "explain"}, words.drawing.none), search = h("input", {type: "search", class: "search-drawings", hidden: true, placeholder: words.drawing.search, "aria-label": words.drawing.search});
  const drop = event => {
    event.preventDefault();
    takeDropped(event.dataTransfer.files, form, async name => {
      form.files = await get("files");
      form.adapters = form.files.filter(file => file.is_adapter || file.place === "loras");
      const added = form.adapters.find(file => file.place === "loras" && file.name === name) ?? form.adapters[0];
      if (added) form.take(added);
    }).catch(error => say(error.message, "bad"));
  };
  const picker = h("input", {type: "file", multiple: true, hidden: true, id: "draw-files", onchange: event => { drop({preventDefault() {}, dataTransfer: {files: event.target.files}}); }});
  view.replaceChildren(h("div", {class: "drawing", ondragover: event => event.preventDefault(), ondrop: drop},
    h("div", {class: "section-head"}, h("h1", {}, words.drawing.title), h("span", {class: "actions"}, h("button", {type: "button", onclick: () => picker.click()}, words.drawing.openFile), picker)),
    h("p", {class: "explain"}, words.drawing.drop), h("div", {class: "drawer"}, form.element, h("div", {class: "drawn-side"}, drawn.element, h("section", {}, h("h2", {}, words.drawing.all), search, none, list.element)))));
  let last = "", lastShown = "", all = [];
  const showList = name => {
    search.hidden = all.length < 6;
    none.hidden = all.length > 0;
    list.show(all, search.value.trim().toLowerCase(), name);
  };
  search.addEventListener("input", () => showList(query.get("show") ?? all[0]?.name));
  const undo = new Undo(), binDrawing = name => throwAway(`drawings/${named(name)}`, name, undo, async () => {
    lastShown = "";
    drawn.element.replaceChildren();
    if (query.has("show")) history.replaceState(null, "", "#/draw");
    query.delete("show");
    await refresh();
  });
  const refresh = async () => {
    const drawings = await get("drawings"), name = query.get("show") ?? drawings[0]?.name, text = JSON.stringify(drawings);
    all = drawings;
    if (text !== last) showList(name);
    last = text;
    if (name === undefined || !drawings.some(one => one.name === name)) return;
    const shown = await get(`drawings/${named(name)}`), shownText = JSON.stringify(shown);
    if (shownText === lastShown || drawn.viewer.open || drawn.chooser.element.open) return;
    const isFirst = lastShown === "" && query.has("show");
    lastShown = shownText;
    drawn.show({...shown, done: Object.keys(shown.pictures).length});
    if (isFirst) drawn.element.scrollIntoView({block: "start"});
  };
  const stop = poll(refresh, 1000);
  return () => { stop(); undo.leave(); };
}
