// An option of the program's schema as a field, and what is typed into one as a value.

/** What a text means for an option; undefined for none. */
function parsedOption(option, text) {
  if (text === "") return undefined;
  if (option.type.startsWith("list")) return text.split(",").map(part => part.trim()).filter(Boolean);
  if (["whole number", "number"].includes(option.type)) return Number.isFinite(Number(text)) ? Number(text) : text;
  return text;
}

const capital = text => text.replace(/^./u, first => first.toUpperCase());
/** What is said of an option: by the language's table where that has it, else by the program. */
const optionNote = option => words.help?.[option.name] ?? option.meaning;

/** What a row says of an option as a sentence. */
const asSentence = text => `${capital(text)}${/[.!?。]$/.test(text) ? "" : "."}`;

/** What an option is called by people; its own name, which settings as a file have, stands small behind that. */
const optionTitle = option => words.options?.[option.name] ?? option.label ?? capital(option.name.replaceAll("_", " "));
const groupTitle = group => words.groups?.[group] ?? group;
const optionLabel = (option, id) => h("label", {for: id}, optionTitle(option), " ", h("code", {class: "option-name"}, option.name));

/** Options that a sentence names, in its order: with dashes before them, with an underscore in them, or as its first word. */
function optionsIn(sentence, options) {
  const names = [...sentence.matchAll(/(--)?([a-z][a-z0-9_]*)/g)].filter(([, dashes, name], i) => dashes || name.includes("_") || i === 0).map(match => match[2]);
  return [...new Set(names)].filter(name => options.some(option => option.name === name));
}

const isDefaultOf = (option, value) => value === undefined || JSON.stringify(value) === JSON.stringify(option.default);

/** The control of an option at a value; `change` is given what is chosen or typed. */
function optionInput(option, value, attributes, change) {
  const changed = read => event => change(read(event.target));
  if (option.type === "truth value") return h("input", {...attributes, type: "checkbox", checked: value === true, onchange: changed(box => box.checked)});
  if (option.choices?.length > 0 && !option.type.startsWith("list")) {
    const choices = option.choices.includes(value) ? option.choices : [value, ...option.choices];
    return h("select", {...attributes, onchange: changed(box => box.value)}, ...choices.map(choice => h("option", {selected: choice === value, value: choice}, choice || "–")));
  }
  const shownValue = one => Array.isArray(one) ? one.join(", ") : String(one ?? "");
  return h("input", {...attributes, value: isDefaultOf(option, value) ? "" : shownValue(value), placeholder: shownValue(option.default), spellcheck: "false", autocomplete: "off",
    inputmode: ["whole number", "number"].includes(option.type) ? "decimal" : undefined, oninput: changed(box => parsedOption(option, box.value.trim()))});
}

/** Fields of some options by group, and their values as TOML, for a verb that is run with what the page does not ask for itself. */
class OptionFields {
  constructor(verb, options, attributesOf = () => ({})) {
    this.verb = verb;
    this.options = options;
    this.values = {};
    this.attributesOf = attributesOf;
    this.element = h("div", {class: "fields"});
    this.draw();
  }

  draw() {
    const groups = Map.groupBy ? Map.groupBy(this.options, option => option.group) : new Map([["", this.options]]);
    this.element.replaceChildren(...[...groups].map(([group, options]) => h("fieldset", {}, h("legend", {}, groupTitle(group)), ...options.map(option => this.field(option)))));
  }

  field(option) {
    const id = `${this.verb}-${option.name}`, value = this.values[option.name] ?? option.default;
    const input = optionInput(option, value, {id, "aria-describedby": `${id}-note`, ...this.attributesOf(option)}, chosen => { this.values[option.name] = chosen; });
    return h("div", {class: "field"}, optionLabel(option, id), h("div", {class: "entry"}, input, option.unit ? h("span", {class: "unit"}, option.unit) : null),
      h("p", {class: "explain", id: `${id}-note`}, optionNote(option)));
  }

  set(values) {
    this.values = {...values};
    this.draw();
  }

  /** Values of those that were changed. */
  changed() {
    return Object.fromEntries(this.options.filter(option => !isDefaultOf(option, this.values[option.name])).map(option => [option.name, this.values[option.name]]));
  }

  toml() { return Object.entries(this.changed()).map(([name, value]) => `${name} = ${tomlValue(value)}\n`).join(""); }
}
