// The runs of the workspace and the queue, as they go on; the front door while there is none.

const hasRunEnded = run => isEnd(run.state) || run.state === "";

/** A run that failed before it had a folder: what it said, and how it leaves the list. */
const cardWithoutFolder = run => h("li", {class: "run"}, h("div", {class: "run-words"}, h("strong", {}, run.name), h("span", {class: "state failed"}, stateTitles.failed ?? "failed"), h("span", {class: "problem"}, plainSentence(run.sentence)),
  h("button", {type: "button", "aria-label": `${words.remove}: ${run.name}`, onclick: doing(() => ask("DELETE", `queue/jobs/${named(run.job)}`))}, words.remove)));

/** A run as a card, which stays the same element while its run goes on. */
function runCard(run, isChosen, choose) {
  if (run.has_folder === false) return cardWithoutFolder(run);
  const picture = h("div", {class: "card-picture"}), state = h("span", {}), facts = h("span", {class: "explain number"}), left = h("span", {class: "explain number left"}), tags = h("span", {class: "run-tags"}), noted = h("span", {class: "explain noted"}), problem = h("span", {class: "problem"});
  const bar = h("i", {}), meter = h("div", {class: "meter", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": run.name}, bar);
  const box = h("input", {type: "checkbox", checked: isChosen, "aria-label": words.compareWith(run.name), onchange: event => choose(run.name, event.target.checked)});
  const card = h("li", {class: "run"}, h("label", {class: "choose", title: words.compareWith(run.name)}, box), h("a", {href: `${root}runs/${named(run.name)}/`}, picture,
    h("div", {class: "run-words"}, h("strong", {}, run.name), state, facts, left, tags, noted, problem, meter)));
  card.update = now => {
    const isOver = hasRunEnded(now), total = now.state === "training" ? now.steps : now.total, done = now.state === "training" ? now.step : now.done, share = total > 0 && !isOver ? Math.min(1, done / total) : null;
    const preview = now.preview ? `${root}runs/${named(now.name)}/previews/0/${now.preview[0]}/${now.preview[1]}` : "";
    if (picture.dataset.src !== preview) picture.replaceChildren(preview ? h("img", {src: preview, alt: "", loading: "lazy"}) : h("div", {class: "blank"}, words.noSamples));
    picture.dataset.src = preview;
    state.className = `state ${now.state}`;
    state.textContent = stateTitles[now.state] ?? now.state;
    facts.textContent = [now.gpu === null || isOver ? "" : words.onGpu(now.gpu), now.step > 0 ? words.step(now.step, now.steps ?? 0) : "", now.loss === null || now.loss === undefined ? "" : words.loss(number(now.loss, 3))].filter(Boolean).join(" · ");
    left.textContent = now.seconds_left > 0 && !isOver ? words.left(duration(now.seconds_left)) : "";
    tags.replaceChildren(...now.tags.map(tag => h("span", {class: "run-tag"}, tag)));
    noted.textContent = now.notes.split("\n")[0];
    problem.textContent = now.state === "failed" ? plainSentence(now.sentence) : "";
    meter.hidden = share === null;
    bar.style.width = `${100 * (share ?? 0)}%`;
    meter.setAttribute("aria-valuenow", Math.round(100 * (share ?? 0)));
  };
  card.update(run);
  return card;
}

/** A time that was only estimated: of minutes no seconds are said. */
const roughly = seconds => duration(seconds < 90 ? Math.round(seconds) : 60 * Math.round(seconds / 60)).replace(/ 00 s$/, "");

/** In how many seconds each of those that wait begins, in steps of ten so that rows stay as they are: 0 for the next one, undefined where that is not known. */
function startsOf(waiting, going, isUnknown) {
  let until = isUnknown || going.some(run => !(run.seconds_left > 0)) ? NaN : going.reduce((sum, run) => sum + run.seconds_left, 0);
  return waiting.map((job, i) => {
    const starts = isUnknown ? undefined : Number.isNaN(until) ? i === 0 ? 0 : undefined : Math.ceil(until / 10) * 10;
    until += job.seconds > 0 ? job.seconds : NaN;
    return starts;
  });
}

/** What waits, in its order: by dragging, or by keys and buttons. */
class Waiting {
  constructor(refresh, undo) {
    this.refresh = refresh;
    this.undo = undo;
    this.rows = h("ol", {class: "waiting"});
    this.list = new KeptList(this.rows, job => job.id, job => this.row(job));
    this.pause = h("button", {type: "button", onclick: this.does(() => post("queue", {is_paused: !this.isPaused}))});
    this.atOnce = h("select", {id: "at-once", onchange: event => post("queue", {at_once: Number(event.target.value)}).catch(error => say(error.message, "bad"))}, ...[1, 2, 3, 4, 6, 8].map(count => h("option", {value: count}, count)));
    this.note = h("p", {class: "explain"}, words.paused);
    this.element = h("section", {class: "queue", "aria-label": words.queue}, h("div", {class: "section-head"}, h("h2", {}, words.queue),
      h("span", {class: "actions"}, h("label", {for: "at-once", class: "explain"}, words.atOnce), this.atOnce, this.pause)), this.note, this.rows);
  }

  does(action) { return doing(async () => { await action(); await this.refresh(); }); }

  /** `going`: runs that go on. */
  show({jobs, is_paused: isPaused, at_once: atOnce}, going = []) {
    const waiting = jobs.filter(job => job.state === "waiting");
    this.isPaused = isPaused;
    this.element.hidden = waiting.length === 0 && !isPaused;
    this.pause.textContent = isPaused ? words.go : words.pause;
    this.note.hidden = !isPaused;
    put(this.atOnce, String(atOnce));
    const starts = new Map();  // of those that have a GPU of their own by that
    for (const gpu of new Set(waiting.map(job => job.gpu))) {
      const those = waiting.filter(job => job.gpu === gpu), times = startsOf(those, going.filter(run => gpu === null || run.gpu === gpu), isPaused || (gpu === null && atOnce > 1));
      those.forEach((job, i) => starts.set(job.id, times[i]));
    }
    this.list.show(waiting.map((job, i) => ({...job, starts: starts.get(job.id), before: waiting[i - 1]?.id, after: waiting[i + 2]?.id ?? "", isLast: i + 1 === waiting.length})));
  }

  row(job) {
    const move = (id, before) => post(`queue/jobs/${named(id)}/move`, {before});
    return h("li", {draggable: "true", "data-id": job.id,
      ondragstart: event => event.dataTransfer.setData("text/plain", job.id), ondragover: event => event.preventDefault(),
      ondrop: event => {
        event.preventDefault();
        const id = event.dataTransfer.getData("text/plain");
        if (id !== job.id) move(id, job.id).then(this.refresh, error => say(error.message, "bad"));
      }},
      h("span", {class: "file"}, job.run, h("span", {class: "explain number"}, ` ${this.facts(job)}`)), h("span", {class: "actions"},
        h("button", {type: "button", disabled: !job.before, "aria-label": `${words.up}: ${job.run}`, onclick: this.does(() => move(job.id, job.before))}, "↑"),
        h("button", {type: "button", disabled: job.isLast, "aria-label": `${words.down}: ${job.run}`, onclick: this.does(() => move(job.id, job.after))}, "↓"),
        job.resumes ? null : h("button", {type: "button", "aria-label": `${words.edit}: ${job.run}`, onclick: this.does(() => this.edit(job))}, words.edit),
        h("button", {type: "button", "aria-label": `${words.remove}: ${job.run}`, onclick: this.does(() => this.remove(job))}, words.remove)));
  }

  /** How long it is, as it was planned, and when it is its turn. */
  facts(job) {
    return [job.gpu === null ? "" : words.onGpu(job.gpu), job.steps > 0 ? words.numSteps(job.steps) : "", job.seconds > 0 ? words.about(roughly(job.seconds)) : "", job.starts === undefined ? "" : job.starts > 0 ? words.startsIn(roughly(job.starts)) : words.startsNext].filter(Boolean).join(" · ");
  }

  /** A job that is taken out can be had back, at the end of those that wait; one that goes on with a run is asked for on its page again. */
  async remove(job) {
    const path = `queue/jobs/${named(job.id)}`, {run, text} = await get(`${path}/settings`);
    await ask("DELETE", path);
    if (!job.resumes) this.undo.add(async () => { await post("queue/jobs", {name: run, settings: text, steps: job.steps, seconds: Math.round(job.seconds), ...job.gpu === null ? {} : {gpu: job.gpu}}); await this.refresh(); }, words.wasRemoved(run));
  }

  /** Takes a job back into the form, from where it is started again. */
  async edit(job) {
    const {run, text} = await get(`queue/jobs/${named(job.id)}/settings`), prompts = typedOf(await promptsOf(text));
    await ask("DELETE", `queue/jobs/${named(job.id)}`);
    runDraft.keep({...runDraft.read(), settings: text, preset: "", prompts, name: run, gpu: job.gpu === null ? "" : String(job.gpu)});
    location.hash = "#/new";
  }
}

class RunsPage {
  constructor() {
    this.chosen = new Set();
    this.compare = h("a", {class: "button", hidden: true}, words.compare(0));
    this.withArchived = h("input", {type: "checkbox", onchange: () => this.refresh().catch(error => say(error.message, "bad"))});
    this.archived = h("label", {class: "switch", hidden: true}, this.withArchived, words.withArchived);
    this.search = h("input", {type: "search", hidden: true, placeholder: words.searchRuns, "aria-label": words.searchRuns, oninput: () => this.refresh().catch(error => say(error.message, "bad"))});
    this.tag = "";
    this.tags = h("div", {class: "chips", role: "group", "aria-label": words.runTags, hidden: true});
    this.tagList = new KeptList(this.tags, one => one.tag, one => this.tagButton(one));
    this.undo = new Undo();
    this.waiting = new Waiting(() => this.refresh(), this.undo);
    this.grid = h("ul", {class: "runs"});
    this.list = new KeptList(this.grid, run => run.has_folder === false ? run.job : run.name, run => runCard(run, this.chosen.has(run.name), (name, is) => this.choose(name, is)));
    this.home = new Home();
    this.head = h("div", {class: "section-head"}, h("h1", {}, words.runs), h("div", {class: "actions"}, this.search, this.archived, this.compare, h("a", {class: "button primary", href: "#/new"}, words.newRun)));
    this.element = h("div", {}, this.head, this.waiting.element, this.tags, this.grid, this.home.element);
  }

  choose(name, is) {
    if (is) this.chosen.add(name);
    else this.chosen.delete(name);
    this.compare.hidden = this.chosen.size < 2;
    this.compare.textContent = words.compare(this.chosen.size);
    this.compare.href = `${root}compare/${[...this.chosen].map(named).join("/")}/`;
  }

  /** A tag that shows the runs which have it, and those alone. */
  tagButton({tag, count, isChosen}) {
    return h("button", {type: "button", class: "chip", "aria-label": tag, "aria-pressed": String(isChosen), onclick: doing(async () => {
      this.tag = this.tag === tag ? "" : tag;
      await this.refresh();
    })}, tag, h("span", {class: "explain number"}, ` ${whole(count)}`));
  }

  /** The tags that runs have, the most used first. */
  showTags(runs) {
    const counts = new Map();
    for (const tag of runs.flatMap(run => run.tags)) counts.set(tag, (counts.get(tag) ?? 0) + 1);
    if (!counts.has(this.tag)) this.tag = "";
    this.tags.hidden = counts.size === 0;
    this.tagList.show([...counts].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])).map(([tag, count]) => ({tag, count, isChosen: tag === this.tag})));
  }

  /** Whether a run is one of those that are sought. */
  isSought(run, wish) { return (this.tag === "" || run.tags.includes(this.tag)) && `${run.name} ${run.notes ?? ""} ${run.tags.join(" ")}`.toLowerCase().includes(wish); }

  async refresh() {
    const [all, queue] = await Promise.all([get("runs"), get("queue")]), wish = this.search.value.trim().toLowerCase();
    const isFirst = all.length === 0 && queue.jobs.length === 0, isTried = !isFirst && [...all.map(run => run.name), ...queue.jobs.map(job => job.run)].every(isDemo), listed = all.filter(run => this.withArchived.checked || !run.is_archived || !hasRunEnded(run));
    this.showTags(listed);
    const runs = listed.filter(run => this.isSought(run, wish));
    this.archived.hidden = !all.some(run => run.is_archived);
    this.search.hidden = all.length < 9;
    this.head.hidden = isFirst;
    this.home.element.hidden = !isFirst && !isTried;
    if (isFirst || isTried) await this.home.refresh(isTried);
    for (const name of [...this.chosen]) if (!runs.some(run => run.name === name)) this.choose(name, false);
    this.waiting.show(queue, all.filter(run => !hasRunEnded(run) && run.state !== "waiting"));
    this.list.show([...runs.filter(run => !hasRunEnded(run)), ...runs.filter(hasRunEnded)]);
    this.title(runs.find(run => run.state === "training"));
  }

  /** The tab says how far the run is that goes on. */
  title(run) {
    document.title = run?.steps > 0 ? `${Math.round(100 * run.step / run.steps)} % ${run.name} · Burnish Studio` : `${words.runs} · Burnish Studio`;
  }
}

function showRuns(view) {
  const page = new RunsPage();
  view.replaceChildren(page.element);
  hearOfBin(page.undo, () => page.refresh());
  const stop = poll(() => page.refresh(), 1000);
  return () => { stop(); page.undo.leave(); };
}
