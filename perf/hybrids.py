"""``python -m perf.hybrids``: what models with windows and states find, beside full attention.

The same pool serves the same traffic under lru: with every group as full attention (as an engine
does without a hybrid cache), with kvframe's default, and with the ends of prompts alone. Traffic is
the shipped traces, made-up families of `perf.workloads`, and pairs that share their beginning with
one other prompt only. The table stands in docs/reference/groups.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvframe import _core
from kvframe.bench.traces import load
from perf.pages import write
from perf.results import warn_debug
from perf.table import table
from perf.workloads import SIZE, Ids, Prompts, made, rows

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "groups.md"
FULL = {"kind": "full"}
MODELS: dict[str, list[dict[str, Any]]] = {
    "1 full, 5 windows of 1,024": [FULL, *[{"kind": "sliding_window", "window": 1_024}] * 5],
    "1 full, 3 states": [FULL, *[{"kind": "state"}] * 3],
}
SHIPPED = {"conversation": 8_000, "synthetic": 4_000, "agent": 2_000}
"""Blocks of 512 tokens, for each group of the model."""
FAMILIES = {
    "chat": 0.1,
    "documents": 0.1,
    "drift": 0.1,
    "hot-and-scan": 0.02,
    "branches": 0.1,
    "agents": 0.02,
    "phases": 0.02,
}
"""Capacities by blocks that differ, likewise."""
PAIRS = 100


def pairs(heads: int = 600, head: int = 16, tail: int = 12) -> Prompts:
    """Each beginning comes twice, one prompt apart, and never again."""
    ids = Ids()
    begun = [ids.new(head) for _ in range(heads)]
    prompts = []
    for at, this in enumerate(begun):
        prompts.append(this + ids.new(tail))
        if at:
            prompts.append(begun[at - 1] + ids.new(tail))
    return prompts


def cells() -> Iterator[tuple[str, _core.Trace, int]]:
    """Name, trace, and blocks for each group."""
    for name, capacity in SHIPPED.items():
        yield name, load(name).trace, capacity
    for name, share in FAMILIES.items():
        prompts = made(name, 0)
        unique = len({block for prompt in prompts for block in prompt})
        yield name, _core.Trace.parse(b"".join(rows(prompts)), name, SIZE), int(unique * share)
    yield "pairs", _core.Trace.parse(b"".join(rows(pairs())), "pairs", SIZE), PAIRS


def hit(trace: _core.Trace, groups: list[dict[str, Any]], blocks: int, gate: str | None) -> str:
    """Token hit rate in percent."""
    core = {"groups": groups}
    got = _core.replay(trace, "lru", blocks, "engine", core=core, admission=gate)
    return f"{100 * got['hit_tokens'] / got['input_tokens']:.1f}"


def row(trace: _core.Trace, groups: list[dict[str, Any]], blocks: int) -> list[str]:
    """All groups as full attention, the default, ends alone, and states where prompts part."""
    count = len(groups)
    ends = [group if group == FULL else group | {"interval": 0} for group in groups]
    tried = [[FULL] * count, groups, ends]
    rates = [hit(trace, one, blocks * count, None) for one in tried]
    has_states = any(group["kind"] == "state" for group in groups)
    return [*rates, hit(trace, groups, blocks * count, "branch-point") if has_states else "-"]


def main() -> int:
    """Measure, print, and write the page."""
    warn_debug()
    lines = []
    for name, trace, capacity in cells():
        for model, groups in MODELS.items():
            lines.append(
                [name, model, f"{capacity * len(groups):,}", *row(trace, groups, capacity)]
            )
        print(f"{name}: done", file=sys.stderr)
    head = ["traffic", "groups", "blocks", "all as full attention", "default"]
    told = table([*head, "interval = 0", "admission branch-point"], lines)
    print(told)
    write(PAGE, "perf.hybrids", told)
    return 0


if __name__ == "__main__":
    sys.exit(main())
