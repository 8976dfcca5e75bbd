// Pictures that a run drew while it trained: a card for each prompt, a slider over the steps.

const isStill = matchMedia("(prefers-reduced-motion: reduce)");

/** Shows a preview in a holder, by an image or a video; one that is there already and of the right kind is kept until the other has come. */
function showMedia(holder, one, {controls = false, plays = true} = {}) {
  const name = one?.video ? "VIDEO" : "IMG", url = one?.url ?? noPicture;
  let shown = holder.querySelector("img, video");
  if (shown?.tagName !== name) {
    const made = name === "VIDEO" ? h("video", {loop: true, playsinline: true, preload: "auto", controls}) : h("img", {onload: markPixels});
    made.muted = true;
    shown ? shown.replaceWith(made) : holder.prepend(made);
    shown = made;
  }
  if (shown.getAttribute("src") !== url) shown.src = url;
  shown.autoplay = plays && !isStill.matches;
  shown.frames = plays && !isStill.matches && one?.frames ? {urls: one.frames, rate: one.rate} : null;
  return shown;
}

const markPixels = event => event.target.classList.toggle("pixels", event.target.naturalWidth < 128);

/** Images whose previews are frames go through them, all by one clock. */
function playFrames(now) {
  for (const image of document.querySelectorAll("#previews img")) {
    if (!image.frames) continue;
    const {urls, rate} = image.frames, url = urls[Math.floor(now / 1000 * rate) % urls.length];
    if (image.getAttribute("src") !== url) image.src = url;
  }
  requestAnimationFrame(playFrames);
}

const noPicture = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' width='1' height='1'/%3E";

/** What a preview shows: its prompt, and the strength of the adapter where it is another than the whole. */
const caption = one => one ? one.strength === undefined ? one.prompt : `${one.prompt} (adapter at ${one.strength})` : "";

class Previews {
  position = 0;    // in steps
  steps = [];
  cards = new Map();  // by number

  constructor() {
    this.slider = $("preview-step");
    this.slider.addEventListener("input", () => this.show(Number(this.slider.value)));
    $("play").addEventListener("click", () => this.play(!this.timer));
    this.viewer = $("viewer");
    this.viewer.addEventListener("click", event => { if (event.target === this.viewer) this.viewer.close(); });
    this.viewer.addEventListener("keydown", event => this.onKey(event));
    requestAnimationFrame(playFrames);
  }

  /** Takes the runs as they are now; a slider that is at the end stays at the end. */
  set(runs) {
    const followed = this.position >= this.steps.length - 1, step = this.steps[this.position];
    this.runs = runs.filter(run => run.previews.length > 0);
    this.steps = [...new Set(this.runs.flatMap(run => run.previews.map(one => one.step)))].sort((a, b) => a - b);
    $("previews").hidden = this.steps.length === 0;
    if (this.steps.length === 0) return;
    this.numbers = [...new Set(this.runs.flatMap(run => run.previews.map(one => one.number)))].sort((a, b) => a - b);
    this.makeCards();
    this.fillStrips();
    this.slider.max = this.steps.length - 1;
    this.slider.disabled = $("play").disabled = this.steps.length < 2;
    this.show(followed ? this.steps.length - 1 : Math.max(0, this.steps.indexOf(step)));
  }

  makeCards() {
    const layout = JSON.stringify([this.numbers, this.runs.map(run => run.name)]);
    if (layout === this.layout) return;
    this.layout = layout;
    this.cards.clear();
    $("pictures").classList.toggle("compared", this.runs.length > 1);
    $("pictures").replaceChildren(...this.numbers.map(number => {
      const pictures = this.runs.map(run => {
        return {run, button: h("button", {type: "button", class: "picture", onclick: () => this.open(number)},
          this.runs.length > 1 ? h("span", {class: "run-name"}, swatch(run.color), run.name) : null)};
      });
      const prompt = h("p", {class: "prompt"}), strips = h("div", {class: "strips"});
      this.cards.set(number, {pictures, prompt, strips});
      return h("div", {class: "card"}, h("div", {class: "row"}, ...pictures.map(({button}) => button)), prompt, strips);
    }));
  }

  /** Below a clip a row of its frames for each step and run; the steps that are shown are marked. */
  fillStrips() {
    const clips = this.runs.flatMap(run => run.previews.filter(one => one.strip).map(one => ({run, one})));
    $("pictures").classList.toggle("clips", clips.length > 0);
    const listed = JSON.stringify(clips.map(({run, one}) => [run.name, one.step, one.number, one.strip.length, one.url.slice(-24)]));
    if (listed === this.listed) return;
    this.listed = listed;
    clips.sort((a, b) => a.one.step - b.one.step);
    for (const [number, {strips}] of this.cards) {
      strips.replaceChildren(...clips.filter(({one}) => one.number === number).map(({run, one}) =>
        h("button", {type: "button", class: "frames", "data-step": one.step, onclick: () => this.show(this.steps.indexOf(one.step))},
          h("span", {class: "number"}, this.runs.length > 1 ? swatch(run.color) : null, whole(one.step)),
          h("img", {src: one.strip, alt: `${run.name}, step ${one.step}: frames of the clip`,
            loading: one.strip.startsWith("data:") ? null : "lazy"}))));
      strips.parentElement.classList.toggle("clip", strips.children.length > 0);
    }
  }

  /** The run's picture at the step, or the last before it. */
  find(run, number, step) {
    return run.previews.findLast(one => one.number === number && one.step <= step);
  }

  show(position) {
    this.position = position;
    const step = this.steps[position];
    this.slider.value = position;
    this.slider.setAttribute("aria-valuetext", `step ${step}`);
    $("preview-label").textContent = step === 0 ? "before training" : `step ${whole(step)}`;
    for (const [number, card] of this.cards) {
      for (const {run, button} of card.pictures) {
        const found = this.find(run, number, step), shown = showMedia(button, found);
        const label = found ? `${run.name}, step ${found.step}: ${caption(found)}` : "";
        shown.setAttribute(found?.video ? "aria-label" : "alt", label);
        button.disabled = !found;
        if (found) card.prompt.textContent = caption(found);
      }
      card.prompt.title = card.prompt.textContent;
      for (const row of card.strips.children) row.toggleAttribute("aria-current", Number(row.dataset.step) === step);
    }
    if (this.viewer.open) this.fillViewer();
  }

  play(on) {
    clearInterval(this.timer);
    this.timer = on ? setInterval(() => this.show((this.position + 1) % this.steps.length), 600) : null;
    $("play").textContent = on ? "Pause" : "Play";
    $("play").setAttribute("aria-pressed", String(on));
  }

  open(number) {
    this.number = number;
    this.fillViewer();
    this.viewer.showModal();
  }

  fillViewer() {
    const step = this.steps[this.position];
    const found = this.runs.map(run => ({run, one: this.find(run, this.number, step)})).filter(({one}) => one);
    const thumb = one => h("button", {type: "button", class: "thumb", "aria-current": one.step === step ? "true" : null,
      onclick: () => this.show(this.steps.indexOf(one.step))},
      one.video ? h("video", {src: one.url, preload: "metadata", "aria-label": `step ${one.step}`}) : h("img", {src: one.url, alt: `step ${one.step}`}),
      h("span", {class: "number"}, whole(one.step)));
    const figure = ({run, one}) => {
      const made = h("figure", {class: one.strip ? "clip" : null}, h("figcaption", {}, this.runs.length > 1 ? `${run.name}, step ${whole(one.step)}` : `step ${whole(one.step)}`));
      const shown = showMedia(made, one, {controls: true});
      shown.setAttribute(one.video ? "aria-label" : "alt", caption(one));
      if (one.video) shown.after(spectrogramOf(shown, one.url));
      return made;
    };
    const strips = this.runs.map(run => h("div", {class: "strip"}, ...run.previews.filter(one => one.number === this.number).map(thumb)));
    this.viewer.replaceChildren(
      h("button", {type: "button", class: "close", "aria-label": "Close", onclick: () => this.viewer.close()}, "×"),
      h("div", {class: "large"}, ...found.map(figure)),
      h("p", {class: "prompt"}, caption(found[0]?.one)), ...strips);
    this.viewer.querySelector("[aria-current]")?.scrollIntoView({block: "nearest", inline: "center"});
  }

  onKey(event) {
    const by = {ArrowLeft: -1, ArrowRight: 1}[event.key], along = {ArrowUp: -1, ArrowDown: 1}[event.key];
    if (by) this.show(Math.max(0, Math.min(this.steps.length - 1, this.position + by)));
    else if (along) this.number = this.numbers.at((this.numbers.indexOf(this.number) + along) % this.numbers.length);
    else return;
    this.fillViewer();
    event.preventDefault();
  }
}
