// What can be asked of a run, above its page.

const runName = decodeURIComponent(location.pathname.split("/")[2]);
const ofRun = (what, body) => post(`runs/${named(runName)}/${what}`, body);

const asking = (what, text) => h("button", {type: "button", onclick: doing(async () => {
  await ofRun(...what === "stop" ? ["stop"] : ["ask", {what}]);
  say(words.asked[what]);
})}, text);

const running = h("div", {class: "controls", hidden: true}, asking("preview", words.previewNow), asking("save", words.saveNow),
  asking("stop_after_epoch", words.stopEpoch), asking("stop", words.stop));
let isArchived = false;
const archiveButton = h("button", {type: "button", onclick: doing(async () => {
  await ofRun("archive", {is_archived: !isArchived});
  await look();
})}, words.archive);
const ended = h("div", {class: "controls", hidden: true},
  h("button", {type: "button", onclick: doing(async () => { await ofRun("resume"); say(words.queued(runName)); })}, words.resume),
  h("a", {class: "button", href: `/#/new?run=${named(runName)}`}, words.clone), archiveButton,
  h("button", {type: "button", onclick: doing(async () => {
    const name = prompt(words.renameTo, runName);
    if (!name || name === runName) return;
    await ofRun("rename", {name});
    location.href = `/runs/${named(name)}/`;
  })}, words.rename),
  h("button", {type: "button", onclick: doing(async () => {
    if (!confirm(words.binSure(runName))) return;
    await ask("DELETE", `runs/${named(runName)}`);
    location.href = "/#/";
  })}, words.bin));
const mending = h("div", {class: "controls", hidden: true}), log = h("pre", {}), files = h("ul", {class: "files"});
const logBox = h("details", {class: "log"}, h("summary", {}, words.log), log), fileBox = h("details", {class: "log", open: true}, h("summary", {}, words.files), files);

document.head.append(h("link", {rel: "stylesheet", href: "/page/controls.css"}));
document.querySelector(".wordmark").replaceWith(h("a", {class: "wordmark", href: "/#/"}, "burnish studio"));
document.body.append(h("div", {id: "toast", class: "toast", role: "alert", hidden: true}));
document.querySelector(".head").append(mending, running, ended);
document.querySelector("main").append(h("section", {}, fileBox, logBox));

/** Options that a sentence names, in its order: with dashes before them, with an underscore in them, or as its first word. */
function optionsIn(sentence, options) {
  const names = [...sentence.matchAll(/(--)?([a-z][a-z0-9_]*)/g)].filter(([, dashes, name], i) => dashes || name.includes("_") || i === 0).map(match => match[2]);
  return [...new Set(names)].filter(name => options.some(option => option.name === name));
}

/** Of a run that failed: a button for each option that its sentence names, and what would fit where memory was short. */
async function offer(run) {
  const noFit = 4;  // the exit code
  if (run.state !== "failed" || mending.children.length > 0) return;
  const found = optionsIn(run.sentence ?? "", (await get("options")).options), form = `/#/new?run=${named(runName)}`;
  const links = found.map(name => h("a", {class: "button", href: `${form}&option=${named(name)}`}, words.change(name)));
  if (run.exit_code === noFit) links.push(h("a", {class: "button", href: `${form}&fit=1`}, words.fitTitle));
  mending.replaceChildren(...links);
  mending.hidden = links.length === 0;
}

async function look() {
  const run = await get(`runs/${named(runName)}`), over = isEnd(run.state);
  running.hidden = over || run.state === "waiting";
  ended.hidden = !over;
  isArchived = run.is_archived;
  archiveButton.textContent = isArchived ? words.unarchive : words.archive;
  await offer(run);
  const list = await get(`runs/${named(runName)}/files`);
  if (files.children.length !== list.length) files.replaceChildren(...list.map(file => h("li", {}, h("a", {href: `/api/runs/${named(runName)}/files/${named(file.name)}`, download: file.name}, file.name), ` ${bytes(file.bytes)}`)));
  if (logBox.open) log.textContent = (await get(`runs/${named(runName)}/log`)).text;
}
look().catch(() => {});
setInterval(() => { if (!document.hidden) look().catch(() => {}); }, 1500);
logBox.addEventListener("toggle", () => look().catch(() => {}));
