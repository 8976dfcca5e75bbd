// Elements and numbers as text.

const $ = id => document.getElementById(id);

function fillElement(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

/** An HTML element; children that are strings become text, never markup. */
const h = (name, attributes = {}, ...children) => fillElement(document.createElement(name), attributes, children);
const svg = (name, attributes = {}, ...children) =>
  fillElement(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

const swatch = (color, kind = "") => h("i", {class: `swatch ${kind}`, style: `--color: ${color}`});

/** A table of cells, each a list of children; the first of a row heads it. */
function compareTable(heads, rows, kind = "") {
  const cell = (name, scope, className) => children => h(name, {scope, class: className}, ...children);
  return h("div", {class: "scroll", tabindex: "0", role: "group", "aria-label": `${heads[0][0]}: table`}, h("table", {class: "compare"},
    h("thead", {}, h("tr", {}, ...heads.map((children, i) => cell("th", "col", i > 0 ? kind : "")(children)))),
    h("tbody", {}, ...rows.map(([head, ...cells]) => h("tr", {}, cell("th", "row", "")(head), ...cells.map(cell("td", null, kind)))))));
}

/** A few significant digits, without a tail of zeros. */
function number(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(digits)));
}

const whole = value => Math.round(value).toLocaleString("en");

function bytes(value) {
  if (value === 0) return "0";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; value >= 1024 && unit + 1 < units.length; ++unit) value /= 1024;
  return `${unit === 0 ? value : Number(value.toPrecision(3))} ${units[unit]}`;
}

function duration(seconds) {
  if (seconds === 0) return "0";
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(seconds < 0.1 ? 2 : 3))} ms`;
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  const total = Math.round(seconds), two = value => String(value).padStart(2, "0");
  if (total < 60) return `${total} s`;
  if (total < 3600) return `${Math.floor(total / 60)} min ${two(total % 60)} s`;
  return `${Math.floor(total / 3600)} h ${two(Math.floor(total / 60) % 60)} min`;
}
