// The fields of a first run: what is trained, on what, for how long, and what is drawn on the way.

/** A field of an option, with places for what is wrong and what is moot, and a note, which is the row's own where a page has no other. */
function namedField(form, name, input, note = "", ...more) {
  const id = input.id, option = form.options.find(one => one.name === name), problem = h("p", {class: "problem", id: `${id}-problem`, hidden: true}), moot = h("p", {class: "explain", hidden: true});
  form.firstFields.set(name, {input, problem, moot});
  input.setAttribute("aria-describedby", `${id}-note ${id}-problem`);
  return h("div", {class: "field"}, optionLabel(option, id), h("div", {class: "entry"}, input), problem, moot, ...more, h("p", {class: "explain", id: `${id}-note`}, note || asSentence(optionNote(option))));
}

/** A text is put into an input, but not under the fingers of whoever types there. */
function put(input, text) {
  if (document.activeElement !== input && input.value !== text) input.value = text;
}

/** The prompts that settings name, where they were typed on a page: {path, text}; the text is null for a file of somebody's own, "" for none. */
async function promptsOf(settings) {
  const path = textOf(settings, "preview_prompts"), isTyped = /(^|\/)prompts\/[0-9a-f]{16}\.txt$/.test(path);
  const typed = isTyped ? await get(`prompts?path=${named(path)}`).catch(() => null) : null;
  return {path, text: typed ? typed.text.trim() : path ? null : ""};
}

/** What the form says of these: what was typed, nothing where a file says it, and null, for what is suggested, where there are none. */
const typedOf = ({path, text}) => path ? text ?? "" : null;

/** Which model: those on this machine as tiles, those of hubs to be fetched, or any by its path. */
class ModelField {
  constructor(form) {
    this.form = form;
    this.models = form.context.models;
    this.tiles = new Tiles("model-tile", words.model, name => this.take(name));
    this.input = h("input", {id: "option-model", list: "models", autocomplete: "off", spellcheck: "false", oninput: event => form.set({model: event.target.value.split(",").map(part => part.trim()).filter(Boolean)})});
    this.away = h("select", {id: "model-away", onchange: event => { if (event.target.value) this.take(event.target.value); }});
    this.problem = h("p", {class: "problem", id: "option-model-problem", hidden: true});
    this.more = h("details", {}, h("summary", {}, words.otherModel),
      h("div", {class: "field"}, h("label", {for: "model-away"}, words.downloadModel), this.away),
      h("div", {class: "field"}, h("label", {for: "option-model"}, words.modelPath, " ", h("code", {class: "option-name"}, "model")), this.input));
    form.firstFields.set("model", {input: this.input, problem: this.problem, moot: h("p", {})});
    this.element = h("div", {class: "field wide"}, h("p", {class: "field-title"}, words.model), this.tiles.element, this.models.note, this.problem, this.more);
    this.fits = new Fits(form.context, () => this.show());
    this.models.changed = () => { this.show(); form.read(); this.plan(); };
  }

  /** A model brings the preset that was made for it, where the settings are not somebody's own. */
  take(name) {
    const {form} = this, presets = presetsOf(form.context, name);
    if (presets.length > 0 && (form.preset !== "" || form.isBare())) form.takePreset(presets[0], name);
    else form.set({model: [name]});
  }

  /** Plans what is here, and then what may be downloaded: what fits stands first. */
  plan() {
    const {here, published} = this.models, away = published.filter(one => !here.some(model => model.name === one.id));
    this.fits.look([...here.map(one => ({name: one.name, planned: one.name, isThorough: true, denoiser: one.denoiser})), ...away.map(one => ({name: one.id, planned: one.name}))]);
  }

  /** Models to download, as far as they are planned by whether they fit; while the list is open it stays as it is. */
  offer(ids, chosen) {
    if (document.activeElement === this.away) return;
    const option = one => h("option", {value: one.id, selected: one.id === chosen}, one.title === lastOf(one.id) ? one.title : `${one.title} · ${lastOf(one.id)}`), kindOf = one => plannedFits.get(one.id)?.kind ?? "";
    const groups = [["good", "with"], [""], ["unsure", "bad"]].map((kinds, i) => [words.fitGroups[i], ids.filter(one => kinds.includes(kindOf(one)))]).filter(([, some]) => some.length > 0);
    this.away.replaceChildren(h("option", {value: ""}, words.choose), ...groups.map(([title, some]) => h("optgroup", {label: title}, ...some.map(option))));
  }

  show() {
    const named = [this.form.values.model ?? []].flat(), {here, published} = this.models, ids = published.filter(one => !here.some(model => model.name === one.id));
    this.tiles.show(here.map(one => ({value: one.name, title: one.title, note: [familyName(one.family), bytes(one.bytes), lastOf(one.name)].filter(Boolean).join(" · "), mark: plannedFits.get(one.name)})), named[0]);
    this.offer(ids, named[0]);
    put(this.input, named.join(", "));
    this.models.show(named.join(", "));
    if (named.length > 0 && this.models.isKnown && !here.some(one => one.name === named[0])) this.more.open = true;
  }
}

/** Options whose paths start at the folder of the settings, which is one of the workspace; in fields they start at the workspace, as those of models do. */
const isPathOption = name => /^(dataset|validation|class)_(base|metadata)_path$|^(preview_prompts|cache_path)$/.test(name);

/** A typed path as settings have it; a dataset of the workspace may be called by its name alone. */
function storedPath(text, datasets) {
  const path = String(text ?? "").trim(), isDataset = datasets.some(one => one.name === path);
  if (path === "") return undefined;
  return isDataset ? `../datasets/${path}` : /^([/~]|\.\.?(\/|$))/.test(path) ? path : `../${path}`;
}
const shownPath = path => /^\.\.\/(?!\.)/.test(path ?? "") ? path.slice(3) : path ?? "";

/** Which pictures: the datasets of the workspace as tiles, or a table or folder by its path. */
class DatasetField {
  constructor(form) {
    this.form = form;
    this.tiles = new Tiles("dataset-tile", words.data, name => form.set({dataset_base_path: `../datasets/${name}`, dataset_metadata_path: undefined}));
    this.input = h("input", {id: "option-dataset_base_path", autocomplete: "off", spellcheck: "false", oninput: event => form.set({dataset_base_path: storedPath(event.target.value, form.context.datasets)})});
    this.table = h("input", {id: "option-dataset_metadata_path", autocomplete: "off", spellcheck: "false", oninput: event => form.set({dataset_metadata_path: storedPath(event.target.value, [])})});
    this.more = h("details", {}, h("summary", {}, words.otherData), namedField(form, "dataset_base_path", this.input),
      namedField(form, "dataset_metadata_path", this.table));
    this.none = h("p", {class: "explain"}, words.noDataYet, " ", h("a", {href: "#/"}, words.addPictures));
    this.element = h("div", {class: "field wide"}, h("p", {class: "field-title"}, words.data), this.tiles.element, this.none, this.more);
  }

  /** The dataset of the workspace that settings name; "" for none of them. */
  get name() {
    const {root} = this.form.context, path = this.form.values.dataset_base_path ?? "";
    const found = path.startsWith("../datasets/") ? path.slice(12) : path.startsWith(`${root}/datasets/`) ? path.slice(root.length + 10) : "";
    return this.form.context.datasets.some(one => one.name === found.replace(/\/+$/, "")) ? found.replace(/\/+$/, "") : "";
  }

  show() {
    const {datasets} = this.form.context, {values} = this.form, name = this.name;
    this.tiles.show(datasets.map(datasetTile), name);
    this.none.hidden = datasets.length > 0;
    put(this.input, name ? "" : shownPath(values.dataset_base_path));
    put(this.table, shownPath(values.dataset_metadata_path));
    if (!name && (values.dataset_base_path || values.dataset_metadata_path)) this.more.open = true;
  }
}

/** What is drawn while it trains: typed here, or three captions of the dataset until somebody types. */
class PromptsField {
  constructor(form) {
    this.form = form;
    this.captions = [];
    const small = (id, title, option, change) => {
      this[id] = h("input", {id: `first-${id}`, autocomplete: "off", inputmode: "numeric", oninput: event => change(event.target.value.trim())});
      return h("div", {class: "field"}, h("label", {for: `first-${id}`}, title, option ? " " : null, option ? h("code", {class: "option-name"}, option) : null), this[id]);
    };
    this.text = h("textarea", {id: "first-prompts", rows: 3, oninput: event => { form.prompts = event.target.value; form.keep(); this.show(); }});
    this.chips = h("div", {class: "chips"});
    this.element = h("div", {}, namedField(form, "preview_prompts", this.text, words.samplePromptsNote, this.chips), h("div", {class: "three even"},
      small("every", optionTitle(form.options.find(one => one.name === "preview_steps")), "preview_steps", text => form.set({preview_steps: text === "" ? undefined : Number(text)})),
      small("size", words.sampleSize, "", text => { form.promptSize = text; form.keep(); }), small("seed", words.sampleSeed, "", text => { form.promptSeed = text; form.keep(); })));
  }

  /** Three captions of the dataset, as far from each other as they stand there; each calls what is trained by its trigger word. */
  suggested() {
    const trigger = this.form.values.trigger_word ?? "", all = this.captions;
    const some = all.length <= 3 ? all : [0, 1, 2].map(i => all[Math.floor((i + 0.5) * all.length / 3)]);
    return some.map(caption => !trigger ? caption : caption.includes("[trigger]") ? caption.replaceAll("[trigger]", trigger) : caption.includes(trigger) ? caption : `${trigger}, ${caption}`);
  }

  /** What somebody typed, or what is suggested until then, where settings name no file of prompts. */
  get wording() { return this.form.prompts ?? (this.form.values.preview_prompts ? "" : this.suggested().join("\n")); }

  /** What would be drawn, a prompt a line. */
  get lines() { return this.wording.split("\n").map(line => line.trim()).filter(Boolean); }

  /** Steps between two drawings, where somebody says none: four times in the run. */
  get usualEvery() { return Math.max(1, Math.round((this.form.values.max_steps || 0) / 4)); }

  /** Reads the captions of a dataset; what is suggested comes from them. */
  async look(dataset) {
    if (dataset === this.dataset) return;
    this.dataset = dataset;
    const items = dataset ? await get(`datasets/${named(dataset)}/items`).catch(() => []) : [];
    if (dataset !== this.dataset) return;
    this.captions = [...new Set(items.filter(item => item.caption && !item.is_left_out).map(item => item.caption.split("\n")[0]))];
    this.show();
  }

  show() {
    const {form} = this, there = new Set(this.lines), file = form.values.preview_prompts ?? "";
    put(this.text, this.wording);
    this.text.placeholder = file ? words.promptsOfFile(file) : words.noPrompts;
    this.chips.replaceChildren(...(form.prompts === null ? [] : this.suggested().filter(one => !there.has(one)).map(one => h("button", {type: "button", class: "chip",
      onclick: () => { form.prompts = [...this.lines, one].join("\n"); this.text.value = form.prompts; form.keep(); this.show(); }}, `+ ${one}`))));
    put(this.every, form.values.preview_steps ? String(form.values.preview_steps) : "");
    this.every.placeholder = form.values.max_steps ? String(this.usualEvery) : "–";
    put(this.size, form.promptSize ?? "");
    this.size.placeholder = form.first.side ? `${form.first.side}x${form.first.side}` : words.sameSize;
    put(this.seed, form.promptSeed ?? "");
    this.seed.placeholder = "42";
  }

  /** A prompt a line with flags for what it does not say itself, as files of prompts have them. */
  file() {
    const [width, height] = (this.size.value || this.size.placeholder).split(/[x×]/).map(Number), seed = Number(this.seed.value || this.seed.placeholder);
    const flags = [[/--?w\b/, width > 0 ? `--w ${width}` : ""], [/--?h\b/, (height || width) > 0 ? `--h ${height || width}` : ""], [/--?d\b/, Number.isFinite(seed) ? `--d ${seed}` : ""]];
    return this.lines.map(line => [line, ...flags.filter(([pattern]) => !pattern.test(line)).map(([, flag]) => flag).filter(Boolean)].join(" ")).join("\n");
  }
}

class FirstFields {
  constructor(form) {
    this.form = form;
    const number = (option, id = `option-${option}`, change = value => form.set({[option]: value})) =>
      h("input", {id, inputmode: "decimal", autocomplete: "off", oninput: event => change(parsedOption({type: "number"}, event.target.value.trim()))});
    this.steps = number("max_steps");
    this.rank = number("lora_rank");
    this.sizeInput = number("", "first-side", value => this.setSide(value));
    this.trigger = h("input", {id: "option-trigger_word", autocomplete: "off", spellcheck: "false", oninput: event => form.set({trigger_word: event.target.value.trim() || undefined})});
    this.model = new ModelField(form);
    this.data = new DatasetField(form);
    this.prompts = new PromptsField(form);
    this.element = h("div", {class: "first-fields"}, this.model.element, this.data.element,
      namedField(form, "trigger_word", this.trigger),
      h("div", {class: "three"}, namedField(form, "max_steps", this.steps), namedField(form, "resolution", this.sizeInput, words.sideNote),
        namedField(form, "lora_rank", this.rank)), this.prompts.element);
  }

  /** The side of pictures where they are trained at one size; 0 where settings say something else. */
  get side() {
    const {resolution = [], height = 0, width = 0} = this.form.values, first = Number(resolution[0] ?? 0);
    return resolution.length === 1 && first > 0 ? first : resolution.length === 0 && height === width ? height : 0;
  }

  /** Settings that name height and width go on so; others train each picture at the size nearest its shape. */
  setSide(side) {
    const {height, width} = this.form.values;
    this.form.set(height && width ? {height: side, width: side} : {resolution: side === undefined ? undefined : [String(side)], enable_bucket: side === undefined ? undefined : true});
  }

  show() {
    const {values} = this.form;
    this.model.show();
    this.data.show();
    put(this.trigger, values.trigger_word ?? "");
    put(this.steps, values.max_steps ? String(values.max_steps) : "");
    this.steps.placeholder = words.epochsOf(values.num_epochs ?? 1);
    put(this.rank, String(values.lora_rank ?? ""));
    put(this.sizeInput, this.side ? String(this.side) : "");
    this.sizeInput.placeholder = words.asTheyAre;
    this.prompts.show();
    this.prompts.look(this.data.name);
  }
}
