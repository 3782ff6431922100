// The two questions that are put to the numbers here: the best policy of a cache size, and two policies compared.

const GIB = 2 ** 30;

/** The place of the pair (one, other), one < other, among all pairs of `count`. */
const pairAt = (one, other, count) => one * count - (one * (one + 1)) / 2 + other - one - 1;

/** How far `a` is ahead of `b` at the size number `at`: {difference, low, high}, shares; the mean where `at` is
 *  the number of sizes. No interval where the requests were not kept. */
function ahead(traffic, a, b, at) {
  const { policies, rates, errors, reach } = traffic;
  const one = policies.indexOf(a), other = policies.indexOf(b);
  const sizes = traffic.sizes.length;
  const mean = (row) => row.reduce((sum, value) => sum + value, 0) / sizes;
  const of = (row) => (at === sizes ? mean(row) : row[at]);
  const difference = of(rates[one]) - of(rates[other]);
  if (!errors) return { difference };
  const error = one === other ? 0 : errors[at][pairAt(Math.min(one, other), Math.max(one, other), policies.length)];
  return { difference, low: difference - reach * error, high: difference + reach * error };
}

const isReal = ({ low, high }) => low > 0 || high < 0;

/** `values` at so many blocks, between measured sizes along the logarithm of the size. */
function between(sizes, values, blocks) {
  const next = sizes.findIndex((size) => size >= blocks);
  if (sizes[next] === blocks || next === 0) return values[next];
  const part = Math.log(blocks / sizes[next - 1]) / Math.log(sizes[next] / sizes[next - 1]);
  return values[next - 1] + part * (values[next] - values[next - 1]);
}

/** The size that was measured, where so many blocks are next to it: GiB are written with few digits. */
const snapped = (sizes, blocks) => sizes.find((size) => Math.abs(size / blocks - 1) < 0.005) ?? blocks;

/** A size as it was asked for, in GiB. */
const named = (gib) => (gib >= 1 ? `${+gib.toPrecision(4)}${SPACE}GiB` : bytes(gib * GIB));

/** The best policy at a number of blocks, or why there is none: {best, rate, baseline, optimum, equals, exact}. */
function bestAt(traffic, blocks) {
  const { sizes, policies, rates, references } = traffic;
  if (blocks < sizes[0] || blocks > sizes.at(-1)) return { outside: true };
  const found = policies.map((name, i) => ({ name, rate: between(sizes, rates[i], blocks) }));
  const most = Math.max(...found.map(({ rate }) => rate));
  const tops = found.filter(({ rate }) => rate === most);
  const best = tops.find(({ name }) => name === "lru") || tops[0];
  const gap = sizes.map((size) => Math.abs(Math.log(size / blocks)));
  const nearest = gap.indexOf(Math.min(...gap));
  const against = (name) => ahead(traffic, best.name, name, nearest);
  const equals = traffic.errors
    ? policies.filter((name) => name !== best.name && !isReal(against(name))) : [];
  const optimum = references.opt ? between(sizes, references.opt, blocks) : null;
  const baseline = policies.includes("lru") ? found[policies.indexOf("lru")].rate : null;
  return { best: best.name, rate: best.rate, baseline, optimum, equals, nearest, exact: sizes.includes(blocks),
    lead: baseline == null || best.name === "lru" ? null : against("lru") };
}

/** "a, b and c"; of many, how many. */
function list(names, most = 6) {
  if (names.length > most) return `${names.length} others`;
  return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names.join("");
}

/** "+2.1 points over lru [1.7, 2.6]": a difference in points, with words before its interval. */
const inPoints = (row, words = "") => `${FORMATS.points(row.difference, row.low, row.high)}${words}${interval(row)}`;

function interval({ difference, low, high }) {
  if (low == null) return "";
  const ends = [low, high].map((end) => minus(grouped(100 * end, pointDigits(difference, low, high))));
  return ` [${ends.join(", ")}]`;
}

/** The answer in words, as parts: [text, strong text, …]. */
function sentenceOf(traffic, found, where) {
  const { best, lead, equals } = found;
  if (traffic.policies.length < 2) return [`At ${where}, `, best, " alone was tried."];
  if (best === "lru") {
    const near = equals.length ? ` ${list(equals)} ${equals.length > 1 ? "are" : "is"} not told apart from it.` : "";
    return [`At ${where}, `, "lru", ` would do: none of ${traffic.policies.length} policies hits more.${near}`];
  }
  if (lead && lead.low != null && !isReal(lead)) {
    const by = `${FORMATS.gap(lead.difference)} points${interval(lead)}`;
    return [`At ${where}, `, "lru", " would do: ", best, ` leads by ${by}, which may be chance.`];
  }
  const near = equals.filter((name) => name !== best);
  const also = near.length ? ` ${list(near)} ${near.length > 1 ? "are" : "is"} not told apart from it.` : "";
  const by = lead ? `: ${inPoints(lead, " points over lru")}` : "";
  return [`At ${where}, `, best, ` hits most${by}.${also}`];
}

/** What a host tier beside the pool would save: as if the pool were that much larger under the same policy, and what
 *  that adds came over a link. {from, to, bound, load, compute, saved}: shares of prompt tokens, whether `to` is what
 *  no size exceeds, seconds a token, share of prefill. */
function hostTier(traffic, name, pool, host, tokenBytes, link, prefill) {
  const { sizes, policies, rates, references } = traffic;
  pool = snapped(sizes, pool);
  if (pool < sizes[0] || pool > sizes.at(-1)) return null;
  const row = rates[policies.indexOf(name)];
  const from = between(sizes, row, pool);
  const both = pool + host;
  const most = references.infinite ? references.infinite[0] : null;
  if (both > sizes.at(-1) && most == null) return null;
  const to = both > sizes.at(-1) ? most : between(sizes, row, both);
  const load = tokenBytes / link, compute = 1 / prefill;
  return { from, to, bound: both > sizes.at(-1), load, compute, saved: Math.max(0, to - from) * (1 - load / compute) };
}

/** The same in words. */
function hostSentence({ from, to, bound, load, compute, saved }, name, pool, host) {
  const micro = (seconds) => `${+(1e6 * seconds).toPrecision(3)}${SPACE}µs`;
  const cost = `A token comes back in ${micro(load)} and is computed in ${micro(compute)}`;
  const about = bound ? "at most" : "about";
  const rise = `from ${FORMATS.share(from)} to ${about} ${FORMATS.share(to)} of prompt tokens`;
  const lift = `Beside ${pool}, ${host} of host memory would lift what ${name} hits ${rise}.`;
  if (load >= compute) return ["", "It would not pay. ", `${cost}: whatever it holds is computed as fast.`];
  if (saved < 0.01) {
    return ["", "It would hardly pay. ", `${lift} ${cost}: that saves ${about} ${FORMATS.share(saved)} of prefill.`];
  }
  const saves = `${lift} ${cost}: that saves ${about} ${FORMATS.share(saved)} of prefill.`;
  if (bound) return ["", "It could pay. ", `${saves} So much memory was not replayed: this is what no size exceeds.`];
  return ["", "It would pay. ", saves];
}
