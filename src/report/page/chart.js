// Line charts in SVG. Charts that share a View show the same steps and the same crosshair.

class View extends EventTarget {
  smoothing = 0;
  logScale = false;
  range = null;  // [first, last] shown; null is all
  at = null;     // where the crosshair is

  /** Of all but the crosshair, which is cheaper to move. */
  change(values) {
    Object.assign(this, values);
    this.dispatchEvent(new Event("change"));
  }

  point(at) {
    this.at = at;
    this.dispatchEvent(new Event("point"));
  }
}

/** Round numbers that divide [low, high] into about `count` parts; `base` is what sizes double to (1024 for bytes). */
function ticks(low, high, count, base = 10) {
  const unit = base === 10 ? 1 : base ** Math.max(0, Math.floor(Math.log(high) / Math.log(base)));
  return roundTicks(low / unit, high / unit, count).map(value => value * unit);
}

function roundTicks(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find(factor => factor * power >= raw * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) found.push(i * step);
  return found.map(value => Number(value.toPrecision(12)));
}

function logTicks(low, high) {
  const decades = Math.log10(high / low), factors = decades > 4 ? [1] : decades > 1.5 ? [1, 3] : [1, 2, 5];
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); ++power) {
    for (const factor of factors) found.push(Number((factor * 10 ** power).toPrecision(3)));
  }
  const inside = found.filter(value => value >= low && value <= high);
  return inside.length >= 2 ? inside : ticks(low, high, 4).filter(value => value > 0);
}

/** Exponential moving average that starts at the first value (each weighs 1 - weight, divided by what the weights sum to). */
function smoothed(values, weight) {
  let mean = 0, sum = 0;
  return values.map(value => {
    mean = weight * mean + (1 - weight) * value;
    sum = weight * sum + (1 - weight);
    return mean / sum;
  });
}

function quantile(sorted, share) {
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.round(share * (sorted.length - 1))))];
}

/** Index of the x that is nearest; xs rise. */
function nearest(xs, x) {
  let low = 0, high = xs.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low > 0 && x - xs[low - 1] < xs[low] - x ? low - 1 : low;
}

/** A path through the points. Where many share a column of pixels, only the lowest and highest of it are drawn. */
function path(xs, ys) {
  let text = "", i = 0;
  const point = k => { text += `${text ? "L" : "M"}${xs[k].toFixed(1)},${ys[k].toFixed(1)}`; };
  while (i < xs.length) {
    const column = Math.floor(xs[i]);
    let low = i, high = i, end = i;
    for (; end < xs.length && Math.floor(xs[end]) === column; ++end) {
      if (ys[end] < ys[low]) low = end;
      if (ys[end] > ys[high]) high = end;
    }
    if (end - i <= 2) for (let k = i; k < end; ++k) point(k);
    else [low, high].sort((a, b) => a - b).forEach(point);
    i = end;
  }
  return text;
}

const margin = {left: 56, right: 12, top: 10, bottom: 26};

class Chart {
  static count = 0;
  number = Chart.count++;

  /**
   * options: title, format (a value as text), height, canLog, smooth (whether the slider smooths it), raw (whether what is smoothed is
   * drawn too), fromZero, base (of round numbers), extent (of the x axis), xFormat, xLabel, points (marks the values), legend (an element,
   * or true for one of the series).
   * Series are {label, color, xs, ys, dashed}.
   */
  constructor(view, options) {
    this.view = view;
    this.options = {format: number, xFormat: whole, xLabel: "step", height: 190, smooth: true, raw: true, base: 10, ...options};
    this.series = [];
    this.value = h("span", {class: "number value"}, this.options.legend instanceof Node ? this.options.legend : "");
    this.svg = svg("svg", {tabindex: 0, role: "img", height: this.options.height});
    this.readout = h("div", {class: "readout", hidden: true, role: "status"});
    const caption = h("figcaption", {}, h("span", {}, this.options.title), this.value);
    this.element = h("figure", {class: "chart"}, caption, this.svg, this.readout);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.element);
    view.addEventListener("change", () => this.draw());
    view.addEventListener("point", () => this.drawCrosshair());
  }

  set(series) {
    this.series = series.filter(one => one.xs.length > 0);
    this.element.hidden = this.series.length === 0;
    const key = one => h("span", {class: "key"}, swatch(one.color, one.dashed ? "dashed" : ""), one.label);
    if (this.options.legend === true) this.value.replaceChildren(...this.series.map(key));
    this.draw();
  }

  listen() {
    let pressed = null;
    const stepAt = event => this.toX(event.clientX - this.svg.getBoundingClientRect().left);
    this.svg.addEventListener("pointermove", event => {
      if (!this.frame) return;
      this.active = true;
      this.selection = pressed !== null && Math.abs(event.clientX - pressed.clientX) > 4 ? [stepAt(pressed), stepAt(event)] : null;
      this.view.point(stepAt(event));
    });
    this.svg.addEventListener("pointerleave", () => this.leave());
    this.svg.addEventListener("blur", () => this.leave());
    this.svg.addEventListener("pointerdown", event => {
      pressed = event;
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointerup", () => {
      const range = this.selection?.toSorted((a, b) => a - b);
      pressed = this.selection = null;
      if (range) this.view.change({range});
      else this.drawCrosshair();
    });
    this.svg.addEventListener("pointercancel", () => { pressed = this.selection = null; });
    this.svg.addEventListener("dblclick", () => this.view.change({range: null}));
    this.svg.addEventListener("keydown", event => this.onKey(event));
  }

  leave() {
    this.active = false;
    this.view.point(null);
  }

  onKey(event) {
    const xs = this.series[0]?.xs;
    if (!xs || !this.frame) return;
    const [low, high] = this.frame.x, stride = event.shiftKey ? Math.ceil(xs.length / 20) : 1;
    const at = this.view.at ?? high, index = nearest(xs, at);
    const moves = {ArrowLeft: index - stride, ArrowRight: index + stride, Home: nearest(xs, low), End: nearest(xs, high)};
    this.active = event.key !== "Escape";
    if (event.key in moves) this.view.point(xs[Math.max(0, Math.min(xs.length - 1, moves[event.key]))]);
    else if (event.key === "+" || event.key === "-") this.zoom(at, event.key === "+" ? 0.5 : 2);
    else if (event.key === "Escape") this.view.change({at: null, range: null});
    else return;
    event.preventDefault();
  }

  /** Shows `factor` times as much as before, around `at`. */
  zoom(at, factor) {
    const all = this.extent(), [low, high] = this.frame.x;
    const range = [Math.max(all[0], at - (at - low) * factor), Math.min(all[1], at + (high - at) * factor)];
    this.view.change({range: range[0] <= all[0] && range[1] >= all[1] ? null : range});
  }

  extent() {
    if (this.options.extent) return this.options.extent;
    const low = Math.min(...this.series.map(one => one.xs[0])), high = Math.max(...this.series.map(one => one.xs.at(-1)));
    return low < high ? [low, high] : [low - 0.5, high + 0.5];
  }

  /** The series as drawn: what is in range, raw and smoothed. */
  visible() {
    const [low, high] = this.view.range ?? this.extent();
    const weight = this.options.smooth ? this.view.smoothing : 0;
    return this.series.map(one => {
      const line = weight > 0 ? smoothed(one.ys, weight) : one.ys;
      const from = Math.max(0, nearest(one.xs, low) - 1), to = nearest(one.xs, high) + 2;
      return {...one, xs: one.xs.slice(from, to), ys: one.ys.slice(from, to), line: line.slice(from, to), smoothing: weight > 0};
    });
  }

  /** What the y axis spans: all smoothed values, and the raw ones without the wildest in a hundred. */
  span(shown, isLog) {
    const usable = values => isLog ? values.filter(value => value > 0) : values;
    const lines = usable(shown.flatMap(one => one.line)), raw = (this.options.raw ? usable(shown.flatMap(one => one.ys)) : [...lines]);
    raw.sort((a, b) => a - b);
    if (raw.length === 0) return isLog ? [0.1, 1] : [0, 1];
    const cut = shown.some(one => one.smoothing) && raw.length > 50 ? 0.01 : 0;
    const bound = (pick, start) => lines.reduce((a, b) => pick(a, b), start);
    let low = bound(Math.min, quantile(raw, cut)), high = bound(Math.max, quantile(raw, 1 - cut));
    if (isLog) return low < high ? [low / 1.1, high * 1.1] : [low / 2, high * 2];
    if (low >= 0 && (low < 0.4 * high || this.options.fromZero)) low = 0;
    if (high - low <= 1e-12 * Math.abs(high)) [low, high] = low === 0 ? [0, 1] : [low - Math.abs(low) / 2, high + Math.abs(high) / 2];
    const room = (high - low) * 0.06;
    return [low === 0 ? 0 : low - room, high + room];
  }

  draw() {
    if (this.element.hidden || this.series.length === 0) return;
    const style = getComputedStyle(this.element), padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
    const width = this.element.clientWidth - padding;
    if (width < 100) return;
    const {height, canLog, format} = this.options, isLog = Boolean(canLog && this.view.logScale), shown = this.shown = this.visible();
    const x = this.view.range ?? this.extent(), y = this.span(shown, isLog);
    const inner = [width - margin.left - margin.right, height - margin.top - margin.bottom];
    const part = value => isLog ? Math.log(value / y[0]) / Math.log(y[1] / y[0]) : (value - y[0]) / (y[1] - y[0]);
    this.frame = {x, y, width, inner};
    this.px = value => margin.left + inner[0] * (value - x[0]) / (x[1] - x[0]);
    this.py = value => margin.top + inner[1] * (1 - (isLog && value <= 0 ? -1 : part(value)));
    this.toX = pixel => Math.max(x[0], Math.min(x[1], x[0] + (pixel - margin.left) / inner[0] * (x[1] - x[0])));
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("aria-label", `${this.options.title}: ${shown.map(one => `${one.label} ${format(one.line.at(-1))}`).join(", ")}`);
    this.cross = svg("g");
    this.svg.replaceChildren(...this.axes(isLog), ...this.lines(shown), this.cross);
    this.drawCrosshair();
  }

  drawCrosshair() {
    if (!this.frame || this.element.hidden) return;
    this.cross.replaceChildren(...this.crosshair(this.shown));
    if (this.options.legend) return;
    const one = this.shown.length === 1 ? this.shown[0] : null, index = this.view.at === null ? -1 : nearest(one?.xs ?? [], this.view.at);
    this.value.textContent = one ? this.options.format(one.line.at(index)) : "";
  }

  axes(isLog) {
    const {x, y, width, inner} = this.frame, {format, xFormat, height} = this.options;
    const rows = (isLog ? logTicks(...y) : ticks(...y, 5, this.options.base)).filter(value => value >= y[0] && value <= y[1]);
    const columns = ticks(...x, Math.max(2, Math.min(8, inner[0] / 75)));
    const rule = value => svg("line", {class: value === 0 ? "grid zero" : "grid", x1: margin.left, x2: width - margin.right,
      y1: this.py(value), y2: this.py(value)});
    return [
      ...rows.map(rule),
      ...rows.map(value => svg("text", {class: "tick", x: margin.left - 10, y: this.py(value) + 4, "text-anchor": "end"}, format(value))),
      ...columns.map(value => svg("text", {class: "tick", x: Math.min(this.px(value), width - margin.right), y: height - 6,
        "text-anchor": this.px(value) > width - 40 ? "end" : "middle"}, xFormat(value))),
    ];
  }

  lines(shown) {
    const {inner} = this.frame, id = `clip-${this.number}`;
    const clip = svg("clipPath", {id}, svg("rect", {x: margin.left - 6, y: margin.top - 6, width: inner[0] + 12, height: inner[1] + 12}));
    const group = svg("g", {"clip-path": `url(#${id})`});
    const draw = (one, ys, kind) =>
      group.append(svg("path", {class: kind, style: `stroke: ${one.color}`, d: path(one.xs.map(this.px), ys.map(this.py))}));
    for (const one of shown) if (one.smoothing && this.options.raw) draw(one, one.ys, "raw");
    for (const one of shown) draw(one, one.line, one.dashed ? "line dashed" : "line");
    if (this.options.points || shown.every(one => one.xs.length < 3)) {
      for (const one of shown) group.append(...one.xs.map((_, i) => this.dot(one, i, {r: 3})));
    }
    return [clip, group];
  }

  dot(one, index, attributes) {
    return svg("circle", {cx: this.px(one.xs[index]), cy: this.py(one.line[index]), style: `fill: ${one.color}`, ...attributes});
  }

  crosshair(shown) {
    const {inner, x} = this.frame, at = this.view.at;
    this.readout.hidden = !this.active || at === null;
    if (at === null || at < x[0] || at > x[1]) return [];
    const found = shown.map(one => ({one, index: nearest(one.xs, at)}))
      .filter(({one, index}) => one.xs[index] >= x[0] && one.xs[index] <= x[1]);
    if (found.length === 0) return [];
    const step = found.map(({one, index}) => one.xs[index]).reduce((a, b) => Math.abs(b - at) < Math.abs(a - at) ? b : a);
    if (this.active) this.read(step, found);
    const marks = [svg("line", {class: "cross", x1: this.px(step), x2: this.px(step), y1: margin.top, y2: margin.top + inner[1]})];
    if (this.selection) {
      const [from, to] = this.selection.map(this.px).sort((a, b) => a - b);
      marks.push(svg("rect", {class: "selection", x: from, y: margin.top, width: to - from, height: inner[1]}));
    }
    return [...marks, ...found.map(({one, index}) => this.dot(one, index, {class: "dot", r: 4}))];
  }

  /** Fills the read-out beside the crosshair. */
  read(step, found) {
    const {format, xFormat, xLabel} = this.options;
    const row = ({one, index}) => h("tr", {},
      h("td", {}, swatch(one.color), one.label),
      h("td", {class: "number"}, format(one.line[index])),
      one.smoothing ? h("td", {class: "number faint"}, `raw ${format(one.ys[index])}`) : null);
    this.readout.replaceChildren(h("div", {class: "readout-head"}, `${xLabel} ${xFormat(step)}`), h("table", {}, ...found.map(row)));
    const left = this.px(step) + parseFloat(getComputedStyle(this.element).paddingLeft), isRight = left > this.element.clientWidth / 2;
    this.readout.style.left = isRight ? "auto" : `${left + 14}px`;
    this.readout.style.right = isRight ? `${this.element.clientWidth - left + 14}px` : "auto";
  }
}
