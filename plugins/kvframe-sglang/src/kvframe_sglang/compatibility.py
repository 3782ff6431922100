"""``python -m kvframe_sglang.compatibility``: is lru, in the installed SGLang, equal to its own?

Serves the streams of `kvframe_sglang.streams` on both, enters the result into
``results/compatibility.json`` of the folder it is called in, and writes COMPATIBILITY.md from that
record and from ``results/cost.json``, which ``python -m kvframe_sglang.cost --json`` writes; with
``--page`` only that.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
from pathlib import Path
from typing import Any

from kvframe_sglang.command import needs_sglang

RECORD = Path("results") / "compatibility.json"
PAGE = Path("COMPATIBILITY.md")
OPERATIONS = 10_000
HEAD = """# Releases of SGLang

Written by `python -m kvframe_sglang.compatibility`, run in this folder with each release installed.
No model runs. The cache is built by the server's factory, on CPU allocators, with SGLang's tree
(lru) and with kvframe's (`kvframe:lru`), and both serve the same {operations:,} operations from a
seed: prompts that share beginnings, chunks, answers, later turns, aborts, priorities, salts,
sessions, evictions. After each one the tokens found, stored, evicted, free and locked are compared,
and how much of each of the last prompts is still cached. On other releases the package leaves
SGLang as it is, and says so in one sentence.

| SGLang | torch | kvframe-sglang | date | {columns} |
| --- | --- | --- | --- | {rules} |
"""
COST = """
## What a call costs

Written by `python -m kvframe_sglang.cost --json results/cost.json` on {date}, {cores} shared cores,
SGLang {sglang}, torch {torch}: one process, through SGLang's `UnifiedRadixCache`, {leaves:,} leaves
of 16 tokens; µs a call, the best of the rounds' medians.

| tree | evict 1 leaf | evict 256 | match 8,192 tokens | store 512, lock, unlock |
| --- | --- | --- | --- | --- |
"""
NAMES = {"rust": "SGLang's Rust tree", "python": "SGLang's Python tree"}
OWN = """
## SGLang's own tests

PyPI has no source distribution of SGLang 0.5.23, and its wheel no tests: they were not run. The
streams above and the tests of this folder stand in their place.
"""


def variants() -> dict[str, dict[str, Any]]:
    """What is compared, by the name of its column."""
    from kvframe_sglang.streams import PAGES

    return {
        **{f"pages of {size}": {"page_size": size} for size in PAGES},
        "EAGLE's pairs": {"page_size": 16, "is_eagle": True},
        "KV events": {"page_size": 16, "enable_kv_cache_events": True},
    }


def measure() -> None:
    """Compare the installed release, and enter what is found into the record."""
    from kvframe_sglang import releases
    from kvframe_sglang.streams import beside

    version = importlib.metadata.version("sglang")
    rows: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
    row = {
        "package": importlib.metadata.version("kvframe-sglang"),
        "torch": importlib.metadata.version("torch"),
        "date": datetime.date.today().isoformat(),
    }
    for name, given in variants().items():
        if reason := releases.TREE.unknown:
            row[name] = f"not ruled: {reason}"
            continue
        _, difference = beside(operations=OPERATIONS, seed=1, **given)
        row[name] = f"no: {difference[:80]}" if difference else "equal"
        print(f"SGLang {version}, {name}: {row[name]}", flush=True)
    rows[version] = row
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(rows, indent=1) + "\n")


def page(rows: dict[str, Any], cost: dict[str, Any] | None) -> str:
    """The page that says what is recorded."""
    columns = [
        key for row in rows.values() for key in row if key not in ("package", "torch", "date")
    ]
    columns = list(dict.fromkeys(columns))
    rules = " | ".join("---" for _ in columns)
    text = HEAD.format(operations=OPERATIONS, columns=" | ".join(columns), rules=rules)
    for version, row in rows.items():
        cells = [version, row["torch"], row["package"], row["date"]]
        cells += [row.get(column, "") for column in columns]
        text += f"| {' | '.join(cells)} |\n"
    if cost:
        text += COST.format(
            **{key: cost[key] for key in ("date", "cores", "leaves")},
            **{key: cost["versions"][key] for key in ("sglang", "torch")},
        )
        for core, row in cost["us"].items():
            cells = [f"{took:,.2f}" for took in row.values()]
            text += f"| {NAMES.get(core, core)} | {' | '.join(cells)} |\n"
    return text + OWN


def main() -> None:
    """Compare, record, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m kvframe_sglang.compatibility")
    parser.add_argument("--page", action="store_true", help="write the page from the records alone")
    if not parser.parse_args().page:
        needs_sglang(parser)
        measure()
    rows = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
    cost = RECORD.with_name("cost.json")
    told = json.loads(cost.read_text()) if cost.is_file() else None
    PAGE.write_text(page(rows, told), encoding="utf-8")


if __name__ == "__main__":
    main()
