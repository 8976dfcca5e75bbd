// A new run: options as a form and as a file, in step, with what is wrong and what it takes beside them.

/** Options of which a first run needs to know come first; the others are one and two presses away. */
const levels = [["first_run", words.firstRun], ["usual", words.usual], ["all", words.all]];

class Form {
  constructor(schema, settings, models) {
    this.models = models;
    this.options = schema.options.filter(option => !["output_path", "resume", "auto_resume", "overwrite"].includes(option.name));
    this.settings = settings;
    this.level = "first_run";
    this.values = {};
    this.fields = new Map();
    this.turn = 0;
    this.wantsFit = false;  // of the next plan
    this.build();
    this.read();
  }

  build() {
    this.name = h("input", {id: "run-name", value: this.suggested(), autocomplete: "off", spellcheck: "false"});
    this.search = h("input", {type: "search", placeholder: words.search, "aria-label": words.search, oninput: () => this.drawFields()});
    this.levelButtons = levels.map(([level, text]) => h("button", {type: "button", "aria-pressed": String(level === this.level), onclick: () => this.show(level)}, text));
    this.list = h("div", {class: "fields"});
    this.toml = h("textarea", {id: "toml", spellcheck: "false", rows: 24, oninput: () => { this.settings = this.toml.value; this.readSoon(); }});
    this.toml.value = this.settings;
    this.verdict = h("div", {class: "verdict", role: "status", "aria-live": "polite"});
    this.startButton = h("button", {type: "button", class: "primary", onclick: doing(() => this.start())}, words.start);
    this.element = h("div", {class: "maker"},
      h("div", {class: "maker-form"},
        h("div", {class: "field"}, h("label", {for: "run-name"}, words.name), this.name),
        h("div", {class: "controls"}, h("div", {class: "segments", role: "group", "aria-label": words.settings}, ...this.levelButtons), this.search),
        this.list),
      h("aside", {class: "maker-side"},
        this.verdict, this.startButton,
        h("details", {open: true}, h("summary", {}, words.toml), h("label", {for: "toml", class: "hidden"}, words.toml), this.toml)));
  }

  suggested() { return (/^output_path\s*=\s*"(?:.*\/)?([^"/]+)"/m.exec(this.settings)?.[1] ?? "run").replace(/^\.+/, ""); }

  show(level) {
    this.level = level;
    this.levelButtons.forEach((button, i) => button.setAttribute("aria-pressed", String(levels[i][0] === level)));
    this.drawFields();
  }

  /** What is asked for now: those of the level, or all that the search finds; what has a value or a problem is always there. */
  shownOptions() {
    const wish = this.search.value.trim().toLowerCase(), order = levels.map(([level]) => level);
    if (wish) return this.options.filter(option => `${option.name} ${option.meaning}`.toLowerCase().includes(wish));
    return this.options.filter(option => order.indexOf(option.level) <= order.indexOf(this.level) || this.isSet(option) || this.problemOf(option.name));
  }

  /** Shows an option, and puts the cursor there. */
  showOption(name) {
    const option = this.options.find(one => one.name === name);
    if (!option) return;
    if (levels.findIndex(([level]) => level === option.level) > levels.findIndex(([level]) => level === this.level)) this.show(option.level);
    document.getElementById(`option-${name}`)?.focus();
  }

  isSet(option) { return !isDefaultOf(option, this.values[option.name]); }
  problemOf(name) { return this.problems?.find(problem => problem.option === name); }

  drawFields() {
    this.fields.clear();
    const groups = new Map();
    for (const option of this.shownOptions()) {
      if (!groups.has(option.group)) groups.set(option.group, []);
      groups.get(option.group).push(this.field(option));
    }
    this.list.replaceChildren(...groups.size === 0 ? [h("p", {class: "explain"}, words.noMatch)] :
      [...groups].map(([group, fields]) => h("fieldset", {}, h("legend", {}, group), ...fields)));
    this.mark();
  }

  field(option) {
    const id = `option-${option.name}`, note = `${id}-note`;
    const input = this.input(option, id, note), problem = h("p", {class: "problem", id: `${id}-problem`, hidden: true}), moot = h("p", {class: "explain", hidden: true});
    const unit = option.unit ? h("span", {class: "unit"}, option.unit) : null;
    this.fields.set(option.name, {input, problem, moot, option});
    const isModel = option.name === "model";
    if (isModel) input.setAttribute("list", "models");
    return h("div", {class: "field"}, h("label", {for: id}, option.name.replaceAll("_", " ")), h("div", {class: "entry"}, input, unit), problem, moot, isModel ? this.models.note : null,
      h("p", {class: "explain", id: note}, option.meaning));
  }

  input(option, id, note) {
    return optionInput(option, this.values[option.name] ?? option.default, {id, "aria-describedby": `${note} ${id}-problem`}, value => this.change(option, value));
  }

  change(option, value) {
    const isDefault = isDefaultOf(option, value);
    this.settings = withValue(this.settings, option.name, isDefault ? undefined : value);
    this.toml.value = this.settings;
    this.values[option.name] = isDefault ? option.default : value;
    this.readSoon();
  }

  readSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.read(), 250);
  }

  /** What the settings say, at once; then what they take, which needs the model's files. Of several answers the last one counts. */
  async read() {
    const turn = ++this.turn, focused = document.activeElement?.id;
    sessionStorage.setItem("draft", this.settings);  // for who looks at what these settings do
    this.verdict.setAttribute("aria-busy", "true");
    if (this.verdict.children.length === 0) this.verdict.append(h("p", {class: "explain"}, words.check));
    try {
      const form = await post("form", {settings: this.settings});
      if (turn !== this.turn) return;
      this.values = form.values;
      this.problems = form.problems;
      this.idle = new Map(form.idle.map(one => [one.option, one.belongs_to]));
      if (!focused?.startsWith("option-")) this.drawFields();
      else this.mark();
      const answer = form.problems.length > 0 ? {problems: form.problems} : await post("plan", {settings: this.settings, fit: this.wantsFit});
      this.wantsFit = false;
      if (turn === this.turn) this.judge(answer);
    } catch (error) {
      if (turn === this.turn) this.verdict.replaceChildren(h("p", {class: "problem"}, error.message));
    } finally {
      if (turn === this.turn) this.verdict.removeAttribute("aria-busy");
    }
  }

  mark() {
    this.models.show([this.values.model ?? []].flat().join(", "));
    for (const [name, {input, problem, moot}] of this.fields) {
      const found = this.problemOf(name), idle = this.idle?.get(name);
      problem.textContent = found?.sentence ?? "";
      problem.hidden = !found;
      input.setAttribute("aria-invalid", String(Boolean(found)));
      moot.textContent = idle ? words.moot(idle) : "";
      moot.hidden = !idle;
    }
  }

  judge(answer) {
    if (answer.problems) {
      this.problems = answer.problems;
      this.mark();
      return this.verdict.replaceChildren(...answer.problems.map(problem => h("p", {class: "problem"}, problem.sentence)));
    }
    const {plan, sentence} = answer;
    if (!plan) return this.verdict.replaceChildren(h("p", {class: "problem"}, sentence ?? words.unplanned));
    const takes = plan.limit > 0 ? words.ofDevice(bytes(plan.bytes), bytes(plan.limit)) : bytes(plan.bytes);
    this.verdict.replaceChildren(
      h("p", {class: plan.fits === false ? "judged bad" : "judged good"}, h("strong", {}, plan.fits === false ? words.fitsNot : words.fits), ` ${takes}`),
      planBar(plan), this.length(plan, answer.pace), plan.fits === false ? this.choices(plan) : "");
  }

  /** Steps, passes over the data, and the time that they take by what ran here before. */
  length({length}, pace) {
    if (!length?.steps) return "";
    const time = pace ? h("a", {href: `/runs/${named(pace.run)}/`}, words.takes(duration(pace.seconds_a_step * length.steps), pace.run)) : words.timeUnknown;
    return h("p", {class: "explain length"}, words.length(length.steps, length.epochs, length.samples), " ", time);
  }

  /** What would fit, as buttons. */
  choices(plan) {
    const all = plan.fit ? [plan.fit] : (plan.changes ?? []).filter(change => change.bytes < plan.bytes);
    const look = "fit" in plan || "fit_training_less" in plan ? null : h("button", {type: "button", onclick: doing(() => this.fit())}, words.fitTitle);
    return h("div", {class: "choices"}, h("h2", {}, words.wouldFit), look,
      ...all.map(change => h("button", {type: "button", onclick: () => this.take(change.flags)}, h("code", {}, change.flags), h("span", {class: "number"}, bytes(change.bytes)))));
  }

  async fit() {
    const turn = this.turn, answer = await post("plan", {settings: this.settings, fit: true});
    if (turn === this.turn) this.judge(answer);
  }

  /** Takes flags as a command line has them. */
  take(flags) {
    const parts = flags.split(/\s+/);
    for (let i = 0; i < parts.length; ++i) {
      const name = parts[i].replace(/^--/, "").replaceAll("-", "_"), option = this.options.find(one => one.name === name);
      if (!parts[i].startsWith("--") || !option) continue;
      const hasValue = i + 1 < parts.length && !parts[i + 1].startsWith("--");
      const value = hasValue ? parsedOption(option, parts[++i]) : true;
      this.settings = withValue(this.settings, name, option.type === "truth value" ? value === true || value === "true" : value);
    }
    this.toml.value = this.settings;
    this.read();
  }

  async start() {
    const job = await post("queue/jobs", {name: this.name.value.trim(), settings: withValue(this.settings, "output_path", undefined)});
    say(words.queued(job.run));
    location.hash = "#/";
  }
}

/** Where a run begins from: a recipe for what one wants to make, a run, another program's settings, or nothing. */
class Beginning {
  constructor({recipes, goals}, runs, ofRun, take) {
    this.recipes = recipes;
    this.goals = goals;
    this.take = take;
    const run = h("select", {id: "from-run", onchange: doing(() => this.takeRun())}, ...runs.map(one => h("option", {value: one.name, selected: one.name === ofRun}, one.name)));
    this.run = run;
    this.goal = h("select", {id: "goal", onchange: () => this.listRecipes()}, ...goals.map(one => h("option", {value: one.title}, one.title)));
    this.recipe = h("select", {id: "recipe", onchange: () => this.takeRecipe()});
    this.about = h("p", {class: "explain"});
    this.files = h("input", {id: "from-files", type: "file", multiple: true, onchange: doing(event => this.takeFiles([...event.target.files]))});
    this.note = h("div", {class: "note", role: "status", hidden: true});
    const field = (id, text, input, ...more) => h("div", {class: "field"}, h("label", {for: id}, text), input, ...more);
    this.ways = {
      recipe: [words.recipes, h("div", {class: "beside"}, field("goal", words.goal, this.goal, this.about), field("recipe", words.recipe, this.recipe))],
      run: [words.ofRun, field("from-run", words.ofRun, run)],
      import: [words.ofProgram, field("from-files", words.ofProgram, this.files, h("p", {class: "explain"}, words.dropSettings))],
      empty: [words.empty, h("p", {class: "explain"}, words.emptyHint)],
    };
    this.place = h("div", {});
    this.buttons = Object.entries(this.ways).map(([way, [text]]) => h("button", {type: "button", "data-way": way, onclick: () => this.choose(way)}, text));
    this.element = h("section", {class: "beginning", "aria-label": words.from}, h("div", {class: "segments", role: "group", "aria-label": words.from}, ...this.buttons), this.place, this.note);
    this.show(ofRun ? "run" : "recipe");
    this.listRecipes(false);
  }

  show(way) {
    this.buttons.forEach(button => button.setAttribute("aria-pressed", String(button.dataset.way === way)));
    this.place.replaceChildren(this.ways[way][1]);
    this.note.hidden = true;
  }

  choose(way) {
    this.show(way);
    if (way === "recipe") this.listRecipes();
    else if (way === "run" && this.run.value) this.takeRun().catch(error => say(error.message, "bad"));
    else if (way === "empty") this.take("");
  }

  /** The recipes that go with what one wants to make; the form stays as it is until one of them is asked for. */
  listRecipes(takes = true) {
    const goal = this.goals.find(one => one.title === this.goal.value), fits = new RegExp(goal?.recipes ?? "");
    this.about.textContent = goal?.about ?? "";
    this.recipe.replaceChildren(...this.recipes.filter(one => fits.test(one.name)).map(one => h("option", {value: one.name}, one.title)));
    if (takes) this.takeRecipe();
  }

  takeRecipe() {
    const recipe = this.recipes.find(one => one.name === this.recipe.value), goal = this.goals.find(one => one.title === this.goal.value);
    if (recipe) this.take(Object.entries(goal?.settings ?? {}).reduce((text, [name, value]) => withValue(text, name, value), recipe.settings));
  }

  async takeRun() { this.take((await get(`runs/${named(this.run.value)}/settings`)).text); }

  async takeFiles(files) {
    if (files.length === 0) return;
    const imported = await post("import", {files: await Promise.all(files.map(async file => ({name: file.name, text: await file.text()})))});
    this.show("import");
    this.take(imported.settings);
    const list = (title, lines) => lines.length === 0 ? null : h("details", {open: lines.length < 8}, h("summary", {}, title(lines.length)), h("ul", {}, ...lines.map(line => h("li", {}, line))));
    this.note.hidden = false;
    this.note.replaceChildren(...[h("p", {}, words.imported(imported.num_carried, imported.program)), list(words.notCarried, imported.not_carried),
      list(words.different, imported.different)].filter(Boolean));
  }
}

/** The page: where the settings come from, and the form. Settings of other programs may be dropped anywhere on it. */
async function showForm(view, from) {
  const [schema, recipes, runs, studio] = await Promise.all([get("options"), get("recipes"), get("runs"), get("studio")]);
  const ofRun = from.get("run"), settings = withWishes(ofRun ? (await get(`runs/${named(ofRun)}/settings`)).text : "", from);
  const place = h("div", {});
  let form = null;
  const models = new Models(() => form.read());
  const take = text => {
    form = new Form(schema, startOf(text, studio), models);
    place.replaceChildren(form.element);
  };
  const beginning = new Beginning(recipes, runs, ofRun, take);
  take(settings);
  view.replaceChildren(h("h1", {}, words.formTitle), beginning.element, place, models.list);
  form.showOption(from.get("option"));
  if (from.get("fit")) form.wantsFit = true;
  view.ondragover = event => event.preventDefault();
  view.ondrop = event => {
    event.preventDefault();
    droppedFiles(event.dataTransfer).then(dropped => beginning.takeFiles(dropped.map(([, file]) => file))).catch(error => say(error.message, "bad"));
  };
  return () => { view.ondragover = view.ondrop = null; };
}

/** Settings with what the address asks for: another dataset, another task. */
function withWishes(settings, from) {
  const dataset = from.get("dataset"), task = from.get("task"), names = ["dataset_metadata_path", "dataset_config"];
  const others = dataset === null ? [] : names.filter(name => new RegExp(`^\\s*${name}\\s*=`, "m").test(settings)).map(name => [name, ""]);
  const wishes = [...others, ...(dataset === null ? [] : [["dataset_base_path", `../datasets/${dataset}`]]), ...(task === null ? [] : [["task", task]])];
  return wishes.reduce((text, [name, value]) => withValue(text, name, value), settings);
}

/** Settings to begin with: with the only dataset of the workspace, where they name none. */
function startOf(settings, studio) {
  const hasData = /^\s*dataset_(base|metadata)_path\s*=/m.test(settings);
  return !hasData && studio.datasets.length === 1 ? withValue(settings, "dataset_base_path", `../datasets/${studio.datasets[0]}`) : settings;
}
