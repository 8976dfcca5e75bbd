// The settings of one run by group, or those in which several runs differ.

const setting = (run, name) => run.settings.find(one => one.name === name)?.value;

/** Elements of a TOML list of texts, or the text itself. */
function listOf(value) {
  if (!value) return [];
  if (!value.startsWith("[")) return [value];
  try { return JSON.parse(value).map(String); } catch { return [value]; }
}

/** A setting as people read it: lists without brackets. */
const shown = value => listOf(value).join(", ") || "none";

const lastPart = path => path.replace(/\/+$/, "").split(/[/\\]/).pop();

/** "FLUX.1-dev · LoRA of rank 16 on dit · bf16 · adamw". */
function describe(run) {
  const models = listOf(setting(run, "model")).concat(listOf(setting(run, "model_id_with_origin_paths"))).map(lastPart);
  const whole = setting(run, "trainable_models"), on = setting(run, "lora_base_model"), kind = setting(run, "lora_type");
  const name = {lora: "LoRA", dora: "DoRA", loha: "LoHa", lokr: "LoKr"}[kind] ?? kind, rank = Number(setting(run, "lora_rank") ?? 0);
  const adapter = kind && (!whole || on) ? `${name}${rank > 0 ? ` of rank ${rank}` : ""}${on ? ` on ${on}` : ""}` : "";
  return [models.at(-1), whole ? `trains ${whole}` : "", adapter, setting(run, "dtype"), setting(run, "optimizer")].filter(Boolean).join(" · ");
}

const matches = (one, filter) => `${one.name} ${one.value}`.toLowerCase().includes(filter);

function settingGroups(run, filter) {
  const groups = new Map();
  for (const one of run.settings.filter(one => matches(one, filter))) {
    if (!groups.has(one.group)) groups.set(one.group, []);
    groups.get(one.group).push(one);
  }
  const entry = one => h("div", {title: one.doc}, h("dt", {}, one.name), h("dd", {class: shown(one.value) === "none" ? "faint" : ""}, shown(one.value)));
  return h("div", {class: "groups"}, ...[...groups].map(([group, list]) =>
    h("div", {class: "group"}, group ? h("h3", {}, group) : null, h("dl", {}, ...list.map(entry)))));
}

function settingDifferences(runs, filter) {
  const names = [...new Set(runs.flatMap(run => run.settings.map(one => one.name)))];
  const differing = names.map(name => ({name, value: runs.map(run => setting(run, name) ?? "–")}))
    .filter(one => new Set(one.value).size > 1 && matches({name: one.name, value: one.value.join(" ")}, filter));
  if (differing.length === 0) return h("p", {class: "explain"}, filter ? "None of the settings that differ matches." : "All settings are the same.");
  return compareTable([["Setting"], ...runs.map(run => [swatch(run.color), run.name])],
    differing.map(one => [[one.name], ...one.value.map(value => [shown(value)])]));
}

function showSettings(runs) {
  const filter = $("settings-filter").value.trim().toLowerCase();
  $("settings").hidden = runs.every(run => run.settings.length === 0);
  $("settings-title").textContent = runs.length > 1 ? "Settings that differ" : "Settings";
  $("settings-list").replaceChildren(runs.length > 1 ? settingDifferences(runs, filter) : runs.length === 1 ? settingGroups(runs[0], filter) : "");
}
