"""``python -m kvframe_vllm.replay.manager``: is kvframe's manager under lru equal to vLLM's own?

The scenarios of `kvframe_vllm.replay.scenarios`. Compared are each request's hits,
the steps, what was resumed, and every KV event; and block tables as the worker gets them, where
two blocks count as one if they came to a request at the same time, at the same place, with nothing
in them: which of several empty blocks is taken first is each manager's own. A block that is found
again must be the same one. The worker's tables, contents and owners are checked after every step.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

from kvframe_vllm.command import one_line
from kvframe_vllm.manager.scheduler import put_in
from kvframe_vllm.manager.whole import WholeManager
from kvframe_vllm.replay import records, scenarios
from kvframe_vllm.replay.check import check_tables
from kvframe_vllm.replay.engine import Load, Run
from kvframe_vllm.replay.scenarios import BLOCK, SCENARIOS, Outcome

Step = list[tuple[str, int, list[list[int]]]]
"""What the worker is told of blocks in a step: of whom, how many at the front of each table were
found, and the tables, one a group.
"""

Told = list[Step]


@one_line
def main() -> None:
    """Serve every scenario twice, and print whether lru is stock."""
    parser = argparse.ArgumentParser(
        prog="python -m kvframe_vllm.replay.manager", description=__doc__
    )
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help="names by comma")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--json", type=Path, default=records.place("manager"), help="the record")
    asked = parser.parse_args()
    logging.getLogger("vllm").setLevel(logging.ERROR)
    rows = {}
    for name in asked.scenarios.split(","):
        rows[name] = row = compared(SCENARIOS[name], asked.requests)
        print(f"{name}: {row}", flush=True)
    records.write(asked.json, "replay.manager", scenarios=rows)
    records.fail_if(
        [f"{name}: {', '.join(row['differ'])}" for name, row in rows.items() if not row["equal"]]
    )


def compared(load: Load, count: int) -> dict[str, Any]:
    """What differs between vLLM's manager and kvframe's under lru, and how much was served."""
    (stock, tables), (ours, own) = serve(load, count, None), serve(load, count, "lru")
    names = ("hits", "exact tables", "steps", "resumed", "events")
    same = dict(zip(names, map(_equal, stock.compared(), ours.compared()), strict=True))
    exact, others = same.pop("exact tables"), other_copies(tables, own)
    same["tables"] = others is not None
    return {
        "equal": all(same.values()),
        "differ": [name for name, equal in same.items() if not equal],
        "tables equal by id": exact,
        "found blocks": sum(
            block != 0
            for step in own
            for _, found, tables in step
            for table in tables
            for block in table[:found]
        ),
        "of those another copy": others,
        **ours.counts(load),
    }


def _equal(one: Any, two: Any) -> bool:
    return bool(one == two)


def serve(load: Load, count: int, policy: str | None) -> tuple[Outcome, Told]:
    """Serve that many mixed requests by kvframe's manager, or as vLLM does if ``policy`` is None.

    Raises:
        AssertionError: A check failed, or a block was lost.
    """
    told = Told()

    def rule(made: Any) -> None:
        if policy is not None:
            made.vllm_config.additional_config = {"kvframe": policy}
            assert put_in(made), "kvframe does not manage"

    def after(made: Any, run: Run, output: Any) -> None:
        note(told, run, output)
        if policy is not None:
            check(made, run, output)

    return scenarios.serve(load, count, rule, after), told


def note(told: Told, _: Run, output: Any) -> None:
    """Take in what a step tells the worker of blocks."""
    told.append(tables_of(output))


def tables_of(output: Any) -> Step:
    """What a step tells the worker of blocks."""
    told = [
        (new.req_id, new.num_computed_tokens // BLOCK, [*map(list, new.block_ids)])
        for new in output.scheduled_new_reqs
    ]
    cached = output.scheduled_cached_reqs
    rows = zip(cached.req_ids, cached.num_computed_tokens, cached.new_block_ids, strict=True)
    for name, computed, blocks in rows:
        found = computed // BLOCK if name in cached.resumed_req_ids else 0
        told += [(name, found, [*map(list, blocks)])] if blocks else []
    return told


def other_copies(stock: Told, ours: Told) -> int | None:
    """How many of the found blocks are another copy than stock's; None if the tables differ in more
    than that and in which of several empty blocks was taken.
    """
    given: tuple[dict[int, Any], dict[int, Any]] = {}, {}
    others = 0
    for at, steps in enumerate(zip(stock, ours, strict=True)):
        if shape(steps[0]) != shape(steps[1]):
            return None
        # A request may find what another one got in the same step: all that came, first.
        for step, known in zip(steps, given, strict=True):
            for of, (_, found, tables) in enumerate(step):
                for group, table in enumerate(tables):
                    known |= {
                        block: (at, of, group, place)
                        for place, block in enumerate(table)
                        if place >= found
                    }
        for (_, found, theirs), (_, _, own) in zip(*steps, strict=True):
            for one, two in zip(theirs, own, strict=True):
                pairs = zip(one[:found], two[:found], strict=True)
                others += sum(given[0].get(x) != given[1].get(y) for x, y in pairs if x)
    return others


def shape(step: Step) -> list[Any]:
    """A step without the ids of blocks, but for the null block, which stands before a window."""
    return [(name, found, [[*map(bool, t)] for t in tables]) for name, found, tables in step]


def check(made: Any, run: Run, output: Any) -> None:
    """The worker's tables are the manager's; no block has two contents; owners are as they should.

    Raises:
        AssertionError: Something disagrees.
    """
    check_tables(made, run, output, BLOCK)
    manager: WholeManager = made.kv_cache_manager
    for name in output.num_scheduled_tokens:
        for group, table in enumerate(manager.get_block_ids(name)):
            kept = manager.kv.block_table(manager.held[name].seq, group=group).tolist()
            assert kept == table, f"request {name}, group {group}"
    manager.kv.check_integrity()
    pool = manager.block_pool
    requests = [*manager.held.values(), *pool.deferred.values()]
    owned = {block for held in requests for table in held.tables for block in table} - {0}
    assert pool.get_num_free_blocks() == pool.num_gpu_blocks - 1 - len(owned)


if __name__ == "__main__":
    main()
