// What a run was planned to take of memory, over its step and by stage.

const memoryKinds = ["weights", "gradients", "optimizer", "activations", "workspace"];
const kindColor = index => index < 4 ? `var(--series-${index})` : "var(--faint)";

const stepStage = plan => plan.stages.find(stage => stage.name === "step" && Array.isArray(stage.parts));
const hasPlan = run => Array.isArray(run.plan?.stages) && stepStage(run.plan) !== undefined;

/** A bar for each part of the step, made of its kinds from the bottom up. */
function memoryBars(stage) {
  const width = 1000, height = 220, each = width / stage.parts.length, most = Math.max(1, stage.peak.total);
  const bars = stage.parts.flatMap((part, i) => {
    let top = height;
    return memoryKinds.map((kind, k) => {
      const size = height * (part.bytes[kind] ?? 0) / most;
      top -= size;
      const bar = svg("rect", {x: i * each, y: top, width: each * 0.9, height: size, fill: kindColor(k)});
      bar.append(svg("title", {}, `${part.place}: ${kind} ${bytes(part.bytes[kind] ?? 0)} of ${bytes(part.bytes.total)}`));
      return bar;
    });
  });
  return svg("svg", {class: "memory", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img",
    "aria-label": "Planned memory over a step"}, ...bars);
}

function memoryOf(run, measured) {
  const {plan} = run, step = stepStage(plan);
  const keys = memoryKinds.map((kind, k) => h("span", {class: "key"}, swatch(kindColor(k)), kind));
  const rows = plan.stages.map(stage => [[stage.name], [bytes(stage.peak.total)], ...memoryKinds.map(kind => [bytes(stage.peak[kind] ?? 0)])]);
  const host = plan.host ? ` The host's memory: ${bytes(plan.host.bytes)} planned. Disk: ${bytes(plan.disk?.bytes ?? 0)}.` : "";
  return h("div", {},
    h("figure", {class: "chart wide"},
      h("figcaption", {}, h("span", {}, `${run.name}: a step, at most ${bytes(step.peak.total)} (${step.place})`), h("span", {}, ...keys)),
      memoryBars(step)),
    compareTable([["Stage"], ["At the peak"], ...memoryKinds.map(kind => [kind])], rows, "number"),
    h("p", {class: "explain"}, `${measured ? `Measured: ${measured}.` : ""}${host}`));
}

/** `measuredOf`: what a run took at most, in words. */
function showMemory(runs, measuredOf) {
  const planned = runs.filter(hasPlan);
  $("memory").hidden = planned.length === 0;
  $("memory-of").replaceChildren(...planned.map(run => memoryOf(run, measuredOf(run))));
}
