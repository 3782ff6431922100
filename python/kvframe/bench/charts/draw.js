// Charts as SVG: lines over a shared x, and stacked bars. Neither knows what it shows.

const SVG = "http://www.w3.org/2000/svg";
const HINT = "Point at the chart, or go there by Tab and press ← or →, to read values.";
const LABEL_STEP = 15; // px between names at the ends of lines

/** An element; a string child is text, never markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child != null));
  return element;
}

function shape(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.flat());
  return element;
}

const middle = (attributes, text) => shape("text", { ...attributes, "text-anchor": "middle" }, text);
const MOST = 24; // letters of a name in a picture
const short = (name) => (name.length > MOST ? `${name.slice(0, MOST - 1)}…` : name);

// --- numbers ------------------------------------------------------------------------------------

const grouped = (value, digits = 0) =>
  value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const minus = (text) => text.replace("-", "−");
const significant = (value) => {
  const size = Math.abs(value);
  return grouped(value, size === 0 ? 0 : size < 10 ? 3 : size < 100 ? 2 : size < 1000 ? 1 : 0);
};
/** Digits of points: one more where a number, or the end of an interval, would look like none. */
const pointDigits = (value, ...ends) =>
  (Math.abs(value) >= 0.01 && !ends.some((end) => end && Math.abs(end) < 0.0005) ? 1 : 2);
const SPACE = "\u00a0"; // a number and its unit stay together
/** How a number of each unit is written. */
const FORMATS = {
  share: (value) => `${grouped(100 * value, 1)}${SPACE}%`,
  points: (value, ...ends) => (value > 0 ? "+" : "") + minus(grouped(100 * value, pointDigits(value, ...ends))),
  gap: (value) => minus(grouped(100 * value, pointDigits(value))),
  seconds: (value) => `${significant(value)}${SPACE}s`,
  milliseconds: (value) => `${significant(1000 * value)}${SPACE}ms`,
  number: (value) => significant(value),
  blocks: (value) => grouped(value),
  count: (value) => grouped(value),
  percent: (value) => `${grouped(value)}${SPACE}%`,
  factor: (value) => `${+value.toPrecision(4)}`,
  change: (value) => `${value > 0 ? "+" : ""}${minus(grouped(100 * value, 1))}${SPACE}%`,
};

/** How ticks are written: as many digits as their distance asks for. */
function tickText(format, ticks) {
  const factor = ["share", "points", "gap", "change"].includes(format) ? 100 : 1;
  const step = factor * Math.min(...ticks.slice(1).map((tick, i) => Math.abs(tick - ticks[i])), Infinity);
  const digits = Number.isFinite(step) && step > 0 ? Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) : 0;
  const unit = { share: " %", seconds: " s", milliseconds: " ms", percent: " %", change: " %" }[format] || "";
  return (tick) => {
    if (format === "milliseconds") return `${+(1000 * tick).toPrecision(3)} ms`;
    if (format === "seconds") return `${+tick.toPrecision(3)} s`;
    const sign = ["points", "change"].includes(format) && tick > 0 ? "+" : "";
    return `${sign}${minus(grouped(factor * tick, digits))}${unit}`;
  };
}

function bytes(size) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (size >= 1024 && at < units.length - 1) { size /= 1024; at += 1; }
  return `${+size.toPrecision(size >= 1000 ? 4 : 3)}${SPACE}${units[at]}`;
}

/** A number with its interval, where it has one. */
function written(format, value, low, high) {
  if (value == null) return "–";
  if (low == null || high == null) return FORMATS[format](value);
  const ends = [low, high].map((end) => (format === "points"
    ? minus(grouped(100 * end, pointDigits(value, low, high))) : FORMATS[format](end).split(SPACE)[0]));
  return `${FORMATS[format](value, low, high)} [${ends.join(", ")}]`;
}

// --- scales -------------------------------------------------------------------------------------

function scale(from, to, start, end, log) {
  const of = log ? Math.log2 : (value) => value;
  const low = of(from), span = of(to) - low || 1;
  return (value) => start + ((of(value) - low) / span) * (end - start);
}

/** Round numbers that cover a range, about `count` of them. */
function roundTicks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const ticks = [];
  for (let at = Math.floor(low / step); at * step < high + step * 0.999; at += 1) ticks.push(at * step);
  return ticks;
}

function powerTicks(low, high) {
  const ticks = [];
  for (let at = Math.floor(Math.log10(low)); at <= Math.ceil(Math.log10(high)); at += 1) ticks.push(10 ** at);
  return ticks;
}

/** Heights at least `step` apart and within [top, bottom], each near to the one it asks for. */
function spread(wanted, step, top, bottom) {
  const blocks = [];
  for (const height of wanted) {
    let start = Math.max(height, top), count = 1;
    while (blocks.length && blocks.at(-1).start + blocks.at(-1).count * step > start) {
      const before = blocks.pop();
      start = (before.start * before.count + (start - before.count * step) * count) / (before.count + count);
      count += before.count;
      start = Math.max(start, top);
    }
    blocks.push({ start, count });
  }
  const heights = blocks.flatMap(({ start, count }) => Array.from({ length: count }, (_, i) => start + i * step));
  return heights.map((height, i) => Math.min(height, bottom - (heights.length - 1 - i) * step));
}

// --- lines --------------------------------------------------------------------------------------

/**
 * Draws `chart` into `figure`, anew whenever its width changes.
 *
 * chart: {title, x, series: [{name, y, low, high, look}], xAxis, yAxis}; look is the class of a line, "rest" for
 * one that is there for context. An axis: {label, format, log, second}; `second` writes a second line under a tick.
 */
function drawLines(figure, chart, bands) {
  const picture = make("div", {
    tabindex: 0, role: "group", "aria-roledescription": "chart",
    "aria-label": `${chart.title}. Left and right arrow keys read values; the numbers follow as a table.`,
  });
  const readout = make("div", { class: "readout", role: "status" });
  figure.append(picture, readout);
  let at = null, cursor = () => {};
  const read = (index) => {
    at = index;
    readout.replaceChildren(...told(chart, index));
    cursor(index);
  };
  const clear = () => {
    at = null;
    readout.replaceChildren(make("span", {}, HINT));
    cursor(null);
  };
  picture.addEventListener("keydown", (event) => {
    const last = chart.x.length - 1;
    const to = {
      ArrowRight: at == null ? 0 : Math.min(at + 1, last), ArrowLeft: at == null ? last : Math.max(at - 1, 0),
      Home: 0, End: last,
    }[event.key];
    if (event.key === "Escape") clear();
    else if (to == null) return;
    else read(to);
    event.preventDefault();
  });
  const redraw = () => { cursor = lines(picture, chart, bands, read, clear); if (at != null) cursor(at); };
  watch(picture, redraw);
  clear();
}

/** Calls `redraw` now and when the width has changed. */
function watch(picture, redraw) {
  let width = 0;
  new ResizeObserver(() => {
    if (picture.clientWidth === width || !picture.isConnected) return;
    width = picture.clientWidth;
    redraw();
  }).observe(picture);
}

function lines(picture, chart, bands, read, clear) {
  const { x, series, xAxis, yAxis } = chart;
  const width = Math.max(picture.clientWidth, 280), height = Math.min(400, 220 + width / 5);
  const named = series.filter(({ look }) => look !== "rest");
  const longest = Math.max(0, ...named.map(({ name }) => name.length));
  const right = Math.min(24 + 7.2 * Math.min(longest, MOST), width * 0.4);
  const area = { left: 62, right: width - right, top: 34, bottom: height - (xAxis.second ? 58 : 44) };
  const values = series.flatMap(({ y, low, high, look }) => [
    ...y, ...(bands && look !== "rest" ? [...(low || []), ...(high || [])] : []),
  ]).filter((value) => value != null && Number.isFinite(value) && (!yAxis.log || value > 0));
  let low = Math.min(...values, ...(yAxis.log ? [] : [0])), high = Math.max(...values, ...(yAxis.log ? [] : [0]));
  if (!values.length) [low, high] = yAxis.log ? [1, 10] : [0, 1];
  const dips = low < 0 && -low < 0.15 * high; // below zero by too little for a tick of its own
  const ticks = yAxis.log ? powerTicks(low, high) : roundTicks(dips ? 0 : low, high || 1, 5);
  const write = tickText(yAxis.format, ticks);
  const xs = scale(x[0], x.at(-1), area.left, area.right, xAxis.log);
  const ys = scale(dips ? low : ticks[0], ticks.at(-1), area.bottom, area.top, yAxis.log);
  const place = x.length === 1 ? () => (area.left + area.right) / 2 : xs;
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  for (const tick of ticks) {
    const zero = tick === 0 && low < 0;
    svg.append(
      shape("line", { class: zero ? "zero" : "grid", x1: area.left, x2: area.right, y1: ys(tick), y2: ys(tick) }),
      shape("text", { x: area.left - 8, y: ys(tick) + 4, "text-anchor": "end" }, write(tick)),
    );
  }
  svg.append(...xTicks(chart, place, area));
  svg.append(
    middle({ class: "axis", x: (area.left + area.right) / 2, y: height - 4 }, xAxis.label),
    shape("text", { class: "axis", x: 0, y: 14 }, yAxis.label),
  );
  const order = [...series].sort((a, b) => (a.look === "rest" ? 0 : 1) - (b.look === "rest" ? 0 : 1));
  for (const one of order) svg.append(line(one, x, place, ys, yAxis, bands));
  svg.append(...names(named, x, place, ys, yAxis, area));
  const hair = shape("line", { class: "cursor", y1: area.top, y2: area.bottom, visibility: "hidden" });
  const dots = named.map(({ look }) => shape("circle", { class: `dot ${look}`, r: 4, visibility: "hidden" }));
  svg.append(hair, ...dots);
  svg.addEventListener("pointermove", (event) => {
    const mouse = event.clientX - svg.getBoundingClientRect().left;
    const near = x.map((value) => Math.abs(place(value) - mouse));
    read(near.indexOf(Math.min(...near)));
  });
  svg.addEventListener("pointerleave", clear);
  picture.replaceChildren(svg);
  return (index) => {
    const shown = index != null;
    hair.setAttribute("visibility", shown ? "visible" : "hidden");
    if (shown) for (const end of ["x1", "x2"]) hair.setAttribute(end, place(x[index]));
    dots.forEach((dot, i) => {
      const value = shown ? named[i].y[index] : null;
      const there = value != null && (!yAxis.log || value > 0);
      dot.setAttribute("visibility", there ? "visible" : "hidden");
      if (there) { dot.setAttribute("cx", place(x[index])); dot.setAttribute("cy", ys(value)); }
    });
  };
}

function xTicks({ x, xAxis }, place, area) {
  const every = xAxis.round ? roundTicks(x[0], x.at(-1), 6).filter((tick) => tick >= x[0] && tick <= x.at(-1)) : x;
  const marks = [];
  let last = -Infinity;
  every.forEach((value) => {
    const at = place(value);
    if (at - last < 58) return;
    last = at;
    marks.push(
      shape("line", { class: "zero", x1: at, x2: at, y1: area.bottom, y2: area.bottom + 4 }),
      middle({ x: at, y: area.bottom + 18 }, FORMATS[xAxis.format](value)),
    );
    if (xAxis.second) marks.push(middle({ x: at, y: area.bottom + 33 }, xAxis.second(value)));
  });
  return marks;
}

function line({ y, low, high, look }, x, place, ys, yAxis, bands) {
  const there = (value) => value != null && Number.isFinite(value) && (!yAxis.log || value > 0);
  const path = (values) => {
    let gap = true;
    return values.map((value, i) => {
      if (!there(value)) { gap = true; return ""; }
      const step = `${gap ? "M" : "L"}${place(x[i]).toFixed(1)} ${ys(value).toFixed(1)}`;
      gap = false;
      return step;
    }).join("");
  };
  const group = shape("g", { class: look });
  if (bands && low && high && look !== "rest" && low.every(there) && high.every(there)) {
    const back = [...high.keys()].reverse().map((i) => `L${place(x[i]).toFixed(1)} ${ys(high[i]).toFixed(1)}`);
    group.append(shape("path", { class: "band", d: `${path(low)}${back.join("")}Z` }));
  }
  group.append(shape("path", { class: "line", d: path(y) }));
  const few = x.length <= 24 && look !== "rest" && !["bound", "limit"].includes(look);
  y.forEach((value, i) => {
    if (!there(value) || !(few || x.length === 1)) return;
    group.append(shape("circle", { class: "dot", cx: place(x[i]), cy: ys(value), r: 3.5 }));
  });
  return group;
}

/** The names of lines at their ends, apart from each other, in the order of the ends. */
function names(named, x, place, ys, yAxis, area) {
  const most = ({ values }) => values.reduce((sum, value) => sum + (value ?? 0), 0);
  const ends = named.map((one) => {
    const last = one.y.findLastIndex((value) => value != null && (!yAxis.log || value > 0));
    return last < 0 ? null : { ...one, values: one.y, x: place(x[last]), y: ys(one.y[last]) };
  }).filter((end) => end != null).sort((a, b) => a.y - b.y || most(b) - most(a));
  const heights = spread(ends.map(({ y }) => y), LABEL_STEP, area.top, area.bottom);
  return ends.map((end, i) => shape("g", { class: end.look },
    shape("path", { class: "leader", d: `M${end.x + 5} ${end.y}L${area.right + 14} ${heights[i]}` }),
    shape("text", { class: "name", x: area.right + 18, y: heights[i] + 4 }, short(end.name)),
  ));
}

/** The readout at an x: what is named, most first, and how many others there are. */
function told({ x, series, xAxis, yAxis }, index) {
  const there = series.filter(({ y }) => y[index] != null).sort((a, b) => b.y[index] - a.y[index]);
  const named = there.filter(({ look }) => look !== "rest"), rest = there.length - named.length;
  const second = xAxis.second ? ` (${xAxis.second(x[index])})` : "";
  const where = `${xAxis.lead || ""}${FORMATS[xAxis.format](x[index])}${xAxis.unit || ""}${second}`;
  return [
    make("b", {}, where),
    ...named.map(({ name, y, low, high, look }) => make("span", { class: look }, make("i"),
      make("span", {}, `${name} ${written(yAxis.format, y[index], low?.[index], high?.[index])}`))),
    rest ? make("span", {}, `and ${rest} in grey`) : null,
  ].filter((part) => part != null);
}

// --- bars ---------------------------------------------------------------------------------------

/** A stacked bar for each category: {title, x: names, series: [{name, y}], yAxis}. */
function drawBars(figure, chart) {
  const { x, series, yAxis } = chart;
  const row = 24, left = 12 + 7.2 * Math.min(MOST, Math.max(...x.map((name) => name.length)));
  figure.append(make("ul", { class: "legend" }, series.map(({ name, y }, i) => y.some((value) => value > 0) &&
    make("li", {}, make("i", { class: `p${i % 6}` }), make("span", {}, name))).filter(Boolean)));
  const picture = make("div", { role: "img", "aria-label": `${chart.title}. The numbers follow as a table.` });
  figure.append(picture);
  const most = Math.max(...x.map((_, i) => series.reduce((sum, { y }) => sum + Math.max(y[i] || 0, 0), 0))) || 1;
  watch(picture, () => {
    const width = Math.max(picture.clientWidth, 280), span = width - left - 16;
    const svg = shape("svg", { width, height: x.length * row + 8, "aria-hidden": "true" });
    x.forEach((name, i) => {
      let from = left;
      svg.append(shape("text", { class: "axis", x: left - 8, y: i * row + 16, "text-anchor": "end" },
        short(name)));
      series.forEach(({ y }, part) => {
        const wide = (Math.max(y[i] || 0, 0) / most) * span;
        const size = { x: from, y: i * row + 3, width: Math.max(wide - 1, 0), height: row - 6 };
        const bar = shape("rect", { class: `p${part % 6}`, ...size });
        bar.append(shape("title", {}, `${name}, ${series[part].name}: ${written(yAxis.format, y[i])}`));
        svg.append(bar);
        from += wide;
      });
    });
    picture.replaceChildren(svg);
  });
}

// --- tables -------------------------------------------------------------------------------------

/** A table in `place` that is made when it is opened, and stays open. `rows()` are lists of text, the first of each
 *  its name. */
function numbers(place, caption, header, rows) {
  const details = make("details", { open: place.firstChild?.open }, make("summary", {}, "Numbers"));
  const fill = () => {
    if (details.open && details.children.length === 1) details.append(table(caption, header, rows()));
  };
  details.addEventListener("toggle", fill);
  fill();
  place.replaceChildren(details);
}

function table(caption, header, rows, open) {
  const look = open ? "scroll open" : "scroll";
  const scroll = make("div", { class: look, tabindex: 0, role: "region", "aria-label": caption });
  scroll.append(make("table", {},
    make("thead", {}, make("tr", {}, header.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, rows.map(([name, ...cells]) => make("tr", {}, make("th", { scope: "row" }, name),
      cells.map((cell) => make("td", {}, cell))))),
  ));
  return scroll;
}
