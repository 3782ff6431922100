"""``python -m kvframe_vllm.replay.manager``: is kvframe's manager under lru equal to vLLM's own?

The scenarios of `kvframe_vllm.replay.scenarios`. Compared are each request's hits,
the steps, what was resumed, and every KV event; and block tables as the worker gets them, where
two blocks count as one if they came to a request at the same time, at the same place, with nothing
in them: which of several empty blocks is taken first is each manager's own. A block that is found
again must be the same one. The worker's tables, contents and owners are checked after every step.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import logging
import random
import sys
from pathlib import Path
from typing import Any

from vllm.v1.request import RequestStatus

from kvframe_vllm.manager.scheduler import put_in
from kvframe_vllm.manager.whole import WholeManager
from kvframe_vllm.replay.engine import Load, Run, run, scheduler
from kvframe_vllm.replay.scenarios import BLOCK, SCENARIOS, Outcome, mixed

Step = list[tuple[str, int, list[list[int]]]]
"""What the worker is told of blocks in a step: of whom, how many at the front of each table were
found, and the tables, one a group.
"""

Told = list[Step]


def main() -> None:
    """Serve every scenario twice, and print whether lru is stock."""
    parser = argparse.ArgumentParser(
        prog="python -m kvframe_vllm.replay.manager", description=__doc__
    )
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help="names by comma")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--json", help="file for the record")
    asked = parser.parse_args()
    logging.getLogger("vllm").setLevel(logging.ERROR)
    rows = {}
    for name in asked.scenarios.split(","):
        rows[name] = row = compared(SCENARIOS[name], asked.requests)
        print(f"{name}: {row}", flush=True)
    if asked.json:
        versions = {one: importlib.metadata.version(one) for one in ("vllm", "kvframe-vllm")}
        command = " ".join(["python -m kvframe_vllm.replay.manager", *sys.argv[1:]])
        told = {"date": datetime.date.today().isoformat(), "command": command}
        record = told | {"versions": versions, "scenarios": rows}
        Path(asked.json).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def compared(load: Load, count: int) -> dict[str, Any]:
    """What differs between vLLM's manager and kvframe's under lru, and how much was served."""
    (stock, tables), (ours, own) = serve(load, count, None), serve(load, count, "lru")
    names = ("hits", "exact tables", "steps", "resumed", "events")
    same = dict(zip(names, map(_equal, stock.compared(), ours.compared()), strict=True))
    exact, others = same.pop("exact tables"), other_copies(tables, own)
    same["tables"] = others is not None
    return {
        "blocks": load.blocks,
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
        "requests": len(ours.run.hits),
        "steps": ours.run.steps,
        "resumed": ours.run.resumed,
        "aborted": ours.aborted,
        "resets": ours.resets,
        "events": len(ours.events),
    }


def _equal(one: Any, two: Any) -> bool:
    return bool(one == two)


def serve(load: Load, count: int, policy: str | None) -> tuple[Outcome, Told]:
    """Serve that many mixed requests by kvframe's manager, or as vLLM does if ``policy`` is None.

    Raises:
        AssertionError: A check failed, or a block was lost.
    """
    made = scheduler(load)
    if policy is not None:
        made.vllm_config.additional_config = {"kvframe": policy}
        assert put_in(made), "kvframe does not manage"
    manager = made.kv_cache_manager
    waiting, chance = mixed(count)[::-1], random.Random(3)
    done, told = Outcome(Run(), made.replay_events), Told()

    def before(step: int) -> None:
        while waiting and len(made.waiting) < 4:
            made.add_request(waiting.pop())
        if step % 17 == 0 and made.running:
            gone = chance.choice(made.running).request_id
            made.finish_requests(gone, RequestStatus.FINISHED_ABORTED)
            done.aborted += 1
        # vLLM cannot reset while blocks are freed late.
        if step % 301 == 300 and not load.connector:
            done.resets += made.reset_prefix_cache(reset_running_requests=True)

    def after(run: Run, output: Any) -> None:
        note(told, run, output)
        if policy is not None:
            check(made, run, output)

    made.add_request(waiting.pop())
    done.run = run(made, load, before, after)
    assert not waiting
    assert made.kv_cache_manager is manager, "vLLM's own manager took over"
    assert manager.block_pool.get_num_free_blocks() == load.blocks - 1, "blocks were lost"
    return done, told


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
    manager: WholeManager = made.kv_cache_manager
    contents: dict[int, Any] = {}
    for name in output.num_scheduled_tokens:
        request, tables = made.requests[name], manager.get_block_ids(name)
        keys = request.block_hashes[: request.num_computed_tokens // BLOCK]
        for group, (table, told) in enumerate(zip(tables, run.tables[name], strict=True)):
            # A block behind a window has become the null block, which the worker is not told.
            pairs = zip(table, told, strict=True)
            assert all(block in (0, known) for block, known in pairs), f"request {name}"
            kept = manager.kv.block_table(manager.held[name].seq, group=group).tolist()
            assert kept == table, f"request {name}, group {group}"
            for block, key in zip(table, keys, strict=False):
                held = contents.setdefault(block, (group, key)) if block else (group, key)
                assert held == (group, key), f"block {block} has two contents"
    manager.kv.check_integrity()
    pool = manager.block_pool
    requests = [*manager.held.values(), *pool.deferred.values()]
    owned = {block for held in requests for table in held.tables for block in table} - {0}
    assert pool.get_num_free_blocks() == pool.num_gpu_blocks - 1 - len(owned)


if __name__ == "__main__":
    main()
