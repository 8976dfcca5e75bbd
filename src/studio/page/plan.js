// The plan of a run's memory as a bar by kind against what there is.

const planKinds = ["weights", "gradients", "optimizer", "activations", "workspace"];
const planColor = index => index < 4 ? `var(--series-${index})` : "var(--faint)";

function planBar(plan) {
  const step = plan.stages.find(stage => stage.name === "step") ?? plan.stages[0], total = plan.stages.reduce((most, stage) => Math.max(most, stage.peak.total), 0);
  const there = plan.limit ?? 0, scale = Math.max(total, there, 1);
  const parts = planKinds.map((kind, k) => h("i", {style: `width: ${100 * (step.peak[kind] ?? 0) / scale}%; background: ${planColor(k)}`,
    title: `${kind} ${bytes(step.peak[kind] ?? 0)}`}));
  const keys = planKinds.map((kind, k) => h("span", {class: "key"}, swatch(planColor(k)), `${kind} ${bytes(step.peak[kind] ?? 0)}`));
  const mark = there > 0 ? h("b", {class: "limit", style: `left: ${100 * there / scale}%`, title: bytes(there)}) : null;
  return h("div", {class: "plan"},
    h("div", {class: "bar", role: "img", "aria-label": `${words.planTitle}: ${bytes(total)}`}, ...parts, mark),
    h("div", {class: "keys number"}, ...keys));
}
