// What the page asks of the server.

class Refused extends Error {
  constructor(answer, status) {
    super(answer.sentence ?? `The server answered ${status}.`);
    this.answer = answer;
    this.status = status;
  }
}

async function ask(method, path, body) {
  const options = {method, headers: body === undefined ? {} : {"Content-Type": "application/json"}, body: body === undefined ? undefined : JSON.stringify(body)};
  const response = await fetch(`/api/${path}`, options);
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

/** Says something for a while; screen readers hear it at once. */
function say(text, kind = "") {
  const box = $("toast");
  box.textContent = text;
  box.className = `toast ${kind}`;
  box.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { box.hidden = true; }, 6000);
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
