"""README's three tables: hit rates beside the best rival, speed beside peers, memory.

``python -m perf.readme`` writes them. Hit rates are replayed, which takes about ten seconds; speed
and memory are read from the newest records of perf/results in which a peer was measured.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from kvframe.bench.study import PolicyDifference, Study
from kvframe.policies.builtin import BUILTIN
from perf.results import Record, last_record, records
from perf.table import short, table

PAGE = Path(__file__).parents[1] / "README.md"
OURS, BASELINE, OPTIMUM = "foresight", "lru", "opt"
SIZES = {
    "conversation": (2_000, 8_000, 32_000),
    "synthetic": (1_000, 4_000, 16_000),
    "agent": (2_000, 8_000, 32_000),
}
"""Capacities by trace: short, middling, and nearly enough."""

BEGIN, END = "<!-- {} written by: python -m perf.readme -->\n", "<!-- to here -->"
BUSY = 2
"""A load average of more than so many a core is other work, and is marked."""

# --- hit rates ------------------------------------------------------------------------------------


def rival(trace: str) -> str:
    """The built-in policy, but for ours, that hits most on the mean of the sizes shown."""
    online = {policy.name for policy in BUILTIN if not policy.replay_only} - {OURS}
    sums: dict[str, float] = defaultdict(float)
    for row in last_record("zoo")["rows"]:
        if row["trace"] == trace and row["policy"] in online and row["capacity"] in SIZES[trace]:
            sums[row["policy"]] += row["hit"]
    return max(sums, key=sums.__getitem__)


def hits() -> str:
    """Token hit rates, and by how much ours is ahead."""
    rows = [row for trace in SIZES for row in _hits(trace)]
    head = ["trace", "blocks", "lru", "best rival", OURS, OPTIMUM, "over lru", "over the rival"]
    return table(head, rows)


def _hits(trace: str) -> Iterator[Sequence[str]]:
    other, sizes = rival(trace), SIZES[trace]
    names = list(dict.fromkeys([BASELINE, other, OURS, OPTIMUM]))
    study = Study.run(traces=trace, policies=names, capacities=[str(size) for size in sizes])
    rates = {(cell.policy, cell.capacity_blocks): cell.token_hit_rate for cell in study.cells}
    ahead = {
        base: {row.capacity_blocks: row for row in study.compare(OURS, base)}
        for base in (BASELINE, other)
    }
    for size in sizes:
        lru, best, ours, opt = (
            f"{100 * rates[name, size]:.1f}" for name in (BASELINE, other, OURS, OPTIMUM)
        )
        leads = [_lead(ahead[base][size]) for base in (BASELINE, other)]
        yield [trace, f"{size:,}", lru, f"{best} (`{other}`)", ours, opt, *leads]


def _lead(lead: PolicyDifference) -> str:
    return f"{100 * lead.difference:+.2f} [{100 * lead.low:.2f}, {100 * lead.high:.2f}]"


# --- speed and memory -----------------------------------------------------------------------------

CORE = {
    "get_free_64": "take 64 free blocks and give them back, µs",
    "get_free_64_evicting": "take 64 blocks, each of which has to be evicted (lru), µs",
    "admit_commit_free_sha256": "hash, admit, commit and end a prompt of 2,048 to 8,192 tokens, µs",
    "decode_step_256": "a decode step of 256 sequences, µs",
    "match_32k_1": "match a cached prompt of 32,768 tokens in the radix index, µs",
    "evict_one_64k": "evict one of 64,000 leaves of the radix index, µs",
}
FEW, MANY = "8 workers, 256,000 blocks", "100 workers x 100,000 blocks"
INDEXERS = {
    f"{FEW}: match": "router: match 64 blocks, 8 workers, µs",
    f"{MANY}: match": "router: match 64 blocks, 100 workers with 100,000 blocks each, µs",
    f"{MANY}: ingest": "router: take in their events, million blocks a second",
}
SERVED = "conversation", 0.5
"""The trace and the load at which simulated servers are compared."""

SIMULATED = "simulate a server, conversation at half its load, step by step, requests a second"


def beside(work: str) -> tuple[Record, Record]:
    """The newest record of `perf.core` that has this beside a peer, not kvframe; and its row."""
    for found in records("core"):
        for row in found["rows"]:
            peer = row.get("peer")
            if row["work"] == work and peer and not peer.startswith("kvframe"):
                return found, row
    raise LookupError(f"{work}: no record has it beside a peer")


def _row(
    what: str, ours: float, peer: str, theirs: float, found: Record, *, more: bool = False
) -> Sequence[str]:
    """One row; ``more`` where more is better."""
    ratio = ours / theirs if more else theirs / ours
    busy = found["load_average"][0] > BUSY * found["machine"]["cores"]
    day = found["date"][:10] + (" †" if busy else "")
    return [what, short(ours), peer, short(theirs), short(ratio), day]


def _core(work: str, what: str) -> Sequence[str]:
    found, row = beside(work)
    peer = row["peer"].replace("vllm", "vLLM")
    if peer.startswith("SGLang"):
        peer += ", its Rust core"
    return _row(what, row["kvframe"], peer, row["peer_value"], found)


def _indexers(work: str, what: str, side: str, called: str) -> Sequence[str]:
    found = last_record("indexers")
    row = next(row for row in found["rows"] if row["work"] == work)
    peer = f"{found['versions']['peers'][0]}, {called}"
    return _row(what, row["kvframe"], peer, row[side], found, more=work.endswith("ingest"))


def _replayed(policy: str) -> Sequence[str]:
    found = last_record("replay")
    rows = (row for row in found["rows"] if row["policy"] == policy)
    whole = next(row for row in rows if row["capacity_blocks"] is None)
    what = f"replay of the agent trace under {policy}, million block accesses a second"
    peer = found["versions"]["peers"][0]
    return _row(what, whole["kvframe"], peer, whole["peer"], found, more=True)


def _served(figure: str, peer_figure: str, what: str, *, more: bool) -> Sequence[str]:
    found = last_record("aisimulate")
    row = next(row for row in found["rows"] if (row["trace"], row["load"]) == SERVED)
    peer = re.sub(r"\.dev\d+$", ".dev", found["versions"]["peers"][0])
    return _row(what, row[figure], peer, row[peer_figure], found, more=more)


def speed() -> str:
    """Times and rates beside peers, each measured in one run."""
    rows = [
        *(_core(work, what) for work, what in CORE.items()),
        *(
            _indexers(work, what, "compressed", "its concurrent tree")
            for work, what in INDEXERS.items()
        ),
        *map(_replayed, ("lru", "opt")),
        _served("every_step", "peer_requests_a_second", SIMULATED, more=True),
    ]
    return table(["what was measured", "kvframe", "peer", "its", "times better", "on"], rows)


def memory() -> str:
    """Bytes beside peers."""
    tree = "RadixTree", "its RadixTree"
    rows = [
        _core("bytes_per_block", "a cached block of the manager, bytes"),
        _indexers(f"{FEW}: bytes a block", "a block in the router, 8 workers, bytes", *tree),
        _indexers(f"{MANY}: bytes a block", "a block in the router, 100 workers, bytes", *tree),
        _served("peak_mib", "peer_peak_mib", "a simulated server, MiB at most", more=False),
    ]
    return table(["memory of", "kvframe", "peer", "its", "times less", "on"], rows)


# --- the page -------------------------------------------------------------------------------------

TABLES = {"hits": hits, "speed": speed, "memory": memory}


def shown(name: str, text: str) -> str:
    """The table of that name that a page has now."""
    return text.split(BEGIN.format(name), 1)[1].split(END, 1)[0].strip()


def main() -> None:
    """Write the tables."""
    text = PAGE.read_text("utf-8")
    for name, made in TABLES.items():
        begin = BEGIN.format(name)
        before, rest = text.split(begin, 1)
        text = f"{before}{begin}\n{made()}\n\n{END}{rest.split(END, 1)[1]}"
    PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
