// What the page asks of the server.

/** What addresses of the studio begin with: "/", or behind a proxy the path that it shows the studio under. Scripts lie in `page/` below it. */
const root = new URL("..", import.meta.url).pathname;

/** What a program's sentence says to whoever sees fields and buttons: these where it speaks of commands, and names of options without dashes. */
const plainSentence = sentence => commandWords.reduce((text, [command, button]) => text.replace(command, button), sentence).replace(/--([a-z][a-z0-9_]*)/g, "$1");

class Refused extends Error {
  constructor(answer, status) {
    super(plainSentence(answer.sentence ?? `The server answered ${status}.`));
    this.answer = answer;
    this.status = status;
  }
}

/** `outlives`: sent even if the page is closed meanwhile. */
async function ask(method, path, body, outlives = false) {
  const options = {method, keepalive: outlives, headers: body === undefined ? {} : {"Content-Type": "application/json"}, body: body === undefined ? undefined : JSON.stringify(body)};
  const response = await fetch(`${root}api/${path}`, options);
  const text = await response.text();
  let answer = {};
  try { answer = JSON.parse(text); } catch { answer = {sentence: text.trim()}; }
  if (!response.ok) throw new Refused(answer, response.status);
  return answer;
}

const get = path => ask("GET", path);
const post = (path, body = {}) => ask("POST", path, body);
const named = name => encodeURIComponent(name);

let toastTimer = null;

/** Says something for a while; screen readers hear it at once. An action, {title, act}, is a button beside it. */
function say(text, kind = "", action = null) {
  const box = $("toast"), press = doing(async () => { box.hidden = true; await action.act(); });
  box.replaceChildren(h("span", {}, text), action ? h("button", {type: "button", onclick: press}, action.title) : "");
  box.className = `toast ${kind}`;
  box.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { box.hidden = true; }, action ? 12000 : 6000);
}

/** Does something that a button asks for; what goes wrong is said. */
const doing = action => async event => {
  const button = event.currentTarget;
  button.disabled = true;
  try {
    await action(event);
  } catch (error) {
    say(error.message, "bad");
  } finally {
    button.disabled = false;
  }
};

/** What was dropped, as [path, file]: of folders all that is in them, and nothing hidden. */
async function droppedFiles(transfer) {
  const entries = [...transfer.items ?? []].map(item => item.webkitGetAsEntry?.()).filter(Boolean), found = [];
  if (entries.length === 0) return [...transfer.files].map(file => [file.name, file]);
  const called = (thing, method) => new Promise((done, failed) => thing[method](done, failed));
  const walk = async (entry, path) => {
    if (entry.name.startsWith(".")) return;
    if (entry.isFile) return found.push([path + entry.name, await called(entry, "file")]);
    const reader = entry.createReader();
    for (let part = await called(reader, "readEntries"); part.length > 0; part = await called(reader, "readEntries"))
      for (const one of part) await walk(one, `${path}${entry.name}/`);
  };
  for (const entry of entries) await walk(entry, "");
  return found;
}
