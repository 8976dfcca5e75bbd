// A new run: options as fields and as a file, in step, with what is wrong and what it takes beside them.

/** What the form always asks for comes first; the other options are folded, by group. */
const levels = [["usual", words.usual], ["all", words.all]];

/** Settings begin as TOML; whatever fields say is written into it, so that comments and order stay the user's. */
class Form {
  constructor(context, draft) {
    this.context = context;
    Object.assign(this, {gpu: "", settings: "", preset: "", goal: context.goals[0]?.title, prompts: null, promptSize: "", promptSeed: "", ...draft});
    this.options = context.schema.options.filter(option => !["output_path", "resume", "auto_resume", "overwrite"].includes(option.name));
    this.level = "usual";
    this.values = {};
    this.fields = new Map();
    this.firstFields = new Map();
    this.turn = 0;
    this.expected = {};  // what was planned last
    this.undo = new Undo();
    this.first = new FirstFields(this);
    this.judge = new Judge(this);
    this.build(draft?.name);
    this.gpuChoice.value = this.context.gpus.some(gpu => String(gpu.index) === this.gpu) ? this.gpu : "";
    this.read();
  }

  build(name) {
    this.name = h("input", {id: "run-name", value: name || this.suggested(), autocomplete: "off", spellcheck: "false", oninput: () => this.keep()});
    this.search = h("input", {type: "search", placeholder: words.search, "aria-label": words.search, oninput: () => this.drawFields()});
    this.levelButtons = levels.map(([level, text]) => h("button", {type: "button", "aria-pressed": String(level === this.level), onclick: () => this.show(level)}, text));
    this.list = h("div", {class: "fields"});
    this.toml = h("textarea", {id: "toml", spellcheck: "false", rows: 24, oninput: () => { this.settings = this.toml.value; this.readSoon(); }});
    this.toml.value = this.settings;
    this.gpuChoice = h("select", {id: "run-gpu", onchange: event => { this.gpu = event.target.value; this.readSoon(); }}, h("option", {value: ""}, words.anyGpu),
      ...this.context.gpus.map(gpu => h("option", {value: gpu.index}, `${words.onGpu(gpu.index)} · ${gpu.name} · ${bytes(gpu.total_bytes)}`)));
    this.gpuField = h("div", {class: "field", hidden: this.context.gpus.length < 2}, h("label", {for: "run-gpu"}, words.gpu), this.gpuChoice);
    this.startButton = h("button", {type: "button", class: "primary", onclick: doing(() => this.start())}, words.start);
    this.more = h("details", {class: "more-settings"}, h("summary", {}, words.moreSettings),
      h("div", {class: "controls"}, h("div", {class: "segments", role: "group", "aria-label": words.settings}, ...this.levelButtons), this.search), this.list);
    this.element = h("div", {class: "maker"},
      h("div", {class: "maker-form"}, h("div", {class: "field"}, h("label", {for: "run-name"}, words.runName), this.name), this.first.element, this.more),
      h("aside", {class: "maker-side", "aria-label": words.summary},
        this.judge.element, this.gpuField, h("div", {class: "maker-bar"}, this.judge.short, this.startButton),
        h("details", {class: "as-file"}, h("summary", {}, words.toml), h("label", {for: "toml", class: "hidden"}, words.toml), this.toml)));
  }

  suggested() {
    const ofData = /^\.\.\/datasets\/([^/]+)/.exec(textOf(this.settings, "dataset_base_path"))?.[1];
    return (lastOf(textOf(this.settings, "output_path")) || ofData || "run").replace(/^\.+/, "");
  }

  leave() {
    ++this.turn;
    clearTimeout(this.timer);
    this.first.model.fits.leave();
    this.undo.leave();
  }

  /** What the form holds, for another visit. */
  state() {
    const {gpu, settings, preset, goal, prompts, promptSize, promptSeed} = this;
    return {gpu, settings, preset, goal, prompts, promptSize, promptSeed, name: this.name.value};
  }
  keep() { runDraft.keep(this.state()); }

  /** Whether nobody said anything yet but which pictures, and what they are called by. */
  isBare() { return this.settings.split("\n").every(line => /^\s*(#|$|dataset_|trigger_word)/.test(line)); }

  // --- what changes it ---------------------------------------------------------------------------------------------------------

  /** Takes what another tab, or an earlier visit, holds. */
  take(state) {
    const {name, ...others} = state;
    Object.assign(this, others);
    if (name) put(this.name, name);
    this.gpuChoice.value = this.context.gpus.some(gpu => String(gpu.index) === this.gpu) ? this.gpu : "";
    this.toml.value = this.settings;
    this.read();
  }

  /** Becomes another one; what it was can be had back. */
  replace(state, text = words.replaced) {
    const before = this.state();
    if (!this.isBare() && before.settings !== state.settings) this.undo.add(() => this.take(before), text);
    this.take(state);
    this.begun?.();
  }

  /** A preset, which leaves what it says nothing of: the pictures, what they are called by, the prompts. `model` is the one to train. */
  takePreset(preset, model = undefined) {
    const own = Object.fromEntries(["dataset_base_path", "dataset_metadata_path", "dataset_config", "trigger_word"].map(name => [name, textOf(this.settings, name)]).filter(([, value]) => value));
    const goal = this.context.goals.find(one => one.title === this.goal), preferred = preset.isOwn || preset.isDemo ? {} : goal?.settings ?? {};
    const here = this.context.models.here.find(one => lastOf(one.name) === lastOf(/^model = \["([^"]+)"\]/m.exec(preset.settings)?.[1] ?? "")), chosen = model ?? here?.name;
    const given = {...preferred, ...own, ...(chosen ? {model: [chosen]} : {})};
    this.replace({settings: Object.entries(given).reduce((text, [name, value]) => withValue(text, name, value), preset.settings), preset: preset.name});
  }

  /** Settings of a run or of another program, as TOML. Prompts that were typed here come with them. */
  async takeText(settings, name = "") {
    this.replace({settings, preset: "", prompts: typedOf(await promptsOf(settings))});
    this.name.value = name || this.suggested();
    this.keep();
  }

  /** Options at other values; undefined takes one out. */
  set(values) {
    for (const [name, value] of Object.entries(values)) {
      const option = this.options.find(one => one.name === name), isDefault = !option || isDefaultOf(option, value);
      this.settings = withValue(this.settings, name, isDefault ? undefined : value);
      this.values[name] = isDefault ? option?.default : value;
    }
    this.toml.value = this.settings;
    this.first.show();
    this.readSoon();
  }

  /** Takes flags as a command line has them. */
  takeFlags(text) {
    const before = this.state(), values = flagsOf(text).filter(([name]) => this.options.some(option => option.name === name)).map(([name, value]) => {
      const option = this.options.find(one => one.name === name);
      return [name, option.type === "truth value" ? value === true || value === "true" : parsedOption(option, String(value))];
    });
    this.set(Object.fromEntries(values));
    this.undo.add(() => this.take(before), words.changedTo(changeText(text)));
  }

  // --- fields -------------------------------------------------------------------------------------------------------------------

  show(level) {
    this.level = level;
    this.levelButtons.forEach((button, i) => button.setAttribute("aria-pressed", String(levels[i][0] === level)));
    this.drawFields();
  }

  /** What is asked for below the first fields: those of the level, or all that the search finds; what has a value or a problem is always there. */
  shownOptions() {
    const wish = this.search.value.trim().toLowerCase(), others = this.options.filter(option => !this.firstFields.has(option.name) || option.name === "resolution");
    if (wish) return others.filter(option => `${option.name} ${optionTitle(option)} ${option.meaning}`.toLowerCase().includes(wish));
    return others.filter(option => option.name !== "preview_steps" && (this.level === "all" || ["first_run", "usual"].includes(option.level) || this.isSet(option) || this.problemOf(option.name)));
  }

  /** Shows an option, and puts the cursor there. */
  showOption(name) {
    const option = this.options.find(one => one.name === name), first = this.firstFields.get(name)?.input;
    if (first) {
      first.closest("details")?.setAttribute("open", "");
      return (first.closest(".field.wide")?.querySelector("input") ?? first).focus();
    }
    if (!option) return;
    this.more.open = true;
    if (!["first_run", "usual"].includes(option.level) && this.level !== "all") this.show("all");
    else if (!document.getElementById(`option-${name}`)) this.drawFields();
    const input = document.getElementById(`option-${name}`);
    input?.closest("details.group")?.setAttribute("open", "");
    input?.focus();
  }

  isSet(option) { return !isDefaultOf(option, this.values[option.name]); }
  problemOf(name) { return this.problems?.find(problem => problem.option === name); }

  /** Fields by group, folded but for those in which something is said, wrong or sought. */
  drawFields() {
    const groups = new Map(), isSought = this.search.value.trim() !== "", wasOpen = new Set([...this.list.querySelectorAll("details[open]")].map(one => one.dataset.group));
    this.fields.clear();
    for (const option of this.shownOptions()) groups.set(option.group, [...groups.get(option.group) ?? [], option]);
    this.list.replaceChildren(...groups.size === 0 ? [h("p", {class: "explain"}, words.noMatch)] : [...groups].map(([group, options]) => {
      const numSet = options.filter(option => this.isSet(option)).length, isWrong = options.some(option => this.problemOf(option.name));
      return h("details", {class: "group", "data-group": group, open: isSought || isWrong || wasOpen.has(group)},
        h("summary", {}, groupTitle(group), numSet > 0 ? h("span", {class: "explain"}, ` ${words.numSet(numSet)}`) : null), ...options.map(option => this.field(option)));
    }));
    this.mark();
  }

  field(option) {
    const id = `option-${option.name}`, note = `${id}-note`;
    const input = this.input(option, id, note), problem = h("p", {class: "problem", id: `${id}-problem`, hidden: true}), moot = h("p", {class: "explain", hidden: true});
    this.fields.set(option.name, {input, problem, moot});
    return h("div", {class: "field"}, optionLabel(option, id), h("div", {class: "entry"}, input, option.unit ? h("span", {class: "unit"}, option.unit) : null), problem, moot, h("p", {class: "explain", id: note}, optionNote(option)));
  }

  input(option, id, note) {
    const isPath = isPathOption(option.name), value = this.values[option.name] ?? option.default;
    return optionInput(option, isPath ? shownPath(value) : value, {id, "aria-describedby": `${note} ${id}-problem`},
      typed => this.set({[option.name]: isPath ? storedPath(typed, this.context.datasets) : typed}));
  }

  // --- what is said of it -------------------------------------------------------------------------------------------------------

  readSoon() {
    this.keep();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.read(), 250);
  }

  /** What the settings say, at once; then what they take, which needs the model's files. Of several answers the last one counts. */
  async read() {
    const turn = ++this.turn, focused = document.activeElement?.id;
    this.keep();
    this.judge.busy(true);
    try {
      const form = await post("form", {settings: this.settings});
      if (turn !== this.turn) return;
      this.values = form.values;
      this.idle = new Map(form.idle.map(one => [one.option, one.belongs_to]));
      const missing = this.missing(), isNeed = problem => missing.includes("dataset_base_path") && problem.option === "dataset_metadata_path";
      this.problems = form.problems.filter(problem => !isNeed(problem));
      this.first.show();
      if (this.list.contains(document.activeElement) && focused?.startsWith("option-")) this.mark();
      else this.drawFields();
      if (this.problems.length > 0) return this.judge.problems(this.problems.map(problem => problem.sentence));
      if (missing.length > 0) return this.judge.needs(missing);
      const settings = this.settingsToPlan(), fit = this.wantsFit ?? false, answer = await post("plan", {settings, fit, alone: !fit, ...this.ofGpu});
      this.wantsFit = false;
      if (turn === this.turn) this.hear(answer);
      if (turn !== this.turn || fit || answer.plan?.fits !== false) return;
      const whole = await post("plan", {settings, ...this.ofGpu});  // with what would take less, which takes longer
      if (turn === this.turn) this.hear(whole);
    } catch (error) {
      if (turn === this.turn) this.judge.problems([error.message]);
    } finally {
      if (turn === this.turn) this.judge.busy(false);
    }
  }

  /** The GPU that the run is to have, for a request. */
  get ofGpu() { return this.gpuChoice.value === "" ? {} : {gpu: Number(this.gpuChoice.value)}; }

  /** What a run cannot do without, and nobody has said yet. */
  missing() {
    const isSaid = names => names.some(name => [this.values[name] ?? []].flat().some(value => value !== ""));
    const isOther = this.values.task && !["sft", "dpo"].includes(this.values.task);
    return [isSaid(["model", "model_paths", "model_id_with_origin_paths"]) ? "" : "model",
      isOther || isSaid(["dataset_base_path", "dataset_metadata_path", "dataset_config", "dataset"]) ? "" : "dataset_base_path"].filter(Boolean);
  }

  mark() {
    for (const [name, {input, problem, moot}] of [...this.firstFields, ...this.fields]) {
      const found = this.problemOf(name), idle = this.idle?.get(name);
      problem.textContent = found ? plainSentence(found.sentence) : "";
      problem.hidden = !found;
      input.setAttribute("aria-invalid", String(Boolean(found)));
      moot.textContent = idle ? words.moot(idle) : "";
      moot.hidden = !idle;
    }
  }

  /** What planning says. A sentence about a field stands at that field too. */
  hear({problems, plan, sentence, pace}) {
    const steps = plan?.length?.steps ?? 0;
    this.expected = {steps, seconds: Math.round((pace?.seconds_a_step ?? 0) * steps)};
    if (!plan || problems) {
      const said = problems ?? [{sentence: sentence ?? words.unplanned, option: this.optionOf(sentence ?? "")}];
      this.problems = said;
      this.drawFields();
      return this.judge.problems(said.map(problem => problem.sentence));
    }
    this.judge.plan(plan, pace);
  }

  /** The option that a sentence is about: one that it names, or one whose value it names. */
  optionOf(sentence) {
    const named = optionsIn(sentence, this.options), texts = this.options.filter(option => this.isSet(option) && /text/.test(option.type) && !(option.choices?.length > 0));
    const byValue = texts.find(option => [this.values[option.name] ?? []].flat().some(value => lastOf(String(value)).length > 1 && sentence.includes(lastOf(String(value)))));
    const bySize = ["height", "width"].includes(named[0]) && (this.values.resolution ?? []).length > 0 ? "resolution" : named[0];
    return bySize ?? byValue?.name ?? "";
  }

  /** Looks for settings that fit, and takes them. */
  async fit() {
    const turn = ++this.turn;  // an answer that is on its way comes too late
    this.judge.seeking();
    const answer = await post("plan", {settings: this.settingsToPlan(), fit: true, ...this.ofGpu});
    if (turn !== this.turn) return;
    this.judge.busy(false);
    if (answer.plan?.fit) return this.takeFlags(answer.plan.fit.flags);
    if (answer.plan) answer.plan.wasSought = true;
    this.hear(answer);
  }

  /** A published model need not be here to be planned: its name stands for its shapes. */
  settingsToPlan() {
    const [model, ...more] = [this.values.model ?? []].flat(), published = this.context.models.away(model);
    return published && more.length === 0 ? withValue(this.settings, "model", [published.name]) : this.settings;
  }

  /** Settings with prompts that were typed as a file of their own. */
  async settingsToStart() {
    const settings = withValue(this.settings, "output_path", undefined), {prompts} = this.first, ownFile = this.values.preview_prompts && !this.prompts?.trim();
    if (prompts.lines.length === 0 || ownFile) return settings;
    const {path} = await post("prompts", {text: prompts.file()}), every = this.values.preview_steps || prompts.usualEvery;
    return withValue(withValue(settings, "preview_prompts", path), "preview_steps", every);
  }

  async start() {
    const missing = this.missing();
    if (missing.length > 0) {
      this.showOption(missing[0]);
      throw new Error(`${words.stillNeeded} ${missing.map(name => words.needs[name]).join(", ")}`);
    }
    const job = await post("queue/jobs", {name: this.name.value.trim(), settings: await this.settingsToStart(), ...this.expected, ...this.ofGpu});
    say(words.queued(job.run));
    location.hash = "#/";
  }
}

/** The first words of a preset's comment, up to the colon. */
const titleOf = settings => /^# ([^:\n]+)/.exec(settings)?.[1] ?? "";

/** What the form works with beside settings: options, presets, models, datasets. */
async function formContext() {
  const [schema, studio, datasets, presets] = await Promise.all([get("options"), get("studio"), get("datasets"), presetContext()]);
  return {schema, ...presets, models: new Models(studio.demo), datasets, root: studio.folder};
}

/** Presets, what they are for, and the memory of the GPU that they are chosen by. */
async function presetContext() {
  const [recipes, studio, machine] = await Promise.all([get("recipes"), get("studio"), get("machine").catch(() => ({}))]);
  const demo = studio.demo ? [{name: "demo", title: titleOf(studio.demo.settings), settings: studio.demo.settings, isDemo: true}] : [];
  return {goals: recipes.goals, gpus: machine.gpus ?? [], presets: [...demo, ...new Draft("presets").read() ?? [], ...recipes.recipes], gigabytes: Math.max(0, ...(machine.gpus ?? []).map(gpu => gpu.total_bytes / 1e9))};
}

/** The page: where the settings come from, and the form. Settings of other programs may be dropped anywhere on it. */
async function showForm(view, from) {
  const ofRun = from.get("run"), [context, runs] = await Promise.all([formContext(), get("runs")]), kept = runDraft.read();
  const begin = ofRun ? {settings: (await get(`runs/${named(ofRun)}/settings`)).text} : kept ?? {settings: ""}, settings = withWishes(begin.settings, from);
  const isOther = settings !== (kept?.settings ?? ""), form = new Form(context, isOther ? {...begin, settings: startOf(settings, context), name: ofRun || from.get("dataset") ? "" : begin.name} : {...begin, settings: startOf(settings, context)});
  if (ofRun) await form.takeText(form.settings);
  if (ofRun && kept && isOther && kept.settings.trim() !== "") form.undo.add(() => form.take(kept), words.replaced);
  const beginning = new Beginning(form, runs, ofRun);
  form.begun = () => beginning.list();
  view.replaceChildren(h("h1", {}, words.formTitle), beginning.element, form.element, context.models.list);
  if (from.get("model")) form.first.model.take(from.get("model"));
  form.showOption(from.get("option"));
  if (from.get("fit")) form.wantsFit = true;
  if (ofRun || from.size > 0) history.replaceState(null, "", "#/new");
  view.ondragover = event => event.preventDefault();
  view.ondrop = event => {
    event.preventDefault();
    droppedFiles(event.dataTransfer).then(dropped => beginning.takeFiles(dropped.map(([, file]) => file))).catch(error => say(error.message, "bad"));
  };
  const unfollow = runDraft.follow(state => form.take(state));
  return () => { unfollow(); form.leave(); view.ondragover = view.ondrop = null; };
}

/** Settings with what the address asks for: another dataset, another task, another LoRA to begin from. */
function withWishes(settings, from) {
  const dataset = from.get("dataset"), task = from.get("task"), lora = from.get("lora"), length = ["max_steps", "num_epochs"].filter(name => Number(from.get(name)) > 0).map(name => [name, Number(from.get(name))]), names = ["dataset_metadata_path", "dataset_config"];
  const others = dataset === null ? [] : names.filter(name => new RegExp(`^\\s*${name}\\s*=`, "m").test(settings)).map(name => [name, undefined]);
  const wishes = [...others, ...(dataset === null ? [] : [["dataset_base_path", `../datasets/${dataset}`]]), ...(task === null ? [] : [["task", task]]), ...(lora === null ? [] : [["lora_checkpoint", lora]]), ...length];
  return wishes.reduce((text, [name, value]) => withValue(text, name, value), settings);
}

/** Settings to begin with: with the only dataset of the workspace, where they name none. */
function startOf(settings, {datasets}) {
  const hasData = /^\s*dataset_(base|metadata)_path\s*=/m.test(settings);
  return !hasData && datasets.length === 1 ? withValue(settings, "dataset_base_path", `../datasets/${datasets[0].name}`) : settings;
}
