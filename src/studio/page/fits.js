// Whether a LoRA of a model trains on this machine, by plan: of one model after the other, so that the page's own plans need not wait.

/** What the form would train a LoRA of a model with: the preset for this machine, or what is usual. */
function settingsOfLora(context, name, planned) {
  const [preset] = presetsOf(context, name), usual = "lora_rank = 16\nmax_steps = 1000\nresolution = [1024]\nenable_bucket = true\n";
  return withValue(preset ? preset.settings : usual, "model", [planned]);
}

/** The same for all weights of the component that trains, as lean as they train at all. */
function settingsOfWhole(context, name, planned, denoiser) {
  const lines = settingsOfLora(context, name, planned).split("\n").filter(line => !/^\s*(lora_\w+|fp8_models|weight_format|trainable_models|optimizer|optimizer_args|learning_rate)\s*=/.test(line));
  return Object.entries({trainable_models: denoiser, optimizer: "adafactor", learning_rate: 1e-5, fused_backward_pass: true, use_gradient_checkpointing: true}).reduce((text, [option, value]) => withValue(text, option, value), lines.join("\n"));
}

/** What was planned of models by their names, until the page is read anew. */
const plannedFits = new Map();

/**
 * {kind, bytes}: "good" as it is, "with" settings that save memory, "bad" with none; "" with a `sentence` where nothing could be planned.
 * With the name of its component that trains also `whole`: whether all weights of that do, {fits, bytes}.
 * What saves memory is only looked for where that is asked (`isThorough`), since it takes ten times as long: "unsure" without.
 */
async function fitOf(context, name, planned, isThorough, denoiser = "") {
  const settings = settingsOfLora(context, name, planned), alone = await post("plan", {settings, alone: true});
  if (!isThorough && alone.plan?.fits === false) return {kind: "unsure", bytes: alone.plan.bytes};
  const {plan, sentence, problems} = alone.plan?.fits === false ? await post("plan", {settings, fit: true}) : alone;
  if (!plan) return {kind: "", sentence: plainSentence(sentence ?? problems?.[0]?.sentence ?? "")};
  const isFit = plan.fits !== false;
  const found = {kind: isFit ? "good" : plan.fit ? "with" : "bad", bytes: isFit || !plan.fit ? plan.bytes : plan.fit.bytes};
  const whole = denoiser && found.kind !== "bad" ? (await post("plan", {settings: settingsOfWhole(context, name, planned, denoiser), alone: true})).plan : null;
  return whole ? {...found, whole: {fits: whole.fits !== false, bytes: whole.bytes}} : found;
}

/** A fit as a sentence. */
const fitText = ({kind, bytes: amount, sentence}) => kind === "" ? sentence : {good: words.modelsPage.fits, with: words.modelsPage.fitsWith, unsure: words.modelsPage.fitsUnsure, bad: words.modelsPage.fitsNot}[kind](bytes(amount));

/** What is said of all weights of a model. */
const wholeText = ({whole}) => !whole ? "" : (whole.fits ? words.modelsPage.wholeFits : words.modelsPage.wholeNot)(bytes(whole.bytes));

/** How a sentence of a fit looks. */
const fitClass = ({kind}) => `judged fit ${["good", "bad"].includes(kind) ? kind : ""}`;

class Fits {
  /** `changed` is called when more is known. */
  constructor(context, changed) {
    this.context = context;
    this.changed = changed;
    this.wanted = [];
    this.isBusy = this.isLeft = false;
  }

  leave() { this.isLeft = true; }

  /** Plans those of some models that are not planned yet: [{name, planned, isThorough, denoiser}], of which the second stands for the model in a plan. */
  async look(models) {
    this.wanted = models.filter(one => !plannedFits.has(one.name));
    if (this.isBusy) return;
    this.isBusy = true;
    for (let one = this.wanted.shift(); one && !this.isLeft; one = this.wanted.shift()) {
      plannedFits.set(one.name, await fitOf(this.context, one.name, one.planned, one.isThorough, one.denoiser).catch(error => ({kind: "", sentence: error.message})));
      if (!this.isLeft) this.changed();
    }
    this.isBusy = false;
  }

  /** Looks for settings with which a model fits. */
  async seek(name, planned) {
    plannedFits.set(name, await fitOf(this.context, name, planned, true));
    if (!this.isLeft) this.changed();
  }
}
