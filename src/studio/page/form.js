// A new run: options as a form and as a file, in step, with what is wrong and what it takes beside them.

/** Options of which a first run needs to know come first; the others are one and two presses away. */
const levels = [["first_run", words.firstRun], ["usual", words.usual], ["all", words.all]];

class Form {
  constructor(schema, settings) {
    this.options = schema.options.filter(option => !["output_path", "resume", "auto_resume", "overwrite"].includes(option.name));
    this.settings = settings;
    this.level = "first_run";
    this.values = {};
    this.fields = new Map();
    this.turn = 0;
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

  isSet(option) { return JSON.stringify(this.values[option.name]) !== JSON.stringify(option.default) && this.values[option.name] !== undefined; }
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
    return h("div", {class: "field"}, h("label", {for: id}, option.name.replaceAll("_", " ")), h("div", {class: "entry"}, input, unit), problem, moot,
      h("p", {class: "explain", id: note}, option.meaning));
  }

  input(option, id, note) {
    const common = {id, "aria-describedby": `${note} ${id}-problem`}, value = this.values[option.name] ?? option.default;
    const changed = read => event => this.change(option, read(event.target));
    if (option.type === "truth value") return h("input", {...common, type: "checkbox", checked: value === true, onchange: changed(box => box.checked)});
    if (option.choices?.length > 0 && !option.type.startsWith("list")) {
      const choices = option.choices.includes(value) ? option.choices : [value, ...option.choices];
      return h("select", {...common, onchange: changed(box => box.value)}, ...choices.map(choice => h("option", {selected: choice === value, value: choice}, choice || "–")));
    }
    const shown = Array.isArray(value) ? value.join(", ") : String(value ?? ""), fallback = Array.isArray(option.default) ? option.default.join(", ") : String(option.default ?? "");
    return h("input", {...common, value: shown === fallback && !this.isSet(option) ? "" : shown, placeholder: fallback, spellcheck: "false", autocomplete: "off",
      inputmode: ["whole number", "number"].includes(option.type) ? "decimal" : undefined, oninput: changed(box => this.parsed(option, box.value.trim()))});
  }

  parsed(option, text) {
    if (text === "") return undefined;
    if (option.type.startsWith("list")) return text.split(",").map(part => part.trim()).filter(Boolean);
    if (["whole number", "number"].includes(option.type)) return Number.isFinite(Number(text)) ? Number(text) : text;
    return text;
  }

  change(option, value) {
    const isDefault = value === undefined || JSON.stringify(value) === JSON.stringify(option.default);
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
    try {
      const form = await post("form", {settings: this.settings});
      if (turn !== this.turn) return;
      this.values = form.values;
      this.problems = form.problems;
      this.idle = new Map(form.idle.map(one => [one.option, one.belongs_to]));
      if (!focused?.startsWith("option-")) this.drawFields();
      else this.mark();
      const answer = form.problems.length > 0 ? {problems: form.problems} : await post("plan", {settings: this.settings});
      if (turn === this.turn) this.judge(answer);
    } catch (error) {
      if (turn === this.turn) this.verdict.replaceChildren(h("p", {class: "problem"}, error.message));
    } finally {
      if (turn === this.turn) this.verdict.removeAttribute("aria-busy");
    }
  }

  mark() {
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
    if (!plan) return this.verdict.replaceChildren(h("p", {class: "problem"}, (sentence ?? words.unplanned).replace(/^\[\w+\] /, "")));
    const takes = plan.limit > 0 ? words.ofDevice(bytes(plan.bytes), bytes(plan.limit)) : bytes(plan.bytes);
    this.verdict.replaceChildren(
      h("p", {class: plan.fits === false ? "judged bad" : "judged good"}, h("strong", {}, plan.fits === false ? words.fitsNot : words.fits), ` ${takes}`),
      planBar(plan), plan.fits === false ? this.choices(plan) : "");
  }

  /** What would fit, as buttons. */
  choices(plan) {
    const all = plan.fit ? [plan.fit] : (plan.changes ?? []).filter(change => change.bytes < plan.bytes);
    const look = "fit" in plan || "fit_training_less" in plan ? null : h("button", {type: "button", onclick: doing(() => this.fit())}, words.fitTitle);
    return h("div", {class: "choices"}, h("h3", {}, words.wouldFit), look,
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
      const value = hasValue ? this.parsed(option, parts[++i]) : true;
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

/** The page: where the settings come from, and the form. */
async function showForm(view, from) {
  const [schema, recipes, runs, studio] = await Promise.all([get("options"), get("recipes"), get("runs"), get("studio")]);
  const ofRun = from.get("run");
  const settings = ofRun ? (await get(`runs/${named(ofRun)}/settings`)).text : "";
  let form = new Form(schema, startOf(settings, studio));
  const place = h("div", {}, form.element);
  const take = text => {
    form = new Form(schema, startOf(text, studio));
    place.replaceChildren(form.element);
  };
  const choose = h("select", {id: "from", onchange: doing(async event => {
    const [kind, name] = event.target.value.split(":");
    if (kind === "recipe") take(recipes.find(recipe => recipe.name === name).settings);
    else if (kind === "run") take((await get(`runs/${named(name)}/settings`)).text);
    else take("");
  })}, h("option", {value: ""}, words.empty),
    h("optgroup", {label: words.recipes}, ...recipes.map(one => h("option", {value: `recipe:${one.name}`}, one.name.replaceAll("_", " ")))),
    h("optgroup", {label: words.ofRun}, ...runs.map(one => h("option", {value: `run:${one.name}`, selected: one.name === ofRun}, one.name))));
  view.replaceChildren(h("h1", {}, words.formTitle), h("div", {class: "field narrow"}, h("label", {for: "from"}, words.from), choose), place);
}

/** Settings to begin with: with the only dataset of the workspace, where they name none. */
function startOf(settings, studio) {
  const hasData = /^\s*dataset_(base|metadata)_path\s*=/m.test(settings);
  return !hasData && studio.datasets.length === 1 ? withValue(settings, "dataset_base_path", `../datasets/${studio.datasets[0]}`) : settings;
}
