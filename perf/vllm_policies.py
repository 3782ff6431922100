"""``python -m perf.vllm_policies``: foresight beside every online policy in vLLM's scheduler.

vLLM's own scheduler, without a model, in the Python that ``$VLLM_PYTHON`` names (with vLLM, kvframe
and kvframe-vllm; no GPU), serves the load of ``python -m kvframe_vllm.replay``: 300 requests, of
which 60 % begin with one of 20 prefixes and 40 % share nothing. In its pool, each eviction policy
rules; under kvframe's whole manager, admission policies too.

Every policy serves the same few draws of that load. Those that hit most there, and some by name,
are the rivals, and serve other draws, so that the best of many is not best by luck. Intervals are
paired by draw, resampled, and hold for all sizes, faces and rivals at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from kvframe_vllm.replay.workload import Families

from kvframe.bench.bootstrap import Intervals, drawn_rates, simultaneous
from kvframe.registry import Registry
from perf.pages import write
from perf.peers import Peer, PeerError
from perf.results import save, warn_debug
from perf.table import table
from perf.vllm_returns import Kind, returns

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "default-policy.md"
SIDE = "for_vllm_policies.py"
SIZES = (300, 500, 700)
OURS = "foresight"
NAMED = ("lru", "mq")
"""Rivals whatever they hit: the default, and the best on this load when it was first measured."""
ADMITTED = ("lru", "lfu", "arc", "mq", OURS)
"""Eviction policies that are tried beside each admission policy."""
EVERYTHING = ("always", "write-back", "write-through")
"""Admission policies that let each block into the pool."""
SCREENED = range(1, 5)
"""Seeds of the draws by which rivals are chosen."""
FIRST = 101
"""The first seed of the draws by which they are judged."""
BEST = 3
"""Rivals by a face and size."""
PARTS = 6
"""Of a load, in the order of arrival."""

Hits = npt.NDArray[np.int64]


class Policy(NamedTuple):
    """What rules, and where."""

    face: str
    eviction: str
    admission: str | None = None

    def __str__(self) -> str:
        return self.eviction + (f" with {self.admission}" if self.admission else "")


Cell = tuple[Policy, int]
Found = dict[Cell, Hits]
"""Hit tokens of a policy in a pool of so many blocks, of shape (draws, requests)."""


def policies() -> list[Policy]:
    """Every installed one that needs no future."""
    registry = Registry()
    rows = [(row.kind, row.name) for row in registry.list()]
    evictions = [
        name
        for kind, name in rows
        if kind == "eviction" and not registry.eviction(name).descriptor.replay_only
    ]
    admissions = [name for kind, name in rows if kind == "admission" and name not in EVERYTHING]
    alone = [Policy(face, one) for face in ("pool", "manager") for one in sorted(evictions)]
    return alone + [Policy("manager", *both) for both in product(ADMITTED, sorted(admissions))]


def served(
    peers: Sequence[Peer], cells: Sequence[Cell], seeds: Sequence[int], requests: int
) -> Found:
    """Serve the draws under each policy and size, as many at once as there are peers."""
    free: SimpleQueue[Peer] = SimpleQueue()
    for peer in peers:
        free.put(peer)

    def serve(cell: Cell) -> Hits:
        policy, blocks = cell
        peer = free.get()
        try:
            asked = {**policy._asdict(), "blocks": blocks, "seeds": [*seeds], "requests": requests}
            return np.array(peer.ask(**asked)["hits"], np.int64)
        finally:
            free.put(peer)
            print(f"{policy.face}, {blocks} blocks: {policy}", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(len(peers)) as pool:
        return dict(zip(cells, pool.map(serve, cells), strict=True))


def rivals(screened: Found) -> list[Policy]:
    """Those that hit most in some face and size, and those by name."""
    chosen = [policy for policy, _ in screened if policy.eviction in (*NAMED, OURS)]
    chosen = [policy for policy in chosen if policy.admission is None]
    for face, size in {(policy.face, size) for policy, size in screened}:
        here = [policy for policy, at in screened if (policy.face, at) == (face, size)]
        # Of those that hit the same of each request, the first: it is alone, without admission.
        apart = {screened[one, size].tobytes(): one for one in reversed(here)}.values()
        chosen += sorted(apart, key=lambda one: -screened[one, size].sum())[:BEST]
    return list(dict.fromkeys(sorted(chosen, key=lambda one: (one.face != "pool", str(one)))))


def judged(found: Found, tokens: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Each rival's hit rate, and what foresight has more, with its interval.

    Args:
        found: Under the rivals and foresight.
        tokens: Of all prompts, by draw.
    """
    others = [cell for cell in found if cell[0] != Policy(cell[0].face, OURS)]
    rates = {cell: hits.sum() / sum(tokens) for cell, hits in found.items()}
    ours = [found[Policy(policy.face, OURS), size] for policy, size in others]
    theirs = [found[cell] for cell in others]
    more = [(mine - other).sum(axis=1) for mine, other in zip(ours, theirs, strict=True)]
    estimate = np.array([one.sum() / sum(tokens) for one in more])
    draws = np.full(len(tokens), -1)
    told: Intervals = simultaneous(estimate, drawn_rates(more, np.array(tokens), draws))
    for at, cell in enumerate(others):
        policy, size = cell
        yield {
            "face": policy.face,
            "blocks": size,
            "policy": str(policy),
            "hit_rate": rates[cell],
            "foresight": rates[Policy(policy.face, OURS), size],
            "more": [estimate[at], told.low[at], told.high[at]],
        }


def told(rows: Sequence[dict[str, Any]]) -> str:
    """The table: lru, foresight and the best rival of each face and size."""
    lines = []
    for face, size in dict.fromkeys((row["face"], row["blocks"]) for row in rows):
        here = [row for row in rows if (row["face"], row["blocks"]) == (face, size)]
        best = max(here, key=lambda row: row["hit_rate"])
        lru = next(row for row in here if row["policy"] == "lru")
        lead = "{:+.2f} [{:+.2f}, {:+.2f}]".format(*(100 * each for each in best["more"]))
        rates = [f"{100 * rate:.2f}" for rate in (lru["hit_rate"], best["foresight"])]
        names = f"`{best['policy']}`".replace(" with ", "` with `")
        lines.append((face, str(size), *rates, f"{names} {100 * best['hit_rate']:.2f}", lead))
    head = ["face", "blocks", "lru", "foresight", "best other", "foresight's lead"]
    return table(head, sorted(lines, key=lambda line: (line[0] != "pool", int(line[1]))))


def where(found: Found, rows: Sequence[dict[str, Any]], seeds: Sequence[int]) -> dict[str, Any]:
    """In each face and size, what the best rival hits more than foresight, in points.

    By the kind of return that is of all prompt tokens; in each part of the load, of that part's.

    Args:
        found: Under the rivals and foresight.
        rows: Of `judged`.
        seeds: Of the draws.
    """
    names = {(policy.face, str(policy)): policy for policy, _ in found}
    lost = {}
    for face, size in dict.fromkeys((row["face"], row["blocks"]) for row in rows):
        here = [row for row in rows if (row["face"], row["blocks"]) == (face, size)]
        best = max(here, key=lambda row: row["hit_rate"])["policy"]
        gap = found[names[face, best], size] - found[Policy(face, OURS), size]
        by_kind: dict[Kind, int] = {}
        tokens_of = np.zeros_like(gap)
        for at, seed in enumerate(seeds):
            prompts = Families(requests=gap.shape[1], seed=seed).prompts()
            tokens_of[at] = [*map(len, prompts)]
            for kind, tokens in zip(returns(prompts, size), gap[at], strict=True):
                if kind is not None:
                    by_kind[kind] = by_kind.get(kind, 0) + int(tokens)
        kinds = {str(kind): tokens / tokens_of.sum() for kind, tokens in sorted(by_kind.items())}
        split = zip(*(np.array_split(one, PARTS, axis=1) for one in (gap, tokens_of)), strict=True)
        parts = [part.sum() / tokens.sum() for part, tokens in split]
        lost[f"{face}, {size}"] = {
            "policy": best,
            "points": {kind: round(100 * float(share), 2) for kind, share in kinds.items()},
            "parts": [round(100 * float(share), 2) for share in parts],
        }
    return lost


def measured(
    peers: Sequence[Peer], every: Sequence[Policy], draws: int, requests: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Choose rivals, judge them; the rows, and all that was found beside."""
    screened = served(peers, [*product(every, SIZES)], SCREENED, requests)
    seeds = range(FIRST, FIRST + draws)
    found = served(peers, [*product(rivals(screened), SIZES)], seeds, requests)
    prompts = [Families(requests=requests, seed=seed).prompts() for seed in seeds]
    rows = [*judged(found, [sum(map(len, one)) for one in prompts])]
    first = [Families(requests=requests, seed=seed).prompts() for seed in SCREENED]
    total = sum(len(prompt) for one in first for prompt in one)
    rates = [
        {"face": policy.face, "policy": str(policy), "blocks": size, "hit_rate": hits.sum() / total}
        for (policy, size), hits in screened.items()
    ]
    return rows, {"draws": draws, "screened": rates, "returns": where(found, rows, seeds)}


def main() -> int:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(prog="python -m perf.vllm_policies", description=__doc__)
    parser.add_argument("--draws", type=int, default=20, help="by which rivals are judged")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all")
    parser.add_argument("--save", action="store_true", help="write the record and the page")
    asked = parser.parse_args()
    python = os.environ.get("VLLM_PYTHON")
    if python is None:
        print("VLLM_PYTHON must name a Python with vLLM, kvframe and kvframe-vllm", file=sys.stderr)
        return 2
    warn_debug()
    every = policies()
    if asked.quick:
        every = [policy for policy in every if policy.eviction in (*NAMED, OURS)][::2]
        every += [Policy(face, name) for face in ("pool", "manager") for name in (*NAMED, OURS)]
    try:
        with ExitStack() as open_peers:
            count = os.cpu_count() or 1
            peers = [open_peers.enter_context(Peer(SIDE, python)) for _ in range(count)]
            draws, requests = (3, 60) if asked.quick else (asked.draws, Families.requests)
            rows, more = measured(peers, every, draws, requests)
            name = peers[0].name
    except PeerError as error:
        print(f"no peer: {error}", file=sys.stderr)
        return 1
    page = told(rows)
    print(page)
    for place, lost in more["returns"].items():
        points = {kind: more for kind, more in lost["points"].items() if abs(more) >= 0.1}
        print(f"{place}: {lost['policy']} hits more by {lost['parts']} in turn; {points}")
    if asked.save and not asked.quick:
        print(save("vllm_policies", [name], rows, **more), file=sys.stderr)
        write(PAGE, "perf.vllm_policies", page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
