// What a PNG says of how it was drawn: burnish's own text fields, or the "parameters" of AUTOMATIC1111's and those who write the same.

/** Text chunks of a PNG (RFC 2083, 4.2.3; iTXt by the PNG specification's third edition), by their keywords. */
async function pngTexts(buffer) {
  const view = new DataView(buffer), data = new Uint8Array(buffer), texts = new Map(), utf8 = new TextDecoder(), latin = new TextDecoder("latin1");
  if (data.length < 8 || view.getUint32(0) !== 0x89504e47) return null;
  for (let at = 8; at + 12 <= data.length;) {
    const length = view.getUint32(at), kind = latin.decode(data.subarray(at + 4, at + 8)), body = data.subarray(at + 8, at + 8 + length);
    if (kind === "IHDR" && body.length >= 8) texts.set("width", String(view.getUint32(at + 8))).set("height", String(view.getUint32(at + 12)));
    const end = body.indexOf(0);
    if (kind === "tEXt" && end > 0) texts.set(latin.decode(body.subarray(0, end)), latin.decode(body.subarray(end + 1)));
    if (kind === "iTXt" && end > 0) {
      const language = body.indexOf(0, end + 3), text = body.indexOf(0, language + 1), isPacked = body[end + 1] === 1;
      const rest = body.subarray(text + 1);
      if (language > 0 && text > 0) texts.set(utf8.decode(body.subarray(0, end)), isPacked ? await unpacked(rest) : utf8.decode(rest));
    }
    at += 12 + length;
  }
  return texts;
}

const unpacked = packed => new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).text();

/** "a.safetensors:0.5:attn=0" as a path, a strength and factors for layers. */
function loraOf(text) {
  const [, path, strength, layers = ""] = /^(.*?)(?::(-?[\d.]+(?:e-?\d+)?))?(?::([^:]*[=,][^:]*))?$/.exec(text);
  return {path, strength: strength === undefined ? 1 : Number(strength), layers};
}

/** "Steps: 20, Sampler: Euler, Size: 512x512" below prompt and negative prompt; LoRAs stand in the prompt as <lora:name:strength>. */
function settingsOfParameters(text) {
  const lines = text.split("\n"), last = lines.findLastIndex(line => line.startsWith("Steps: ")), values = {};
  for (const [, name, quoted, plain] of (lines[last] ?? "").matchAll(/\s*([\w ]+): (?:"((?:\\.|[^"\\])*)"|([^,]*))(?:,|$)/g)) values[name] = quoted ?? plain;
  const above = (last < 0 ? lines : lines.slice(0, last)).join("\n"), [positive, negative = ""] = above.split(/\n?Negative prompt: /), loras = [];
  const prompt = positive.replace(/<lora:([^:>]+):?([^:>]*)([^>]*)>/g, (_, path, strength, rest) => { loras.push({path, strength: Number(strength || 1), layers: /lbw=(-?[\d.][-\d., ]*,[-\d., ]*)/.exec(rest)?.[1] ?? ""}); return ""; });
  const [width, height] = (values.Size ?? "").split("x").map(Number), listed = value => value === undefined || !Number.isFinite(Number(value)) ? [] : [Number(value)];
  return {prompts: [prompt.replace(/\s+/g, " ").trim()], negative_prompt: negative.replace(/\s+/g, " ").trim(), seeds: listed(values.Seed), steps: listed(values.Steps),
    guidance: listed(values["CFG scale"]), sizes: width > 0 && height > 0 ? [[width, height]] : [], loras, model: ""};
}

/** What the drawing page can take of a picture; null for one that says nothing. */
function settingsOfPicture(texts) {
  if (texts.has("parameters")) return settingsOfParameters(texts.get("parameters"));
  if (!texts.has("prompt") || !texts.has("num_inference_steps")) return null;
  const listed = name => texts.has(name) ? [Number(texts.get(name))] : [];
  return {prompts: [texts.get("prompt")], negative_prompt: texts.get("negative_prompt") ?? "", seeds: listed("seed"), steps: listed("num_inference_steps"), guidance: listed("cfg_scale"),
    sizes: [[Number(texts.get("width")), Number(texts.get("height"))]], loras: (texts.get("lora") || "").split(", ").filter(Boolean).map(loraOf), model: texts.get("model") ?? ""};
}
