// What can be asked of a run, above its page.

const runName = decodeURIComponent(location.pathname.split("/")[2]);
const ofRun = (what, body) => post(`runs/${named(runName)}/${what}`, body);

const asking = (what, text) => h("button", {type: "button", onclick: doing(async () => {
  await ofRun(...what === "stop" ? ["stop"] : ["ask", {what}]);
  say(words.asked[what]);
})}, text);

const running = h("div", {class: "controls", hidden: true}, asking("preview", words.previewNow), asking("save", words.saveNow),
  asking("stop_after_epoch", words.stopEpoch), asking("stop", words.stop));
const ended = h("div", {class: "controls", hidden: true},
  h("button", {type: "button", onclick: doing(async () => { await ofRun("resume"); say(words.queued(runName)); })}, words.resume),
  h("a", {class: "button", href: `/#/new?run=${named(runName)}`}, words.clone),
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
const log = h("pre", {}), files = h("ul", {class: "files"});
const logBox = h("details", {class: "log"}, h("summary", {}, words.log), log), fileBox = h("details", {class: "log", open: true}, h("summary", {}, words.files), files);

document.head.append(h("link", {rel: "stylesheet", href: "/page/controls.css"}));
document.querySelector(".wordmark").replaceWith(h("a", {class: "wordmark", href: "/#/"}, "burnish studio"));
document.body.append(h("div", {id: "toast", class: "toast", role: "alert", hidden: true}));
document.querySelector(".head").append(running, ended);
document.querySelector("main").append(h("section", {}, fileBox, logBox));

async function look() {
  const run = (await get("runs")).find(one => one.name === runName);
  if (run) {
    const over = ["done", "failed", "interrupted", "gone"].includes(run.state);
    running.hidden = over || run.state === "waiting";
    ended.hidden = !over;
  }
  const list = await get(`runs/${named(runName)}/files`);
  if (files.children.length !== list.length) files.replaceChildren(...list.map(file => h("li", {}, h("a", {href: `/api/runs/${named(runName)}/files/${named(file.name)}`, download: file.name}, file.name), ` ${bytes(file.bytes)}`)));
  if (logBox.open) log.textContent = (await get(`runs/${named(runName)}/log`)).text;
}
look().catch(() => {});
setInterval(() => { if (!document.hidden) look().catch(() => {}); }, 1500);
logBox.addEventListener("toggle", () => look().catch(() => {}));
