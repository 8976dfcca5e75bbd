// The page: takes runs from the data in it, or from the server while a run goes on, and shows them.

const data = JSON.parse($("data").textContent);
const view = new View();
const profileView = new View();
const previews = new Previews();
const hidden = new Set();  // names of runs whose curves are switched off
let runs = [];
let news = Date.now();

const colorOf = index => `var(--series-${index % 6})`;

/** Steps and values of a column, where it has a value. */
function column(run, name) {
  const {steps, columns} = run.log, values = columns[name] ?? [], xs = [], ys = [];
  values.forEach((value, i) => {
    if (value !== null) {
      xs.push(steps[i]);
      ys.push(value);
    }
  });
  return {xs, ys};
}

const mean = values => values.length === 0 ? null : values.reduce((a, b) => a + b, 0) / values.length;
const sum = values => values.reduce((a, b) => a + b, 0);
const lastShare = (values, share) => values.slice(-Math.max(1, Math.ceil(values.length * share)));

/** The column of the loss that is shown: before weighting, where the log has it, since weights go by the times that a step drew. */
const lossName = run => "raw_loss" in run.log.columns ? "raw_loss" : "loss";

/** Whether weights make the loss that is trained on another one. */
function isWeighted(run) {
  const {raw_loss: raw = [], loss = []} = run.log.columns;
  return raw.some((value, i) => value !== null && loss[i] !== null && Math.abs(value - loss[i]) > 1e-4 * Math.abs(value));
}

/** Losses of held-out samples before training and as late as they are known: the log's from step 0 on, or the file's of a log without that. */
function validationOf(run) {
  const {xs, ys} = column(run, "validation_loss"), file = run.validation ?? {};
  return xs[0] === 0 ? [ys[0], ys.at(-1)] : [file.before ?? ys[0], file.after ?? ys.at(-1)];
}

/** Samples over seconds of the last tenth of the steps. */
function speedOf(speeds, seconds) {
  const samples = lastShare(speeds.map((speed, i) => speed * seconds[i]), 0.1);
  return samples.length === 0 ? null : sum(samples) / sum(lastShare(seconds, 0.1));
}

/** Seconds that are left of training; as its own bar says it while it goes on. */
function secondsLeft(run, steps, secondsOfStep) {
  const {stage, seconds_left: left} = run.status ?? {};
  return stateOf(run) === "training" && stage === "train" && typeof left === "number" ? left : steps * secondsOfStep;
}

// --- what came -----------------------------------------------------------------------------------------------------------------

function append(log, part) {
  const before = log.steps.length;
  const names = new Set([...Object.keys(log.columns), ...Object.keys(part.columns)]);
  for (const name of names) {
    const values = log.columns[name] ??= Array(before).fill(null);
    for (const value of part.columns[name] ?? Array(part.steps.length).fill(null)) values.push(value);
  }
  for (const step of part.steps) log.steps.push(step);
  log.num_skipped += part.num_skipped;
}

/** Pictures drawn again take the place of those before them. */
function addPreviews(list, added) {
  const key = one => `${one.step}/${one.number}`, byKey = new Map([...list, ...added].map(one => [key(one), one]));
  return [...byKey.values()].sort((a, b) => a.step - b.step || a.number - b.number);
}

/** A run as it came; one without a config.toml has no settings. */
const taken = run => ({...run, settings: run.settings ?? []});

function receive(update) {
  news = Date.now();
  if ("name" in update) {
    runs[update.run] = taken(update);
    view.range = null;
  } else {
    const run = runs[update.run];
    if ("status" in update) run.status = update.status;
    append(run.log, update.log);
    run.previews = addPreviews(run.previews, update.previews);
  }
  showSoon();
}

let due = null, pause = 0;

/** Shows what came; a long run, which takes long to draw, less often, so that the page stays responsive. */
function showSoon() {
  due ??= setTimeout(() => {
    const start = performance.now();
    due = null;
    show();
    pause = 5 * (performance.now() - start);
  }, pause);
}

// --- summary -------------------------------------------------------------------------------------------------------------------

/** Steps of the whole run: as it counted them, or, of one that has not said, as many as it was asked for. */
const stepsOf = run => run.status?.steps || Number(setting(run, "max_steps") ?? 0);

function facts(run) {
  const loss = column(run, lossName(run)).ys, speeds = column(run, "samples_per_second").ys, seconds = column(run, "step_seconds").ys;
  const onDevice = column(run, "peak_device_memory_bytes").ys;
  const peaks = onDevice.length > 0 ? onDevice : column(run, "peak_memory_bytes").ys, tenth = Math.ceil(loss.length / 10);
  const step = run.log.steps.at(-1) ?? 0, total = stepsOf(run), recent = mean(lastShare(seconds, 0.1));
  const [before, after] = validationOf(run);
  const left = total > step && recent ? `${duration(secondsLeft(run, total - step, recent))} to go` : "";
  return {
    steps: {label: "Steps", value: whole(step), more: total > 0 ? `of ${whole(total)}` : "", share: total > 0 ? Math.min(1, step / total) : undefined},
    time: {label: "Training time", value: seconds.length > 0 ? duration(sum(seconds)) : "–", more: left},
    loss: {label: "Loss, last tenth", value: number(mean(lastShare(loss, 0.1))), more: loss.length > 9 ? `first tenth ${number(mean(loss.slice(0, tenth)))}` : ""},
    validation: after === undefined ? null : {label: "Validation loss", value: number(after), more: `before training ${number(before)}`},
    speed: {label: "Samples per second", value: number(speedOf(speeds, seconds), 3), more: recent ? `${duration(recent)} a step` : ""},
    memory: peaks.length === 0 ? null :
      {label: "Peak memory", value: bytes(peaks.reduce((a, b) => Math.max(a, b))), more: onDevice.length > 0 ? "on the device" : "main memory"},
  };
}

function factList(run) {
  return h("dl", {class: "facts"}, ...Object.values(facts(run)).filter(Boolean).map(fact => h("div", {},
    h("dt", {}, fact.label), h("dd", {class: "number"}, fact.value),
    h("dd", {class: "more number"}, fact.more, fact.share === undefined ? null : h("div", {class: "meter"}, h("i", {style: `width: ${fact.share * 100}%`}))))));
}

function factTable() {
  const all = runs.map(facts), keys = Object.keys(all[0]).filter(key => all.some(one => one[key]));
  const heads = keys.map(key => [all.find(one => one[key])[key].label]);
  const rows = runs.map((run, i) => [[swatch(run.color), run.name, h("div", {class: "explain"}, describe(run)), standingBox(run, data.live)],
    ...keys.map(key => [all[i][key]?.value ?? "–"])]);
  return compareTable([["Run"], ...heads], rows, "number");
}

function showSummary() {
  const one = runs.length === 1;
  $("title").textContent = one ? runs[0].name : runs.length > 1 ? `${runs.length} runs` : "";
  $("about").textContent = one ? describe(runs[0]) : "";
  document.title = `${runs.map(run => run.name).join(", ")} · burnish`;
  $("standing").replaceChildren(one ? standingBox(runs[0], data.live) ?? "" : "");
  const awaited = one && runs[0].status && runs[0].log.steps.length === 0;  // where it stands is all there is
  $("summary").replaceChildren(awaited ? "" : one ? factList(runs[0]) : runs.length > 1 ? factTable() : "");
  const skipped = sum(runs.map(run => run.log.num_skipped)), empty = runs.every(run => run.log.steps.length === 0);
  $("note").hidden = skipped === 0 && (!empty || awaited);
  $("note").textContent = empty ? one && !runs[0].settings.length ? "No run has begun here yet." : "No step is logged yet." : `${whole(skipped)} lines of log.jsonl are no records and were left out.`;
}

// --- curves --------------------------------------------------------------------------------------------------------------------

/** Charts by the column that has to be there for them; `of` names the one that a run's curve is of, where that is another. */
const known = [
  {name: "loss", of: lossName, title: "Loss", canLog: true, height: 320, wide: true},
  {name: "raw_loss", of: () => "loss", isFor: isWeighted, title: "Loss as weighted for training", canLog: true},
  {name: "validation_loss", title: "Validation loss", canLog: true, smooth: false, points: true},
  {name: "reward", title: "Score of the run's own pictures", smooth: false},
  {name: "drift", title: "Distance from the model before training", fromZero: true},
  {name: "lr", title: "Learning rate", smooth: false},
  {name: "grad_norm", title: "Gradient norm", canLog: true},
  {name: "samples_per_second", title: "Samples per second"},
  {name: "step_seconds", title: "Time of a step", format: duration},
  {name: "data_seconds", title: "Of a step, waiting for data", format: duration},
  {name: "peak_device_memory_bytes", title: "Peak device memory", format: bytes, base: 1024, fromZero: true, smooth: false},
  {name: "peak_memory_bytes", title: "Peak main memory", format: bytes, base: 1024, fromZero: true, smooth: false},
];
const charts = new Map();
const binPattern = /^loss_by_time\/([^/]+)\/(raw|weighted|count)$/;

function chartOf(name, place, chartView, options) {
  if (!charts.has(name)) {
    const chart = new Chart(chartView, options);
    if (options.wide) chart.element.classList.add("wide");
    charts.set(name, chart);
    place.append(chart.element);
  }
  return charts.get(name);
}

const shownRuns = () => runs.filter(run => !hidden.has(run.name));
const seriesOf = ({name, of = () => name}) => shownRuns().map(run => ({label: run.name, color: run.color, ...column(run, of(run))}));

function showCurves() {
  const names = new Set(runs.flatMap(run => Object.keys(run.log.columns)));
  $("curves").hidden = runs.every(run => run.log.steps.length === 0);
  for (const options of known) {
    const isShown = names.has(options.name) && (!options.isFor || runs.some(options.isFor));
    if (isShown) chartOf(options.name, $("charts"), view, options).set(seriesOf(options));
  }
  for (const name of [...names].sort()) {
    const isOther = name !== "time" && !binPattern.test(name) && !known.some(one => one.name === name);
    if (isOther) chartOf(name, $("charts"), view, {title: name, canLog: true}).set(seriesOf({name}));
  }
  for (const [name, chart] of charts) if (!names.has(name) && !name.startsWith("by_time")) chart.set([]);
  $("legend").replaceChildren(...runs.length > 1 ? runs.map(legendButton) : []);
}

function legendButton(run) {
  const toggle = () => {
    if (!hidden.delete(run.name)) hidden.add(run.name);
    show();
  };
  return h("button", {type: "button", "aria-pressed": String(!hidden.has(run.name)), onclick: toggle}, swatch(run.color), run.name);
}

// --- by timestep ---------------------------------------------------------------------------------------------------------------

/** Names of the bins of a run in their order, with the middle of each on the scale of time. */
function binsOf(run) {
  const found = Object.keys(run.log.columns).map(name => binPattern.exec(name)?.[1]).filter(Boolean);
  const names = [...new Set(found)].sort((a, b) => Number(a) - Number(b));
  return names.map((name, i) => ({name, low: i / names.length, high: (i + 1) / names.length}));
}

const rampColor = (i, count) => `color-mix(in oklch, var(--ramp-end) ${Math.round(100 * i / Math.max(1, count - 1))}%, var(--ramp-start))`;

/** Mean loss of the samples in each bin over a share of the log's rows. */
function profile(run, bins, from, to) {
  const xs = [], ys = [], rows = run.log.steps.length, {columns} = run.log;
  for (const bin of bins) {
    const raw = columns[`loss_by_time/${bin.name}/raw`] ?? [], counts = columns[`loss_by_time/${bin.name}/count`] ?? [];
    let sum = 0, count = 0;
    for (let i = Math.floor(rows * from); i < Math.ceil(rows * to); ++i) {
      if (raw[i] === null || raw[i] === undefined) continue;
      sum += raw[i] * (counts[i] ?? 1);
      count += counts[i] ?? 1;
    }
    if (count === 0) continue;
    xs.push((bin.low + bin.high) / 2);
    ys.push(sum / count);
  }
  return {xs, ys};
}

function showTimesteps() {
  const first = shownRuns().find(run => binsOf(run).length > 0);
  $("timesteps").hidden = !first;
  if (!first) return;
  const bins = binsOf(first), one = runs.length === 1, share = value => value.toFixed(2), place = $("timestep-charts");
  const ramp = h("span", {class: "key"}, "0", h("i", {class: "ramp"}), "1");
  chartOf("by_time", place, view, {title: "Loss over steps, by timestep", canLog: true, raw: false, height: 260, legend: ramp})
    .set(bins.map((bin, i) => ({label: `${share(bin.low)} – ${share(bin.high)}`, color: rampColor(i, bins.length),
      ...column(first, `loss_by_time/${bin.name}/raw`)})));
  const lines = one ? [{label: "first quarter", color: "var(--muted)", dashed: true, ...profile(first, bins, 0, 0.25)},
    {label: "last quarter", color: colorOf(0), ...profile(first, bins, 0.75, 1)}] :
    shownRuns().map(run => ({label: run.name, color: run.color, ...profile(run, binsOf(run), 0.75, 1)}));
  chartOf("by_time_profile", place, profileView, {title: one ? "Loss along time" : "Loss along time, last quarter of each run", canLog: true,
    smooth: false, points: true, height: 260, extent: [0, 1], xLabel: "time", xFormat: share, legend: one}).set(lines);
  $("timesteps-of").textContent = one ? "" : ` They are of ${first.name}.`;
}

// --- the page ------------------------------------------------------------------------------------------------------------------

function show() {
  runs.forEach((run, i) => { run.color = colorOf(i); });
  showSummary();
  showCurves();
  showTimesteps();
  previews.set(runs);
  showMemory(shownRuns(), run => {
    const {memory} = facts(run);
    return memory ? `${memory.value} ${memory.more}` : "";
  });
  showStandOut(runs);
  showSettings(runs);
  showStatus();
}

function showStatus(connected = true) {
  if (!data.live) return;
  const [look, text] = connected ? liveWords(runs, news) : ["lost", "burnish watch has ended"];
  $("status").className = `status ${look}`;
  $("status").textContent = text;
}

function listen() {
  const events = new EventSource("events");
  let connected = true;
  events.onmessage = event => { connected = true; receive(JSON.parse(event.data)); };
  events.onopen = () => { connected = true; showStatus(connected); };
  events.onerror = () => { connected = false; showStatus(connected); };
  setInterval(() => showStatus(connected), 1000);
}

function applyControls() {
  const weight = Number($("smoothing").value) / 100;
  $("smoothing-value").textContent = weight.toFixed(2);
  const logScale = $("log-scale").checked;
  view.change({smoothing: weight, logScale});
  profileView.change({logScale});
}

$("smoothing").addEventListener("input", applyControls);
$("log-scale").addEventListener("change", applyControls);
$("settings-filter").addEventListener("input", () => showSettings(runs));
$("reset-zoom").addEventListener("click", () => view.change({range: null}));
view.addEventListener("change", () => { $("reset-zoom").hidden = view.range === null; });
applyControls();
if (data.live) listen();
else {
  runs = data.runs.map(taken);
  show();
}
