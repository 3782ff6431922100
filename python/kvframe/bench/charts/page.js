// The page: what is asked of its numbers, its sections, and what its reader has chosen.

const DATA = JSON.parse(document.getElementById("data").textContent);
const SLOTS = 8;
const state = {
  traffic: 0,
  named: new Set(DATA.named),
  slots: new Map(Object.entries(DATA.slots)),
  choices: {},
  tokenBytes: DATA.tokenBytes,
  gib: null,
  bands: true,
  pair: null,
};
const redraws = [];
const refresh = () => redraws.forEach((redraw) => redraw());

const traffic = () => DATA.traffic[state.traffic];
const blockBytes = (size = traffic()?.blockSize) => state.tokenBytes * (size || 0);

function look(name) {
  if (!state.named.has(name)) return "rest";
  return DATA.roles[name] || `s${state.slots.get(name)}`;
}

function toggle(name) {
  if (state.named.delete(name)) return refresh();
  if (!DATA.roles[name] && !state.slots.has(name)) {
    const taken = new Set([...state.named].map((other) => state.slots.get(other)));
    const free = [...Array(SLOTS).keys()].find((slot) => !taken.has(slot));
    state.slots.set(name, free ?? state.slots.size % SLOTS);
  }
  state.named.add(name);
  refresh();
}

// --- parts --------------------------------------------------------------------------------------

function select(label, options, chosen, changed) {
  const box = make("select", { onchange: (event) => changed(Number(event.target.value)) },
    options.map((text, i) => make("option", { value: i, selected: i === chosen }, text)));
  return make("label", {}, label, box);
}

function tick(label, checked, changed) {
  const box = make("input", { type: "checkbox", checked, onchange: (event) => changed(event.target.checked) });
  return make("label", { class: "tick" }, box, label);
}

function section(id, heading, note, link) {
  const made = make("section", { id, "aria-labelledby": `${id}-h` }, make("h2", { id: `${id}-h` }, heading));
  if (note) made.append(make("p", { class: "note" }, note));
  document.getElementById("main").append(made);
  document.getElementById("contents").append(make("li", {}, make("a", { href: `#${id}` }, link || heading)));
  return made;
}

const places = (blockSize) => ({ label: "cache size, blocks (log scale)", format: "blocks", log: true, unit: " blocks",
  second: (size) => bytes(size * blockBytes(blockSize)) });

// --- the answer ---------------------------------------------------------------------------------

const asked = []; // what depends on the size that is asked for
const bold = (parts) => parts.map((part, i) => (i % 2 ? make("b", {}, part) : part));

function answer() {
  const host = section("answer", "Which policy, for how large a cache?", "", "Answer");
  const controls = make("div", { class: "controls" });
  const said = make("p", { class: "said", role: "status" });
  const tiles = make("ul", { class: "tiles" });
  const doubt = make("p", { class: "note" });
  host.append(controls, said, tiles, doubt);
  const size = make("input", { type: "number", min: 0, step: "any", id: "gib" });
  size.addEventListener("input", () => { state.gib = Number(size.value); reply(); asked.forEach((ask) => ask()); });
  const custom = make("input", { type: "number", min: 1, step: "any" });
  custom.addEventListener("input", () => {
    if (!(Number(custom.value) > 0)) return;
    state.tokenBytes = Number(custom.value) * 1024;
    refresh();
  });
  const customLabel = make("label", {}, "KiB a token", custom);
  const known = DATA.shapes.findIndex(({ bytes: each }) => each === state.tokenBytes);
  const shapes = [...DATA.shapes.map(({ name, bytes: each }) => `${name}, ${bytes(each)}`), "another"];
  const model = select("KV of one token", shapes, known < 0 ? shapes.length - 1 : known, (chosen) => {
    const one = DATA.shapes[chosen];
    customLabel.hidden = one != null;
    if (one) state.tokenBytes = one.bytes;
    custom.value = state.tokenBytes / 1024;
    refresh();
  });
  customLabel.hidden = known >= 0;
  custom.value = state.tokenBytes / 1024;
  if (DATA.traffic.length > 1) {
    controls.append(select("Traffic", DATA.traffic.map(({ label }) => label), 0, (chosen) => {
      state.traffic = chosen;
      state.gib = null;
      refresh();
    }));
  }
  controls.append(make("label", {}, "Cache, GiB", size), model, customLabel);

  function reply() {
    const one = traffic();
    const blocks = snapped(one.sizes, (state.gib * GIB) / blockBytes());
    const found = bestAt(one, blocks);
    const where = named(state.gib);
    tiles.replaceChildren();
    if (found.outside) {
      const [low, high] = [one.sizes[0], one.sizes.at(-1)].map((each) => bytes(each * blockBytes()));
      said.replaceChildren(`${where} was not measured: these results go from ${low} to ${high}.`);
      doubt.textContent = `--capacity "${where}" with --model-shape measures it.`;
      return;
    }
    said.replaceChildren(...bold(sentenceOf(one, found, where)));
    const tile = (name, rate) => {
      if (rate == null) return;
      tiles.append(make("li", {}, make("span", {}, name), make("strong", {}, FORMATS.share(rate))));
    };
    tile(`hit by ${found.best}`, found.rate);
    if (found.best !== "lru") tile("hit by lru", found.baseline);
    tile("the optimum", found.optimum);
    const size = `${grouped(Math.round(blocks))} blocks of ${one.blockSize} tokens`;
    doubt.textContent = [
      `${where} is ${size}${found.exact ? "." : ": between sizes that were measured, so estimated."}`,
      DATA.assumed && state.tokenBytes === DATA.tokenBytes && "The results do not name a model: its KV is assumed.",
      "Hit: the share of prompt tokens found in the cache; a point is 1 % of them.",
      "Not told apart: the difference may be chance.",
      one.doubt && `${one.doubt}.`,
    ].filter(Boolean).join(" ");
  }
  redraws.push(() => {
    if (state.gib == null) {
      const middle = traffic().widest ?? traffic().sizes[Math.floor(traffic().sizes.length / 2)];
      state.gib = +((middle * blockBytes()) / GIB).toPrecision(4);
    }
    size.value = state.gib;
    reply();
  });
  sizesTable(host);
  hostQuestion(host);
}

const apart = (equals, count) => (equals.length === count - 1 ? "all others" : list(equals, 3) || "–");

/** The best policy of each size that was measured. */
function sizesTable(host) {
  const place = make("div", {});
  host.append(place);
  const draw = () => {
    const one = traffic();
    const rows = one.sizes.map((size) => {
      const found = bestAt(one, size);
      const lead = found.lead ? inPoints(found.lead) : "–";
      const cells = [grouped(size), found.best, FORMATS.share(found.rate), lead,
        found.optimum == null ? "–" : FORMATS.share(found.optimum), apart(found.equals, one.policies.length)];
      return [bytes(size * blockBytes()), ...cells];
    });
    const header = ["cache", "blocks", "hits most", "hit", "points over lru", "optimum", "not told apart"];
    const made = table("The best policy of each size", header, rows, true);
    const at = one.sizes.indexOf(snapped(one.sizes, (state.gib * GIB) / blockBytes()));
    if (at >= 0) made.querySelectorAll("tbody tr")[at].className = "at";
    place.replaceChildren(made);
  };
  redraws.push(draw);
  asked.push(draw);
}

const HOST = [["host", "Host tier, GiB", null], ["link", "Link, GB/s", 50], ["prefill", "Prefill, tokens/s", 20000]];

/** Whether memory of the host would pay: what a simulation said, else what replays let expect. */
function hostQuestion(host) {
  const place = make("div", { class: "host" }, make("h3", {}, "Does a host tier pay?"));
  host.append(place);
  if (DATA.host.length) {
    const pays = DATA.host.filter((sentence) => sentence.includes(" pays under ")).length;
    const answer = pays === DATA.host.length ? "Yes" : pays ? "Sometimes" : "No";
    place.append(make("p", { class: "said" }, `${answer}: in ${pays} of ${DATA.host.length} simulated servers.`));
    place.append(...DATA.host.map((sentence) => make("p", {}, sentence.replaceAll("->", "→"))));
    return;
  }
  const controls = make("div", { class: "controls" }), said = make("p", { role: "status" });
  const note = make("p", { class: "note" });
  const given = {};
  let edited = false; // until then the tier is four times the pool
  for (const [key, label, value] of HOST) {
    given[key] = make("input", { type: "number", min: 0, step: "any", value });
    given[key].addEventListener("input", () => { edited ||= key === "host"; reply(); });
    controls.append(make("label", {}, label, given[key]));
  }
  place.append(controls, said, note);
  function reply() {
    const one = traffic();
    if (!edited) given.host.value = +(4 * state.gib).toPrecision(3);
    const [more, link, prefill] = ["host", "link", "prefill"].map((key) => Number(given[key].value));
    const blocks = (size) => (size * GIB) / blockBytes();
    const pool = snapped(one.sizes, blocks(state.gib));
    const found = bestAt(one, Math.min(Math.max(pool, one.sizes[0]), one.sizes.at(-1)));
    const name = found.lead?.low <= 0 ? "lru" : found.best;
    const tier = link > 0 && prefill > 0
      ? hostTier(one, name, pool, blocks(more), state.tokenBytes, link * 1e9, prefill) : null;
    said.replaceChildren(...(tier != null ? bold(hostSentence(tier, name, named(state.gib), named(more)))
      : ["These results do not reach to such a size."]));
    note.textContent = "Estimated from replays, as if the pool were that much larger under the same policy. Link and "
      + "prefill are assumed, so put in yours. Nothing waits for the link here, and each block lies in one of the two.";
  }
  redraws.push(reply);
  asked.push(reply);
}

// --- policies -----------------------------------------------------------------------------------

function policies() {
  const host = section("policies", "Policies in colour", DATA.policies.length > DATA.named.length
    ? "The best few are named, the others are grey. Press a name to change that." : "Press a name to make it grey.");
  const chips = make("div", { class: "chips", role: "group", "aria-label": "Policies in colour" });
  host.append(chips);
  const buttons = DATA.policies.map((name) => make("button", { type: "button", onclick: () => toggle(name) },
    make("i"), make("span", {}, name)));
  chips.append(...buttons);
  redraws.push(() => buttons.forEach((button, i) => {
    const name = DATA.policies[i];
    button.className = look(name);
    button.setAttribute("aria-pressed", state.named.has(name));
  }));
}

// --- charts -------------------------------------------------------------------------------------

const CHOICES = { size: "cache size, blocks" };

/** A section of charts of one family: a select for each thing in which they differ, then the one chosen. */
function family(id) {
  const { link, heading, note } = DATA.families[id];
  const host = section(id, heading, note, link);
  const controls = make("div", { class: "controls" }), figure = make("figure", {}), below = make("div", {});
  host.append(controls, figure, below);
  const mine = () => DATA.charts.filter((chart) =>
    chart.family === id && (chart.traffic == null || chart.traffic === state.traffic));
  const chosen = {};
  redraws.push(() => {
    const charts = mine();
    host.hidden = !charts.length;
    if (!charts.length) return;
    const usual = traffic()?.widest ? String(traffic().widest) : null; // the size that says most
    let left = charts;
    const boxes = [];
    const done = new Set();
    for (;;) {
      const key = Object.keys(left[0].choice).find((one) => !done.has(one)); // they differ within a family
      if (key == null) break;
      done.add(key);
      const values = [...new Set(left.map((chart) => chart.choice[key]))];
      if (!values.includes(chosen[key])) chosen[key] = values.includes(usual) ? usual : values[0];
      left = left.filter((chart) => chart.choice[key] === chosen[key]);
      if (values.length > 1) {
        const at = boxes.length;
        const shown = key === "size" ? values.map((size) => grouped(Number(size))) : values;
        boxes.push(select(CHOICES[key] || key, shown, values.indexOf(chosen[key]), (to) => {
          chosen[key] = values[to];
          refresh();
          controls.querySelectorAll("select")[at]?.focus();
        }));
      }
    }
    const chart = left[0];
    const hasBands = chart.series.some(({ low }) => low?.length);
    if (hasBands) {
      boxes.push(tick("intervals", state.bands, (on) => {
        state.bands = on;
        refresh();
        controls.querySelector("input").focus();
      }));
    }
    controls.replaceChildren(...boxes);
    figure.replaceChildren();
    if (chart.form === "bars") drawBars(figure, chart);
    else drawLines(figure, looked(chart), state.bands);
    for (const sentence of chart.said || []) figure.append(make("p", { class: "told" }, sentence));
    if (chart.note) figure.append(make("figcaption", {}, chart.note));
    numbers(below, chart.title, ...chartTable(chart));
  });
}

function looked(chart) {
  const xAxis = chart.xAxis.format === "blocks" ? places(chart.blockSize) : chart.xAxis;
  const series = chart.series.map((one) => ({ ...one, look: look(one.name),
    low: one.low?.length ? one.low : null, high: one.high?.length ? one.high : null }));
  return { ...chart, xAxis, series };
}

/** Header and rows of the numbers of a chart. Policies go down where there are few columns, else across. */
function chartTable(chart) {
  const { x, series, xAxis, yAxis } = chart;
  const at = (one, i) => written(yAxis.format, one.y[i], one.low?.[i], one.high?.[i]);
  const place = (value) => (typeof value === "string" ? value : FORMATS[xAxis.format](value));
  if (chart.form !== "bars" && x.length <= 24) {
    const header = [`${xAxis.label.replace(" (log scale)", "")}:`, ...x.map(place)];
    return [header, () => series.map((one) => [one.name, ...x.map((_, i) => at(one, i))])];
  }
  const header = [xAxis.label, ...series.map(({ name }) => name)];
  return [header, () => x.map((value, i) => [place(value), ...series.map((one) => at(one, i))])];
}

// --- the rest -----------------------------------------------------------------------------------

function theme() {
  const button = document.getElementById("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const apply = () => {
    const now = chosen ?? (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = now;
    button.setAttribute("aria-pressed", now === "dark");
  };
  button.addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    apply();
  });
  dark.addEventListener("change", apply);
  apply();
}

function start() {
  theme();
  redraws.push(() => { document.getElementById("from").textContent = traffic()?.from ?? DATA.from; });
  if (DATA.traffic.length) answer();
  policies();
  if (DATA.traffic.length) {
    family("hits");
    compare();
  }
  for (const id of Object.keys(DATA.families)) if (id !== "hits") family(id);
  document.getElementById("footer").append(...DATA.notes.map((note) => make("p", {}, note)));
  refresh();
}

start();
