// Where runs stand, as their status.json says.

/** "" for a run without a status; "gone" where its process has ended without a word. */
const stateOf = run => !run.status ? "" : run.status.is_running === false ? "gone" : run.status.state;
const hasEnded = run => isEnd(stateOf(run));
const isPreparing = run => run.status && !hasEnded(run) && stateOf(run) !== "training";

/** When the last step was logged, of those that are not of an earlier run in the same folder; 0 for none. */
function lastStepTime(run) {
  const time = run.log.columns.time?.at(-1) ?? 0;
  return time >= (run.status?.started ?? 0) ? time : 0;
}

const toTry = {
  1: "This is a bug of burnish: please report the sentence.",
  2: "Change the option, and start again.",
  3: "Fix this, and start again.",
  4: "burnish plan --fit, with the same options, says what makes it fit.",
};

const goOn = run => run.log.steps.length > 0 ? " What was saved can be resumed (--resume)." : "";

/** "vae, 120 of 400". */
const stageText = ({stage, done, total}) => [stage, total > 0 ? `${whole(done)} of ${whole(total)}` : ""].filter(Boolean).join(", ");

function standingWords(run, live) {
  const {status} = run, state = stateOf(run), age = Date.now() / 1000 - status.written;
  if (state === "failed") return [status.sentence, (toTry[status.exit_code] ?? "") + goOn(run)];
  if (state === "interrupted") return [status.sentence];
  if (state === "gone")
    return [`Process ${status.process.id} is not running any more, and did not say why: it was killed, or the machine went down.`,
      `Start it again.${goOn(run)}`];
  if (!live) return ["When this page was made."];
  return status.is_running === null && age > 60 ? [`On ${status.process.host}, which was last heard of ${duration(age)} ago.`] : [];
}

/** A box that says where a run stands; null where its steps say so themselves. */
function standingBox(run, live) {
  const {status} = run, state = stateOf(run);
  if (!status || state === "done" || state === "training" && lastStepTime(run) > 0) return null;
  const left = status.seconds_left === null ? "" : `${duration(status.seconds_left)} left`, code = state === "failed" ? `exit code ${status.exit_code}` : "";
  const kind = state === "failed" || state === "gone" ? "bad" : hasEnded(run) ? "over" : "";
  const before = state === "gone" ? stateTitles[status.state].toLowerCase() : "";
  return h("div", {class: `standing ${kind}`},
    h("div", {class: "standing-head"}, h("span", {}, stateTitles[state]),
      h("span", {class: "more number"}, [before, stageText(status), left, code].filter(Boolean).join(" · "))),
    ...standingWords(run, live).filter(Boolean).map(text => h("p", {}, text)),
    status.total > 0 && h("div", {class: "meter"}, h("i", {style: `width: ${Math.min(100, 100 * status.done / status.total)}%`})));
}

/** What the head of a live page says: [how it looks, text]. */
function liveWords(runs, news) {
  const one = runs.length === 1, last = Math.max(...runs.map(lastStepTime)), age = Date.now() / 1000 - last;
  if (runs.length > 0 && runs.every(hasEnded)) return ["quiet", one ? stateTitles[stateOf(runs[0])].toLowerCase() : "all have ended"];
  if (runs.some(isPreparing)) return ["live", one ? stateTitles[stateOf(runs[0])].toLowerCase() : "live"];
  if (last > 0) return age > 60 ? ["quiet", `last step ${duration(age)} ago`] : ["live", "live"];
  return runs.some(run => run.status) || Date.now() - news < 60000 ? ["live", "live"] : ["quiet", "no step yet"];
}
