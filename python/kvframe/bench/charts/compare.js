// Two policies, picked by the reader: how far one is ahead of the other, by size.

const COMPARED = "The same requests under both, resampled together. The intervals hold for every pair and size at "
  + "once, so any pair may be looked at.";

function compare() {
  const host = section("compare", "Two policies compared", COMPARED);
  const controls = make("div", { class: "controls" }), said = make("p", { role: "status" });
  const figure = make("figure", {}), below = make("div", {});
  host.append(controls, said, figure, below);
  const pick = (label, which) => {
    const names = traffic().policies;
    return select(label, names, names.indexOf(state.pair[which]), (at) => {
      state.pair[which] = names[at];
      refresh();
      controls.querySelectorAll("select")[which].focus();
    });
  };
  const swap = () => {
    state.pair.reverse();
    refresh();
    controls.querySelector("button").focus();
  };
  redraws.push(() => {
    const one = traffic();
    host.hidden = one.policies.length < 2;
    if (host.hidden) return;
    if (!state.pair?.every((name) => one.policies.includes(name))) state.pair = firstPair(one);
    controls.replaceChildren(pick("Policy", 0), pick("against", 1),
      make("button", { type: "button", onclick: swap }, "Swap"));
    const [a, b] = state.pair;
    const rows = one.sizes.map((_, at) => ahead(one, a, b, at));
    said.textContent = comparison(one, rows, ahead(one, a, b, one.sizes.length));
    const chart = {
      title: `${a} less ${b}, points of the token hit rate`,
      x: one.sizes,
      series: [{
        name: `${a} − ${b}`,
        look: look(a) === "rest" ? "baseline" : look(a),
        y: rows.map(({ difference }) => difference),
        low: one.errors && rows.map(({ low }) => low),
        high: one.errors && rows.map(({ high }) => high),
      }],
      xAxis: places(one.blockSize),
      yAxis: { label: "points", format: "points" },
    };
    figure.replaceChildren();
    drawLines(figure, chart, true);
    const rate = (name, at) => FORMATS.share(one.rates[one.policies.indexOf(name)][at]);
    const real = (row) => (one.errors ? (isReal(row) ? "yes" : "no") : "?");
    numbers(below, chart.title, ["cache", "blocks", a, b, "difference, points", "real"], () =>
      one.sizes.map((size, at) => [bytes(size * blockBytes()), grouped(size), rate(a, at), rate(b, at),
        inPoints(rows[at]), real(rows[at])]));
  });
}

/** What hits most on the mean of the sizes, besides lru, and lru. */
function firstPair({ policies, rates }) {
  const sums = rates.map((row, at) => (policies[at] === "lru" ? -1 : row.reduce((sum, rate) => sum + rate, 0)));
  const first = policies[sums.indexOf(Math.max(...sums))];
  return [first, policies.includes("lru") ? "lru" : policies.find((name) => name !== first)];
}

function comparison(one, rows, mean) {
  const [a, b] = state.pair;
  const where = one.sizes.length > 1 ? ` on the mean of ${one.sizes.length} sizes` : "";
  const told = `${a} less ${b}: ${inPoints(mean, " points")}${where}`;
  if (!one.errors) return `${told}. The results keep no requests, so there is no interval.`;
  const at = (word, test) => {
    const count = rows.filter(test).length;
    return count && `${word} at ${count} of ${rows.length} size${rows.length > 1 ? "s" : ""}`;
  };
  const parts = [at("better", ({ low }) => low > 0), at("worse", ({ high }) => high < 0)].filter(Boolean);
  return `${told}; ${parts.length ? `${a} is ${parts.join(" and ")}` : "not told apart at any size"}.`;
}
