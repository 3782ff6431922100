"""``python -m kvframe_vllm.compatibility``: is lru, in the installed vLLM, equal to stock?

Serves the same requests with stock, with lru in vLLM's pool and with kvframe's whole manager, and
compares each request's hits and block tables, the steps and all KV events. Enters the result into
``results/compatibility.json`` of the folder it is called in, and writes COMPATIBILITY.md from that
record and those of the commands of `kvframe_vllm.replay` and of `kvframe_vllm.suite`; with
``--page`` only that.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import itertools
import json
import logging
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from kvframe_vllm import releases
from kvframe_vllm.command import needs_vllm, one_line
from kvframe_vllm.suite import rows_of

RECORD = Path("results") / "compatibility.json"
PAGE = Path("COMPATIBILITY.md")
SIZES = (300, 500, 700)
EQUAL = "yes"
HEAD = """# Releases of vLLM

Written by `python -m kvframe_vllm.compatibility`, run in this folder with each release installed.
It serves the same requests with vLLM's own free queue, with kvframe's `lru` in its place, and with
kvframe's whole manager under `lru`, in pools of {sizes} blocks, synchronous and asynchronous, the
manager with sliding windows beside full attention too. Compared are the hits and block tables of
every request, the steps, and every KV event. On other releases the package leaves vLLM as it is,
and says so in one sentence.

| vLLM | kvframe-vllm | date | requests | pool equal, block for block | requests | manager equal |
| --- | --- | --- | --- | --- | --- | --- |
"""


SCENARIOS = """
## Everything at once

Written by `python -m kvframe_vllm.replay.scenarios`: families and scans with adapters, salts,
images and priorities in a small pool; some requests are preempted, some aborted, and the prefix
cache is reset while requests run. lru and stock are compared in the same way.

| scenario | vLLM | date | blocks | requests | steps | resumed | aborted | resets | events | equal |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""
MANAGER = """
### The whole manager

Written by `python -m kvframe_vllm.replay.manager` on {date}, vLLM {vllm}: the same scenarios. Hits,
steps and KV events are equal, and block tables but for which of several *empty* blocks is taken
first. *Copy* counts the blocks *found* again that are another copy than stock's.

| scenario | blocks | requests | steps | resumed | aborts | resets | events | equal | found | copy |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""
SERIAL = """
## What `kvframe bench run` says

Written by `python -m kvframe_vllm.replay.serial`: the same prompts of whole blocks, one after the
other, each answered by one token: by vLLM's scheduler in a pool of N + 1 blocks (one is its null
block), and as a trace by `kvframe bench run --mode engine --policy lru --capacity N`. Compared are
the blocks that each request hits, and how many are evicted.

| vLLM | date | N | requests | hit tokens | evictions | equal, block for block |
| --- | --- | --- | --- | --- | --- | --- |
"""
WHOLE = "python -m kvframe_vllm.replay --policies all --faces pool,manager"
EVICTION = """
## Every policy

Written by `{command}`,
last on {date}, vLLM {vllm}: share of prompt tokens that were cached when the request was first
scheduled, in pools of {sizes} blocks, with the policy in vLLM's pool and with kvframe's whole
manager. A run of fewer policies replaces their rows. After every step the worker's tables, the
blocks' contents and owners were {checked}. *Stock* stands where every
request had the very blocks that stock gave it.

| policy | {heads} |
| --- |{rules}
"""
SUITE = """
## vLLM's own tests

Written by `python -m kvframe_vllm.suite SOURCE` on {dates}, vLLM {versions}, from its source
distribution and without a GPU. Each test runs with what vLLM has first, then with kvframe in its
place: the policy in every pool, kvframe's manager in every scheduler and for every manager that it
serves, and the policy and the spec by name in the CPU tier. A test that meets no kvframe there runs
as with stock.

"""


@one_line
def main() -> None:
    """Compare, record, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m kvframe_vllm.compatibility")
    parser.add_argument("--page", action="store_true", help="write the page from the records alone")
    told: list[str] = []
    if not parser.parse_args().page:
        needs_vllm()
        told = measure()
    rows = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
    PAGE.write_text(page(rows), encoding="utf-8")
    if any(one != EQUAL for one in told):
        raise SystemExit("lru is not stock here")


def read(name: str) -> Any:
    """The record of another command; nothing where there is none."""
    path = RECORD.with_name(f"{name}.json")
    return json.loads(path.read_text()) if path.is_file() else []


def measure() -> list[str]:
    """Compare the installed release, enter what is found into the record, and return it."""
    logging.getLogger("vllm").setLevel(logging.ERROR)
    version = importlib.metadata.version("vllm")
    rows: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
    pool, manager = outcome("pool"), outcome("manager")
    row = {
        "package": importlib.metadata.version("kvframe-vllm"),
        "date": datetime.date.today().isoformat(),
        **pool,
        "manager": manager,
    }
    rows[version] = row
    rows = dict(sorted(rows.items(), key=lambda one: _numbers(one[0]), reverse=True))
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(rows, indent=1) + "\n")
    for face, found in (("pool", pool), ("manager", manager)):
        print(f"vLLM {version}, {face}: {found['told']}, {found['requests']} requests")
    return [pool["told"], manager["told"]]


def outcome(face: str) -> dict[str, Any]:
    """How many requests were served, and what was found, in a few words."""
    try:
        known = releases.POOL if face == "pool" else releases.MANAGER
        if reason := known.unknown:
            return {"requests": 0, "told": f"not ruled: {reason}"}
        return compared(face)
    except Exception as error:
        return {"requests": 0, "told": f"not run: {type(error).__name__}: {error}".split("\n")[0]}


def compared(face: str) -> dict[str, Any]:
    """The same, where this release can be run here."""
    from kvframe_vllm.replay.__main__ import rule
    from kvframe_vllm.replay.engine import Load, full_attention, requests, run, scheduler
    from kvframe_vllm.replay.manager import Told, note, other_copies
    from kvframe_vllm.replay.scenarios import BLOCK, WINDOW
    from kvframe_vllm.replay.workload import Families

    prompts, served = Families().prompts(), 0
    hybrid = [full_attention(BLOCK), WINDOW]
    for blocks, asynchronous, groups in itertools.product(
        SIZES, (False, True), (None,) if face == "pool" else (None, hybrid)
    ):
        load = Load(blocks=blocks, asynchronous=asynchronous, events=True, groups=groups)
        found, tables = [], []
        for policy in (None, "lru"):
            made = scheduler(load)
            seen: Told = []
            if policy:
                rule(made, policy, face)
            for request in requests(prompts, load.block_size):
                made.add_request(request)
            done = run(made, load, after=partial(note, seen))
            # Groups share the empty blocks: which of them one gets is each manager's own.
            exact = done.tables if groups is None else None
            found.append((done.hits, exact, done.steps, made.replay_events))
            tables.append(seen)
        if found[0] != found[1] or other_copies(*tables) != 0:
            return {"requests": served, "told": f"no: they differ at {blocks} blocks"}
        served += len(prompts)
    return {"requests": served, "told": EQUAL}


def page(rows: dict[str, Any]) -> str:
    """The page that says what is recorded."""
    text = HEAD.format(sizes=", ".join(map(str, SIZES)))
    for version, row in rows.items():
        manager = row.get("manager", {"requests": 0, "told": "not measured"})
        cells = [version, row["package"], row["date"], row["requests"], row["told"]]
        text += line([*cells, manager["requests"], manager["told"]])
    if scenarios := read("scenarios"):
        text += SCENARIOS
    counts = ("requests", "steps", "resumed", "aborted", "resets", "events")
    for row in scenarios:
        cells = [row[column] for column in ("scenario", "vllm", "date", "blocks", *counts)]
        text += line([*cells, told(row["equal"])])
    if record := read("manager"):
        text += MANAGER.format(date=record["date"], vllm=record["versions"]["vllm"])
        for name, row in record["scenarios"].items():
            cells = [name, row["blocks"], *(row[column] for column in counts)]
            copies = row["found blocks"], row["of those another copy"]
            text += line([*cells, told(row["equal"]), *copies])
    if serial := read("serial"):
        text += SERIAL
    for row in serial:
        cells = [row[column] for column in ("vllm", "date", "blocks", "requests")]
        text += line([*cells, row["hit_tokens"], row["evictions"], told(row["equal"])])
    if record := read("eviction"):
        text += rates(record)
    if suite := read("suite"):
        of = [", ".join(sorted({row[key] for row in suite})) for key in ("date", "vllm")]
        text += SUITE.format(dates=of[0], versions=of[1]) + rows_of(suite)
    return text


def line(cells: Iterable[object]) -> str:
    """A row of a table."""
    return "".join(f"| {cell} " for cell in cells) + "|\n"


def told(equal: bool) -> str:
    """A word for the last column."""
    return "yes" if equal else "**no**"


def rates(record: dict[str, Any]) -> str:
    """The hit rates of every policy, a row each."""
    cells = record["cells"]
    of = {(cell["policy"], cell.get("face", "pool"), cell["blocks"]): cell for cell in cells}
    sizes = sorted({cell["blocks"] for cell in cells})
    columns = [(face, size) for face in ("pool", "manager") for size in sizes]
    heads = " | ".join(f"{face}, {size}" for face, size in columns)
    every = all(cell.get("checked") for cell in cells)
    text = EVICTION.format(
        command=f"{WHOLE} --blocks {','.join(map(str, sizes))}{' --check' * every}",
        date=record["date"],
        vllm=record["versions"]["vllm"],
        sizes=", ".join(map(str, sizes)),
        checked="checked" if every else "not checked",
        heads=heads,
        rules=" --- |" * len(columns),
    )
    for policy in dict.fromkeys(cell["policy"] for cell in cells):
        row = f"| {policy} |"
        for face, size in columns:
            cell, stock = of.get((policy, face, size)), of["stock", "pool", size]
            if cell is None:
                row += " |"
                continue
            same = policy != "stock" and cell["tables"] == stock["tables"]
            row += f" {cell['hit_rate']}{' *stock*' if same else ''} |"
        text += row + "\n"
    return text


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:2]]


if __name__ == "__main__":
    main()
