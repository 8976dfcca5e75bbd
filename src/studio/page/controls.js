// What can be asked of a run, above its page, and the page's parts as tabs.

const runName = decodeURIComponent(location.pathname.split("/").at(-2));
const ofRun = (what, body) => post(`runs/${named(runName)}/${what}`, body);
const undo = new Undo();

const asking = (what, text) => h("button", {type: "button", onclick: doing(async () => {
  await ofRun(...what === "stop" ? ["stop"] : ["ask", {what}]);
  say(words.asked[what]);
})}, text);

const previewButton = asking("preview", words.previewNow);
previewButton.hidden = true;
/** The browser says when the run ends, if somebody wants that, though another page is looked at. */
const canNotify = typeof Notification !== "undefined", notifyButton = h("button", {type: "button", hidden: !canNotify || Notification.permission !== "default", onclick: doing(async () => {
  const answer = await Notification.requestPermission();
  notifyButton.hidden = answer !== "default";
  if (answer === "granted") say(words.willNotify);
})}, words.notify);
const running = h("div", {class: "controls", hidden: true}, previewButton, asking("save", words.saveNow), asking("stop_after_epoch", words.stopEpoch), asking("stop", words.stop), notifyButton);
let isArchived = false, lastState = "", knowsPrompts = false;
const archiveButton = h("button", {type: "button", onclick: doing(async () => {
  await ofRun("archive", {is_archived: !isArchived});
  await look();
})}, words.archive);

const drawButton = h("a", {class: "button primary", href: `${root}#/draw?run=${named(runName)}`, hidden: true}, words.drawWith);
const resumeButton = h("button", {type: "button", onclick: doing(() => resume())}, words.resume);
/** What was stopped goes on, where its pictures and captions are those that it began with. */
async function resume() {
  const save = await lastSave(), {data_changed: isChanged} = await get(`runs/${named(runName)}/changes`);
  if (isChanged && save && moreBox.hidden) {
    moreBox.hidden = false;
    return moreBox.replaceChildren(h("p", {class: "explain"}, words.fromLoraChanged), h("a", {class: "button primary", href: fromSave(save)}, words.fromLora), h("button", {onclick: doing(() => resume())}, words.resume));
  }
  await ofRun("resume");
  moreBox.hidden = true;
  say(words.queued(runName));
}

const publishing = new Publishing(runName);
const moreButton = h("button", {type: "button", "aria-expanded": "false", onclick: doing(() => trainMore())}, words.trainMore), moreBox = h("form", {class: "train-more", hidden: true, onsubmit: event => event.preventDefault()});
const ended = h("div", {class: "controls", hidden: true}, drawButton, resumeButton, moreButton,
  h("a", {class: "button", href: `${root}#/new?run=${named(runName)}`}, words.clone), publishing.button, archiveButton,
  h("button", {type: "button", onclick: doing(async () => {
    const name = prompt(words.renameTo, runName);
    if (!name || name === runName) return;
    await ofRun("rename", {name});
    location.href = `${root}runs/${named(name)}/`;
  })}, words.rename),
  h("button", {type: "button", onclick: doing(async () => {
    tellOfBin((await ask("DELETE", `runs/${named(runName)}`)).bin, runName);
    location.href = `${root}#/`;
  })}, words.bin));
const learned = new LearnedPictures(runName), best = new BestSave(runName), runTags = new RunTags(runName);
const mending = h("div", {class: "controls", hidden: true}), log = h("pre", {tabindex: 0, role: "group", "aria-label": words.log}), files = h("ul", {class: "files"}), noFiles = h("p", {class: "explain"}, words.noFiles);
const noSamples = h("p", {class: "explain"}, words.noSamplesYet), savesButton = h("a", {class: "button", href: `${root}#/draw?run=${named(runName)}&saves=1`, hidden: true}, words.drawing.allSaves);

/** What somebody notes of the run, which is kept half a second after the last key. */
const notes = h("textarea", {id: "notes", rows: 3, "aria-label": words.notes, placeholder: words.notesNote, oninput: () => { clearTimeout(notes.timer); notes.timer = setTimeout(() => keepNotes(), 500); }, onblur: () => keepNotes()});
const notesSaved = h("span", {class: "saved", title: words.saved}, "✓"), notesBox = h("details", {class: "notes-box"}, h("summary", {}, words.notes, " ", notesSaved), notes);

function keepNotes() {
  clearTimeout(notes.timer);
  if (notes.value === notes.kept) return;
  notes.kept = notes.value;
  ask("POST", `runs/${named(runName)}/notes`, {text: notes.value}, true).then(() => notesSaved.animate([{opacity: 1}, {opacity: 1}, {opacity: 0}], 2500), error => say(error.message, "bad"));
}

function showNotes(text) {
  if (document.activeElement === notes || text === notes.kept) return;
  if (notes.kept === undefined && text !== "") notesBox.open = true;
  notes.value = notes.kept = text;
}

/** What the run saved last, by which another one begins; "" where nothing is there. */
const lastSave = async () => (await get(`runs/${named(runName)}/files`)).at(-1)?.name ?? "";
const fromSave = (save, more = "") => `${root}#/new?run=${named(runName)}&lora=${named(`../runs/${runName}/${save}`)}${more}`;

/** Asks for how much more, and then goes on, or, where that does not go or is not wanted, begins a new run with what was learned. */
async function trainMore() {
  const isOpen = moreBox.hidden, {text} = await get(`runs/${named(runName)}/settings`), steps = Number(/^max_steps\s*=\s*(\d+)/m.exec(text)?.[1] ?? 0), epochs = Number(/^num_epochs\s*=\s*(\d+)/m.exec(text)?.[1] ?? 1);
  const option = steps > 0 ? "max_steps" : "num_epochs", input = h("input", {id: "more-steps", inputmode: "numeric", value: String(steps || epochs), autocomplete: "off"});
  const [last, {data_changed: isChanged}] = await Promise.all([lastSave(), get(`runs/${named(runName)}/changes`)]);
  const link = last ? h("a", {class: `button ${isChanged ? "primary" : ""}`, href: fromSave(last)}, words.fromLora) : "", aim = () => { if (link) link.href = fromSave(last, `&${option}=${named(input.value)}`); };
  input.addEventListener("input", aim);
  aim();
  const goOn = doing(async () => {
    await ofRun("resume", {settings: withValue(text, option, (steps || epochs) + Number(input.value))});
    moreBox.hidden = true;
    say(words.queued(runName));
  });
  moreBox.hidden = !isOpen;
  moreButton.setAttribute("aria-expanded", String(isOpen));
  moreBox.replaceChildren(h("label", {for: "more-steps"}, steps > 0 ? words.moreSteps : words.moreEpochs), input,
    ...isChanged ? [link] : [h("button", {class: "primary", onclick: goOn}, words.goOn), link], h("p", {class: "explain"}, isChanged ? words.fromLoraChanged : words.fromLoraNote));
  if (isOpen) input.focus();
}

/** The parts of the page by tab: what stands in none of them is always there. */
const tabs = {overview: ["#previews", "#curves", "#timesteps", "#memory"], samples: ["#previews"], best: [], pictures: [], files: [], log: [], settings: ["#settings"]};
const tabButtons = Object.keys(tabs).map(tab => h("button", {type: "button", role: "tab", id: `tab-${tab}`, onclick: () => showTab(tab), onkeydown: event => stepTab(event, tab)}, words.tabs[tab]));

function showTab(tab) {
  document.querySelector("main").dataset.tab = tab;
  tabButtons.forEach((button, i) => {
    const isShown = Object.keys(tabs)[i] === tab;
    button.setAttribute("aria-selected", String(isShown));
    button.tabIndex = isShown ? 0 : -1;
  });
  dispatchEvent(new Event("resize"));  // curves are as wide as there is room
  look().catch(() => {});
}

function stepTab(event, tab) {
  const by = {ArrowLeft: -1, ArrowRight: 1}[event.key], names = Object.keys(tabs), next = names[(names.indexOf(tab) + (by ?? 0) + names.length) % names.length];
  if (!by) return;
  event.preventDefault();
  showTab(next);
  document.getElementById(`tab-${next}`).focus();
}

function layOut() {
  const main = document.querySelector("main"), fileBox = h("section", {}, h("h2", {}, words.files), noFiles, files), sampleBox = h("section", {"data-part": "samples"}, noSamples, h("div", {class: "controls"}, savesButton)), logBox = h("section", {class: "log"}, h("h2", {}, words.log), log);
  document.head.append(h("link", {rel: "stylesheet", href: `${root}page/controls.css`}));
  addMenu();
  document.body.append(h("div", {id: "toast", class: "toast", role: "alert", hidden: true}));
  document.querySelector(".head").append(mending, running, ended, moreBox, publishing.element, runTags.element, notesBox, h("div", {class: "tabs", role: "tablist", "aria-label": words.tabsOf}, ...tabButtons));
  main.append(sampleBox, best.element, learned.element, fileBox, logBox);
  main.querySelector("#curves").before(main.querySelector("#previews"));
  for (const [tab, selectors] of Object.entries(tabs)) for (const part of selectors.map(selector => main.querySelector(selector))) part.dataset.part = `${part.dataset.part ?? ""} ${tab}`;
  best.element.dataset.part = "best";
  fileBox.dataset.part = "files";
  logBox.dataset.part = "log";
}

/** Settings that are as they are by themselves are shown when that is asked for. */
async function foldSettings() {
  const {options} = await get("options"), list = document.querySelector("#settings-list"), text = value => Array.isArray(value) ? value.join(", ") : String(value ?? "");
  const usual = new Map(options.map(option => [option.name, text(option.default) || "none"])), same = (name, value) => usual.get(name) === value || Number(usual.get(name)) === Number(value);
  const fold = () => {
    for (const entry of list.querySelectorAll("dl > div")) entry.classList.toggle("usual", same(entry.querySelector("dt").textContent, entry.querySelector("dd").textContent));
    for (const group of list.querySelectorAll(".group")) group.classList.toggle("usual", !group.querySelector("dl > div:not(.usual)"));
  };
  const all = h("input", {type: "checkbox", onchange: event => list.classList.toggle("all", event.target.checked)});
  document.querySelector("#settings .controls").append(h("label", {class: "switch"}, all, words.allSettings));
  new MutationObserver(fold).observe(list, {childList: true});
  fold();
}

/** Sentences of the page that speak of commands speak of its buttons instead. */
function speakOfButtons() {
  const say = () => {
    for (const part of document.querySelectorAll(".standing p")) if (part.textContent !== plainSentence(part.textContent)) part.textContent = plainSentence(part.textContent);
  };
  new MutationObserver(say).observe(document.querySelector("main"), {childList: true, subtree: true});
  say();
}

/** Of a run that failed: a button for each option that its sentence names, and what would fit where memory was short. */
async function offer(run) {
  const noFit = 4;  // the exit code
  if (run.state !== "failed" || mending.children.length > 0) return;
  const found = optionsIn(run.sentence ?? "", (await get("options")).options), form = `${root}#/new?run=${named(runName)}`;
  const links = found.map(name => h("a", {class: "button", href: `${form}&option=${named(name)}`}, words.change(name)));
  const save = /belongs to a run with other settings/.test(run.sentence ?? "") ? await lastSave() : "";
  if (save) links.unshift(h("a", {class: "button primary", href: fromSave(save)}, words.fromLora));
  if (run.exit_code === noFit) links.push(h("a", {class: "button", href: `${form}&fit=1`}, words.fitTitle));
  mending.replaceChildren(...links);
  mending.hidden = links.length === 0;
}

/** A saved file is called by its run where it is taken to. */
const fileRow = file => h("li", {}, h("a", {href: `${root}api/runs/${named(runName)}/files/${named(file.name)}`, download: `${runName}-${file.name}`}, `${runName}-${file.name}`), ` ${bytes(file.bytes)}`);
const fileList = new KeptList(files, file => file.name, fileRow);

/** The tab says how far the run is, and that it has ended where somebody wants to know. */
function tell(run) {
  const share = run.state === "training" && run.steps > 0 ? `${Math.round(100 * run.step / run.steps)} % ` : "";
  document.title = `${share}${runName} · Burnish Studio`;
  if (lastState && !isEnd(lastState) && isEnd(run.state) && document.hidden && canNotify && Notification.permission === "granted") new Notification(`${runName}: ${stateTitles[run.state]}`);
  lastState = run.state;
}

/** Previews are drawn of prompts alone; a run that only begins has not written its settings yet. */
async function offerPreviews() {
  if (knowsPrompts) return;
  const {text} = await get(`runs/${named(runName)}/settings`);
  knowsPrompts = text !== "";
  previewButton.hidden = textOf(text, "preview_prompts") === "";
}

async function look() {
  const run = await get(`runs/${named(runName)}`), over = isEnd(run.state), list = await get(`runs/${named(runName)}/files`), tab = document.querySelector("main").dataset.tab;
  running.hidden = over || run.state === "waiting";
  ended.hidden = !over;
  isArchived = run.is_archived;
  showNotes(run.notes);
  runTags.show(run.tags);
  archiveButton.textContent = isArchived ? words.unarchive : words.archive;
  drawButton.hidden = list.length === 0;
  resumeButton.hidden = run.state === "done" || list.length === 0;
  publishing.button.hidden = list.length === 0;
  await publishing.refresh();
  moreButton.hidden = run.state !== "done" || list.length === 0;
  await offerPreviews();
  await offer(run);
  fileList.show(list);
  noFiles.hidden = list.length > 0;
  noSamples.hidden = !document.querySelector("#previews").hidden;
  savesButton.hidden = list.length < 2;
  if (tab === "pictures") await learned.refresh();
  if (tab === "best") await best.refresh();
  if (tab === "log") log.textContent = (await get(`runs/${named(runName)}/log`)).text || words.noLog;
  tell(run);
}

layOut();
addEventListener("pagehide", keepNotes);
showTab("overview");
foldSettings().catch(() => {});
speakOfButtons();
setInterval(() => { look().catch(() => {}); }, 1500);
