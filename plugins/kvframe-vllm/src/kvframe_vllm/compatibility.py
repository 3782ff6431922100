"""``python -m kvframe_vllm.compatibility``: is lru, in the installed vLLM, equal to stock?

Serves the same requests twice and compares each request's hits and block tables, the steps and all
KV events. Enters the result into ``results/compatibility.json`` of the folder it is called in, and
writes COMPATIBILITY.md from that record.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import logging
from pathlib import Path
from typing import Any

from kvframe_vllm import releases

RECORD = Path("results") / "compatibility.json"
PAGE = Path("COMPATIBILITY.md")
SIZES = (300, 500, 700)
HEAD = """# Releases of vLLM

Written by `python -m kvframe_vllm.compatibility`, run in this folder with each release installed.
It serves the same requests with vLLM's own free queue and with kvframe's `lru`, in pools of {sizes}
blocks, synchronous and asynchronous, and compares the hits and block tables of every request, the
steps, and every KV event. On other releases the package leaves vLLM as it is, and says so in one
sentence.

| vLLM | kvframe-vllm | date | requests | equal to stock, block for block |
| --- | --- | --- | --- | --- |
"""


def main() -> None:
    """Compare, record, and write the page."""
    logging.getLogger("vllm").setLevel(logging.ERROR)
    version = importlib.metadata.version("vllm")
    rows: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
    row = {
        "package": importlib.metadata.version("kvframe-vllm"),
        "date": datetime.date.today().isoformat(),
        **outcome(),
    }
    rows[version] = row
    rows = dict(sorted(rows.items(), key=lambda one: _numbers(one[0]), reverse=True))
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(rows, indent=1) + "\n")
    PAGE.write_text(page(rows))
    print(f"vLLM {version}: {row['told']}, {row['requests']} requests")


def outcome() -> dict[str, Any]:
    """How many requests were served, and what was found, in a few words."""
    try:
        if reason := releases.unknown():
            return {"requests": 0, "told": f"not ruled: {reason}"}
        return compared()
    except Exception as error:
        return {"requests": 0, "told": f"not run: {type(error).__name__}: {error}".split("\n")[0]}


def compared() -> dict[str, Any]:
    """The same, where this release can be run here."""
    from kvframe_vllm.choice import resolved
    from kvframe_vllm.install import put_in
    from kvframe_vllm.replay.engine import Load, requests, run, scheduler
    from kvframe_vllm.replay.workload import Families

    prompts, served = Families().prompts(), 0
    for blocks in SIZES:
        for asynchronous in (False, True):
            load = Load(blocks=blocks, asynchronous=asynchronous, events=True)
            found = []
            for policy in (None, "lru"):
                made = scheduler(load)
                if policy:
                    put_in(made.kv_cache_manager.block_pool, resolved(policy))
                for request in requests(prompts, load.block_size):
                    made.add_request(request)
                done = run(made, load)
                found.append((done.hits, done.tables, done.steps, made.replay_events))
            if found[0] != found[1]:
                return {"requests": served, "told": f"no: they differ at {blocks} blocks"}
            served += len(prompts)
    return {"requests": served, "told": "yes"}


def page(rows: dict[str, Any]) -> str:
    """The page that says what is recorded."""
    lines = [
        f"| {version} | {row['package']} | {row['date']} | {row['requests']} | {row['told']} |\n"
        for version, row in rows.items()
    ]
    return HEAD.format(sizes=", ".join(map(str, SIZES))) + "".join(lines)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:2]]


if __name__ == "__main__":
    main()
