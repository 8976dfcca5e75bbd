// The runs of the workspace and the queue, as they go on.

const hasRunEnded = run => isEnd(run.state) || run.state === "";

function runCard(run, chosen, choose) {
  const address = `/runs/${named(run.name)}/`, total = run.state === "training" ? run.steps : run.total, done = run.state === "training" ? run.step : run.done;
  const share = total > 0 && !hasRunEnded(run) ? Math.min(1, done / total) : null;
  const facts = [run.step > 0 ? words.step(run.step, run.steps ?? 0) : "", run.loss === null || run.loss === undefined ? "" : words.loss(number(run.loss, 3)),
    run.seconds_left > 0 && !hasRunEnded(run) ? words.left(duration(run.seconds_left)) : ""].filter(Boolean).join(" · ");
  const picture = run.preview ? h("img", {src: `/runs/${named(run.name)}/previews/0/${run.preview[0]}/${run.preview[1]}`, alt: "", loading: "lazy"}) : h("div", {class: "blank"});
  const box = h("input", {type: "checkbox", checked: chosen.has(run.name), "aria-label": words.compareWith(run.name), onchange: event => choose(run.name, event.target.checked)});
  if (run.has_folder === false)  // it failed before it had one
    return h("li", {class: "run"}, h("div", {class: "run-words"}, h("strong", {}, run.name), h("span", {class: "state failed"}, stateTitles.failed ?? "failed"), h("span", {class: "problem"}, run.sentence),
      h("button", {type: "button", "aria-label": `${words.remove}: ${run.name}`, onclick: doing(async () => { await ask("DELETE", `queue/jobs/${named(run.job)}`); })}, words.remove)));
  return h("li", {class: "run"}, h("label", {class: "choose", title: words.compareWith(run.name)}, box), h("a", {href: address}, picture,
    h("div", {class: "run-words"}, h("strong", {}, run.name),
      h("span", {class: `state ${run.state}`}, stateTitles[run.state] ?? run.state), h("span", {class: "explain number"}, facts),
      run.state === "failed" ? h("span", {class: "problem"}, run.sentence) : null,
      share === null ? null : h("div", {class: "meter", role: "progressbar", "aria-valuenow": Math.round(100 * share), "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": run.name},
        h("i", {style: `width: ${100 * share}%`})))));
}

/** What waits, in its order: by dragging, or by keys and buttons. */
function queueList(queue, refresh) {
  const waiting = queue.jobs.filter(job => job.state === "waiting");
  if (waiting.length === 0 && !queue.is_paused) return null;
  const move = (job, before) => doing(async () => { await post(`queue/jobs/${named(job.id)}/move`, {before}); await refresh(); });
  const row = (job, i) => h("li", {draggable: "true", "data-id": job.id,
    ondragstart: event => event.dataTransfer.setData("text/plain", job.id), ondragover: event => event.preventDefault(),
    ondrop: async event => {
      event.preventDefault();
      const id = event.dataTransfer.getData("text/plain");
      if (id !== job.id) await post(`queue/jobs/${named(id)}/move`, {before: job.id}).then(refresh, error => say(error.message, "bad"));
    }},
    h("span", {}, job.run), h("span", {class: "actions"},
      h("button", {type: "button", disabled: i === 0, "aria-label": `${words.up}: ${job.run}`, onclick: move(job, waiting[i - 1]?.id)}, "↑"),
      h("button", {type: "button", disabled: i + 1 === waiting.length, "aria-label": `${words.down}: ${job.run}`, onclick: move(job, waiting[i + 2]?.id ?? "")}, "↓"),
      h("button", {type: "button", "aria-label": `${words.remove}: ${job.run}`, onclick: doing(async () => { await ask("DELETE", `queue/jobs/${named(job.id)}`); await refresh(); })}, words.remove)));
  return h("section", {class: "queue", "aria-label": words.queue}, h("div", {class: "section-head"}, h("h2", {}, words.queue),
    h("button", {type: "button", onclick: doing(async () => { await post("queue", {is_paused: !queue.is_paused}); await refresh(); })}, queue.is_paused ? words.go : words.pause)),
    queue.is_paused ? h("p", {class: "explain"}, words.paused) : null, h("ol", {class: "waiting"}, ...waiting.map(row)));
}

function showRuns(view) {
  const place = h("div", {}), chosen = new Set();
  let last = "", withArchived = false;
  const compare = h("a", {class: "button", hidden: true}, words.compare(0));
  const choose = (name, is) => {
    if (is) chosen.add(name);
    else chosen.delete(name);
    compare.hidden = chosen.size < 2;
    compare.textContent = words.compare(chosen.size);
    compare.href = `/compare/${[...chosen].map(named).join("/")}/`;
  };
  const archived = h("label", {class: "switch", hidden: true}, h("input", {type: "checkbox", onchange: event => { withArchived = event.target.checked; last = ""; refresh(); }}), words.withArchived);
  const refresh = async () => {
    const [all, queue] = await Promise.all([get("runs"), get("queue")]), runs = all.filter(run => withArchived || !run.is_archived), text = JSON.stringify([runs, queue]);
    archived.hidden = !all.some(run => run.is_archived);
    for (const name of [...chosen]) if (!runs.some(run => run.name === name)) choose(name, false);
    if (text === last) return;  // what has the focus keeps it
    last = text;
    const focused = document.activeElement?.getAttribute("aria-label");
    place.replaceChildren(...[queueList(queue, refresh), all.length === 0 && queue.jobs.length === 0 ?
      h("div", {class: "empty"}, h("p", {}, words.noRuns), h("p", {class: "explain"}, words.noRunsHint), h("a", {class: "button primary", href: "#/new"}, words.begin)) :
      h("ul", {class: "runs"}, ...runs.map(run => runCard(run, chosen, choose)))].filter(Boolean));
    if (focused) place.querySelector(`[aria-label="${CSS.escape(focused)}"]`)?.focus();
  };
  view.replaceChildren(h("div", {class: "section-head"}, h("h1", {}, words.runs), h("div", {class: "actions"}, archived, compare, h("a", {class: "button primary", href: "#/new"}, words.newRun))), place);
  return poll(refresh, 1000);
}
