"""``python -m perf.zoo``: every installed policy on every shipped trace; docs/reference/zoo.md.

What ``kvframe bench run --policy all`` measures, a run a trace and mode, put on one page. With
``--libcachesim PYTHON`` (one that imports it) its policies run on the same block accesses, and
kvframe's of the same names on them as single blocks that follow none: what lies between the three
columns is then a rule of its policy or the rule of leaves, one at a time. Without it that part of
the last record is kept.

``--policy lru,mine`` measures only these anew and keeps the other rows of the last record.
``--page`` writes the page from that record, without running anything.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from kvframe import _core
from kvframe.bench.job import Job, Request
from kvframe.bench.policies import expand
from kvframe.bench.remarks import alike
from kvframe.bench.traces import load
from kvframe.policies.builtin import BUILTIN
from kvframe.registry import Registry
from perf.cells import CAPACITIES
from perf.peers import Peer
from perf.results import last_record, save, warn_debug
from perf.zoo_page import BLOCKS, OPTION, SAVED, page

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "zoo.md"

LIBCACHESIM: dict[str, str] = {
    "lru": "LRU",
    "fifo": "FIFO",
    "lfu": "LFU",
    "lfuda": "LFUDA",
    "clock": "Clock",
    "sieve": "Sieve",
    "2q": "TwoQ",
    "arc": "ARC",
    "mq": "MQ",
    "s3-fifo": "S3FIFO",
    "slru-lists": "SLRU",
    "lirs": "LIRS",
    "w-tinylfu": "WTinyLFU",
    "lecar": "LeCaR",
    "gdsf": "GDSF",
    "opt-forced": "Belady",
}
"""Policies that libcachesim has, too, and what it calls them."""

OPTIONS = {"gdsf": {"attention_blocks": 2**32 - 1}}
"""Blocks that all cost the same, as they do there."""


class Measured(NamedTuple):
    """Cells of a trace, and pairs of policies that evicted the same blocks in all of them."""

    rows: list[dict[str, Any]]
    same: list[list[str]]


def zoo(trace: str, capacities: tuple[int, ...], policies: Sequence[str], mode: str) -> Measured:
    """The cells of ``kvframe bench run`` with these policies."""
    job = Job(
        Request(
            traces=(trace,),
            policies=policies,
            capacities=tuple(map(str, capacities)),
            modes=(mode,),
            quiet=True,
        )
    )
    print(f"{trace}: {len(job.plans)} cells", file=sys.stderr)
    outcome = job.run(())
    rows = [
        {
            "trace": cell.trace,
            "policy": cell.policy,
            "capacity": cell.capacity_blocks,
            "hit": round(cell.token_hit_rate, 6),
            "hit_last_half": round(
                cell.hit_tokens_last_half / max(cell.input_tokens_last_half, 1), 6
            ),
            "gap_closed": cell.gap_closed and round(cell.gap_closed, 4),
            **{name: rounded(cell.metrics[metric]) for name, metric in SAVED.items()},
        }
        for cell in outcome.cells.values()
    ]
    plain = {plan: cell for plan, cell in outcome.cells.items() if ":" not in plan.label}
    return Measured(rows, [[trace, *pair] for pair in alike(plain, outcome.requests)])


def rounded(share: float | None) -> float | None:
    """In the digits of the record."""
    return None if share is None else round(share, 6)


def with_costs(policies: Iterable[str]) -> list[str]:
    """Each policy; one that weighs work also with the work of each objective."""
    known = {policy.name: policy.options for policy in BUILTIN}
    found = []
    for name in policies:
        options = known.get(name)
        found.append(name)
        if options is not None and OPTION in options.__struct_encode_fields__:
            found += [f"{name}:{OPTION}={blocks}" for blocks in BLOCKS.values()]
    return found


def stream(trace: _core.Trace) -> list[int]:
    """The blocks of all prompts, one after the other, from 1 on."""
    return [node + 1 for i in range(trace.requests) for node in trace.request(i)[4]]


def oracle_general(ids: list[int]) -> bytes:
    """The stream in libcachesim's binary form: time, object, size, place of its next use."""
    after: dict[int, int] = {}
    rows = []
    for at in reversed(range(len(ids))):
        rows.append(struct.pack("<IQIq", at, ids[at], 1, after.get(ids[at], -1)))
        after[ids[at]] = at
    return b"".join(reversed(rows))


def alone(ids: list[int]) -> _core.Trace:
    """The stream as requests of one block each, which follows none."""
    row = '{"timestamp": %d, "input_length": 1, "output_length": 1, "hash_ids": [%d]}\n'
    data = "".join(row % (at, node) for at, node in enumerate(ids)).encode()
    return _core.Trace.parse(data, "stream", 1)


def compared(
    traces: dict[str, tuple[int, ...]], python: str, names: dict[str, str]
) -> tuple[str, list[dict[str, Any]]]:
    """Block hit rates of libcachesim, of single blocks here, and of prefixes here."""
    rows = []
    with Peer("for_libcachesim.py", python) as peer, TemporaryDirectory() as folder:
        for name, capacities in traces.items():
            prefixes = load(name).trace
            ids = stream(prefixes)
            file = Path(folder) / f"{name}.oracleGeneral"
            file.write_bytes(oracle_general(ids))
            single = alone(ids)
            for capacity in capacities[::2]:
                for ours, theirs in names.items():
                    print(f"{name}: {theirs} at {capacity}", file=sys.stderr)
                    got = peer.ask(file=str(file), policy=theirs, capacity=capacity)
                    rows.append(
                        {
                            "trace": name,
                            "capacity": capacity,
                            "policy": ours,
                            "theirs": theirs,
                            "libcachesim": round(1 - got["miss_rate"], 6),
                            "single": block_hits(single, ours, capacity),
                            "prefix": block_hits(prefixes, ours, capacity),
                        }
                    )
        return peer.name, rows


def block_hits(trace: _core.Trace, policy: str, capacity: int) -> float:
    """Share of the block accesses that are hits; every block counts, as in libcachesim."""
    got = _core.replay(trace, policy, capacity, "trace", OPTIONS.get(policy))
    return round(float(got["block_hits"] / got["block_accesses"]), 6)


def replaced(before: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a record with those that were measured anew in their places."""

    def cell(row: dict[str, Any]) -> tuple[object, ...]:
        return row["trace"], row["policy"], row["capacity"]

    known = {cell(row): row for row in before} | {cell(row): row for row in rows}
    traces = list(dict.fromkeys(trace for trace, *_ in known))
    return sorted(known.values(), key=lambda row: traces.index(row["trace"]))


def main() -> int:
    """Measure, save, write the page."""
    parser = argparse.ArgumentParser(prog="python -m perf.zoo", description=__doc__)
    parser.add_argument("--libcachesim", metavar="PYTHON", help="one that imports it")
    parser.add_argument("--policy", metavar="LIST", help="only these anew; the rest is kept")
    parser.add_argument("--page", action="store_true", help="only write the page anew")
    asked = parser.parse_args()
    if not asked.page:
        warn_debug()
        names = asked.policy.split(",") if asked.policy else expand(["all"], Registry())[0]
        cells = with_costs([*names, "lru", "opt"])
        found = [zoo(trace, sizes, cells, "engine") for trace, sizes in CAPACITIES.items()]
        rows = [row for measured in found for row in measured.rows]
        same = [pair for measured in found for pair in measured.same]
        if asked.policy:
            before = last_record("zoo")
            rows = replaced(before["rows"], rows)
            same += [pair for pair in before["same"] if pair not in same and not {*pair} & {*names}]
        if asked.libcachesim:
            peer, beside = compared(CAPACITIES, asked.libcachesim, LIBCACHESIM)
        else:
            before = last_record("zoo")
            peer, beside = before["versions"]["peers"][0], before["beside"]
        save("zoo", [peer], rows, beside=beside, same=same)
    PAGE.write_text(page(last_record("zoo")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
