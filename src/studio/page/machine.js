// The machine: what its processors, memory, GPUs and disk are at, over the last minutes, and what `burnish doctor` says of it.

const percent = share => `${Math.round(100 * share)} %`;

/** What a chart shows, in words: for who does not see it. */
function spoken(name, shares) {
  const known = shares.filter(share => share !== null);
  return known.length === 0 ? name : words.machine.spoken(name, percent(known[known.length - 1]), percent(Math.max(...known)));
}

/** Shares of 1 over the last minutes; the newest stands at the right. */
function smallChart(name, looks, seconds, shareOf) {
  const width = 300, height = 72, last = looks[looks.length - 1].time, shares = looks.map(shareOf);
  const points = looks.flatMap((look, i) => shares[i] === null ? [] :
    [[width * (1 - (last - look.time) / seconds), height - 2 - (height - 4) * Math.min(1, shares[i])]]);
  const line = points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
  const area = points.length > 1 ? `${line}L${points[points.length - 1][0].toFixed(1)},${height}L${points[0][0].toFixed(1)},${height}Z` : "";
  return svg("svg", {class: "small-chart", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": spoken(name, shares)},
    svg("path", {class: "area", d: area}), svg("path", {class: "line", d: line, "vector-effect": "non-scaling-stroke"}));
}

function machineCard(name, value, more, ...parts) {
  return h("section", {class: "machine-card", "aria-label": name}, h("h2", {}, name), h("p", {class: "machine-value number"}, value),
    h("p", {class: "explain number"}, more), ...parts);
}

function gpuCards(machine, seconds) {
  return machine.gpus.flatMap((gpu, i) => {
    const at = (look, value) => look.gpus[i] === undefined ? null : value(look.gpus[i]);
    const facts = [gpu.degrees > 0 ? `${gpu.degrees} °C` : "", gpu.watts > 0 ? `${Math.round(gpu.watts)} W` : ""].filter(Boolean).join(" · ");
    return [machineCard(gpu.name, percent(gpu.busy), facts, smallChart(gpu.name, machine.looks, seconds, look => at(look, one => one.busy))),
      machineCard(words.machine.gpuMemory(gpu.name), bytes(gpu.used_bytes), words.machine.of(bytes(gpu.total_bytes)),
        smallChart(words.machine.gpuMemory(gpu.name), machine.looks, seconds, look => at(look, one => one.used_bytes / Math.max(1, gpu.total_bytes))))];
  });
}

function machineCards(machine) {
  const last = machine.looks[machine.looks.length - 1], seconds = machine.seconds, disk = machine.disk, total = Math.max(1, machine.total_bytes);
  const cards = [...gpuCards(machine, seconds),
    machineCard(words.machine.processor, last.busy === null ? "–" : percent(last.busy), words.machine.threads(machine.threads),
      smallChart(words.machine.processor, machine.looks, seconds, look => look.busy)),
    machineCard(words.machine.memory, bytes(last.used_bytes), words.machine.of(bytes(machine.total_bytes)),
      smallChart(words.machine.memory, machine.looks, seconds, look => look.used_bytes / total))];
  if (disk.total_bytes) {
    const share = 1 - disk.free_bytes / disk.total_bytes;
    cards.push(machineCard(words.machine.disk, words.machine.free(bytes(disk.free_bytes)), words.machine.of(bytes(disk.total_bytes)),
      h("div", {class: "meter", role: "img", "aria-label": words.machine.full(percent(share))}, h("i", {style: `width: ${100 * share}%`}))));
  }
  return cards;
}

function machineRuns(machine) {
  if (machine.jobs.length === 0) return h("p", {class: "explain"}, words.machine.noRuns);
  const onGpus = machine.gpus.length > 0;
  return compareTable([[words.machine.run], [words.machine.memory], ...(onGpus ? [[words.machine.onGpu]] : []), [words.machine.process]],
    machine.jobs.map(job => [[h("a", {href: `${root}runs/${named(job.run)}/`}, job.run)], [bytes(job.memory_bytes)],
      ...(onGpus ? [[job.gpu_bytes > 0 ? bytes(job.gpu_bytes) : "–"]] : []), [String(job.process)]]), "number");
}

/** Ends the studio, with its runs or without. */
function closing() {
  const close = (stop, sure) => doing(async () => {
    if (!confirm(sure)) return;
    await post("studio/close", {stop_runs: stop});
    connected(false);
  });
  return h("section", {}, h("h2", {}, words.machine.close), h("p", {class: "explain"}, words.machine.closeHint), h("div", {class: "controls"},
    h("button", {type: "button", onclick: close(false, words.machine.closeSure)}, words.machine.closeOnly),
    h("button", {type: "button", onclick: close(true, words.machine.closeAllSure)}, words.machine.closeAll)));
}

function showMachine(view) {
  const cards = h("div", {class: "machine"}), runs = h("div", {}), notes = h("div", {id: "notes", "aria-busy": "true"}, h("p", {class: "explain"}, words.machine.asking));
  view.replaceChildren(h("div", {class: "section-head"}, h("h1", {}, words.machine.title)), cards,
    h("section", {}, h("h2", {}, words.machine.runs), runs), h("section", {}, h("h2", {}, words.machine.notes), notes),
    h("section", {}, h("h2", {}, h("label", {for: "language"}, words.language)), languageChoice()), closing());
  get("machine/notes").then(doctor => {
    const said = doctor.advice ?? [];
    notes.removeAttribute("aria-busy");
    notes.replaceChildren(said.length === 0 ? h("p", {class: "explain"}, words.machine.fine) : h("ul", {class: "notes"}, ...said.map(note => h("li", {}, note))));
  }, error => notes.replaceChildren(h("p", {class: "problem"}, error.message)));
  return poll(async () => {
    const machine = await get("machine");
    cards.replaceChildren(...machineCards(machine));
    runs.replaceChildren(machineRuns(machine));
  }, 2000);
}
