"""``python -m kvframe_vllm.replay``: hit rates of vLLM's scheduler, stock beside policies."""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
from pathlib import Path
from typing import Any

from kvframe.errors import KVFrameError
from kvframe.registry import Registry
from kvframe_vllm.choice import STOCK, listed, resolved
from kvframe_vllm.command import one_line
from kvframe_vllm.install import put_in, unfit
from kvframe_vllm.manager.fit import unfit as unfit_manager
from kvframe_vllm.manager.whole import WholeManager
from kvframe_vllm.replay import manager as manager_replay
from kvframe_vllm.replay import records
from kvframe_vllm.replay.check import check_step
from kvframe_vllm.replay.engine import Load, requests, run, scheduler
from kvframe_vllm.replay.workload import Families

FACES = ("pool", "manager")
"""The policy in vLLM's pool, and kvframe's whole manager in the place of vLLM's."""


@one_line
def main() -> None:
    """Run every policy at every size in every face; print a table, and record it."""
    asked = arguments()
    logging.getLogger("vllm").setLevel(logging.ERROR)
    prompts = Families(requests=asked.requests).prompts()
    policies = [STOCK, *asked.policies]
    sizes = [int(size) for size in asked.blocks.split(",")]
    faces = asked.faces.split(",")
    print(f"{'policy':<16}" + "".join(f"{size:>9}" for _ in faces for size in sizes), flush=True)
    cells = []
    for policy in policies:
        print(f"{policy:<16}", end="", flush=True)
        for face in faces[: 1 if policy == STOCK else None]:
            for size in sizes:
                cell = measure(policy, size, prompts, asked, face)
                print(f"{cell.get('hit_rate', '-'):>9}", end="", flush=True)
                cells.append(cell)
        print(f"  {remark(policy, cells)}", flush=True)
        enter(asked.json, cells)
    records.fail_if(
        [
            f"lru in {cell['blocks']} blocks, {cell['face']}: not the blocks that stock gives"
            for cell in cells
            if cell["policy"] == "lru" and cell["tables"] not in tables_of_stock(cells)
        ]
    )


def tables_of_stock(cells: list[dict[str, Any]]) -> set[str]:
    """What stands for the blocks that stock gave, at each size."""
    return {cell["tables"] for cell in cells if cell["policy"] == STOCK}


def remark(policy: str, cells: list[dict[str, Any]]) -> str:
    """What else there is to say of a policy: why it has no numbers, or that it changed nothing."""
    mine = [cell for cell in cells if cell["policy"] == policy]
    if reason := mine[-1].get("error"):
        return str(reason)
    stock = {cell["blocks"]: cell["tables"] for cell in cells if cell["policy"] == STOCK}
    same = all(cell["tables"] == stock[cell["blocks"]] for cell in mine)
    return "the same blocks as stock" if same and policy != STOCK else ""


def arguments() -> argparse.Namespace:
    """What the command line says.

    Raises:
        ConfigError, PluginError: A policy, or a file of one, is wrong.
    """
    parser = argparse.ArgumentParser(prog="python -m kvframe_vllm.replay", description=__doc__)
    parser.add_argument("--policies", default="lru,lfu", help="names by comma, or all")
    parser.add_argument("--faces", default="pool", help=f"by comma: {', '.join(FACES)}")
    parser.add_argument("--blocks", default="300,500,700", help="blocks of the pool, by comma")
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--asynchronous", action="store_true", help="as vLLM serves")
    parser.add_argument("--check", action="store_true", help="check every step (slow)")
    parser.add_argument("--json", type=Path, default=records.place("eviction"), help="the record")
    asked = parser.parse_args()
    asked.policies = installed() if asked.policies == "all" else listed(asked.policies)
    return asked


def installed() -> list[str]:
    """Every installed eviction policy that needs no future."""
    registry = Registry()
    rows = [row.name for row in registry.list() if row.kind == "eviction"]
    return sorted(name for name in rows if not registry.eviction(name).descriptor.replay_only)


def measure(
    policy: str, blocks: int, prompts: list[list[int]], asked: argparse.Namespace, face: str
) -> dict[str, Any]:
    """One cell of the table."""
    load = Load(blocks=blocks, asynchronous=asked.asynchronous)
    cell: dict[str, Any] = {"policy": policy, "blocks": blocks}
    made = scheduler(load)
    try:
        if policy != STOCK:
            cell["face"] = face
            rule(made, policy, face)
    except KVFrameError as error:
        return cell | {"error": str(error)}
    for request in requests(prompts, load.block_size):
        made.add_request(request)

    def after(done: Any, output: Any) -> None:
        if asked.check and isinstance(made.kv_cache_manager, WholeManager):
            manager_replay.check(made, done, output)
        elif asked.check:
            check_step(made, done, output, load.block_size)

    done = run(made, load, after=after)
    tokens = sum(map(len, prompts))
    cell |= {
        "prompt_tokens": tokens,
        "hit_tokens": sum(done.hits.values()),
        "hit_rate": f"{sum(done.hits.values()) / tokens:.4f}",
        "steps": done.steps,
        "resumed": done.resumed,
        # Equal where every request had the same blocks.
        "tables": hashlib.sha256(repr(sorted(done.tables.items())).encode()).hexdigest()[:16],
        "checked": asked.check,
    }
    return cell if policy == STOCK else cell | counted(made.kv_cache_manager, face)


def rule(made: Any, policy: str, face: str) -> None:
    """Put a policy into a scheduler.

    Raises:
        SystemExit: This scheduler is not served.
        KVFrameError: The policy cannot be had.
    """
    if face == "manager":
        if reason := unfit_manager(made):
            raise SystemExit(f"kvframe cannot manage this scheduler: {reason}")
        made.kv_cache_manager = WholeManager(made, policy)
        return
    pool = made.kv_cache_manager.block_pool
    if reason := unfit(pool):
        raise SystemExit(f"kvframe cannot rule this pool: {reason}")
    put_in(pool, resolved(policy))


def counted(manager: Any, face: str) -> dict[str, Any]:
    """What kvframe counted of its decisions."""
    if face == "manager":
        assert isinstance(manager, WholeManager), "the manager failed"
        return {"evictions": manager.kv.stats.counters()["evictions"]}
    core = manager.block_pool.free_block_queue.core
    return {"evictions": core.evictions, "failures": core.failures}


def enter(file: Path, cells: list[dict[str, Any]]) -> None:
    """Put cells into a record, in place of what it had of the same policy, face and size."""
    was = json.loads(file.read_text())["cells"] if file.is_file() else []
    every = {_of(cell): cell for cell in [*was, *cells]}
    policies = [STOCK, *sorted({cell["policy"] for cell in every.values()} - {STOCK})]

    def place(cell: dict[str, Any]) -> tuple[int, str, int]:
        policy, face, blocks = _of(cell)
        return policies.index(policy), face, blocks

    records.write(file, "replay", cells=sorted(every.values(), key=place))


def _of(cell: dict[str, Any]) -> tuple[str, str, int]:
    return cell["policy"], cell.get("face", FACES[0]), cell["blocks"]


if __name__ == "__main__":
    main()
