// The plan of a run's memory as a bar by kind against what there is.

function planBar(plan) {
  const step = plan.stages.find(stage => stage.name === "step") ?? plan.stages[0], total = plan.stages.reduce((most, stage) => Math.max(most, stage.peak.total), 0);
  const there = plan.limit ?? 0, scale = Math.max(total, there, 1);
  const parts = memoryKinds.map((kind, k) => h("i", {style: `width: ${100 * (step.peak[kind] ?? 0) / scale}%; background: ${kindColor(k)}`,
    title: `${kind} ${bytes(step.peak[kind] ?? 0)}`}));
  const keys = memoryKinds.map((kind, k) => h("span", {class: "key"}, swatch(kindColor(k)), `${kind} ${bytes(step.peak[kind] ?? 0)}`));
  const mark = there > 0 ? h("b", {class: "limit", style: `left: ${100 * there / scale}%`, title: bytes(there)}) : null;
  return h("div", {class: "plan"},
    h("div", {class: "bar", role: "img", "aria-label": `${words.planTitle}: ${bytes(total)}`}, ...parts, mark),
    h("div", {class: "keys number"}, ...keys));
}
