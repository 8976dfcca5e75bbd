// The settings as TOML, of which lines are changed where they stand: comments and order stay the user's.

function tomlValue(value) {
  if (Array.isArray(value)) return `[${value.map(tomlValue).join(", ")}]`;
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "number" && Math.abs(value) >= 1e21) return value.toExponential();
  return String(value);
}

/** Lines [first, end) of a key, whose value may go over several; null where it is not there. */
function linesOf(lines, key) {
  const begins = new RegExp(`^\\s*"?${key.replace(/[^\w]/g, "\\$&")}"?\\s*=`);
  const first = lines.findIndex(line => begins.test(line));
  if (first < 0) return null;
  let depth = 0, quote = "", end = first;
  for (; end < lines.length; ++end) {
    for (let i = end === first ? lines[end].indexOf("=") + 1 : 0; i < lines[end].length; ++i) {
      const c = lines[end][i];
      if (quote) {
        if (c === "\\" && quote === "\"") ++i;
        else if (c === quote) quote = "";
      } else if (c === "\"" || c === "'") quote = c;
      else if (c === "#") break;
      else if (c === "[") ++depth;
      else if (c === "]") --depth;
    }
    if (depth <= 0) break;
  }
  return [first, Math.min(end + 1, lines.length)];
}

/** The text with the key at another value; without the key where the value is undefined. */
function withValue(text, key, value) {
  const lines = text.replace(/\n+$/, "").split("\n"), found = linesOf(lines, key);
  const line = value === undefined ? [] : [`${key} = ${tomlValue(value)}`];
  if (found) lines.splice(found[0], found[1] - found[0], ...line);
  else lines.push(...line);
  return `${lines.join("\n").replace(/^\n+/, "")}\n`;
}

/** The text that a key has; "" where it is not there, or something else. */
function textOf(text, key) {
  const lines = text.split("\n"), found = linesOf(lines, key), value = found ? lines[found[0]].slice(lines[found[0]].indexOf("=") + 1).trim() : "";
  const [, basic, literal] = /^(?:("(?:[^"\\]|\\.)*")|'([^']*)')/.exec(value) ?? [];
  try { return basic ? JSON.parse(basic) : literal ?? ""; } catch { return ""; }
}
