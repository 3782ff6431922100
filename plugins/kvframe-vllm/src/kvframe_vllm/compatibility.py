"""``python -m kvframe_vllm.compatibility``: is lru, in the installed vLLM, equal to stock?

Serves the same requests twice and compares each request's hits and block tables, the steps and all
KV events. Enters the result into ``results/compatibility.json`` of the folder it is called in, and
writes COMPATIBILITY.md from that record and those of `kvframe_vllm.replay.scenarios` and
`kvframe_vllm.suite`; with ``--page`` only that.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import logging
from pathlib import Path
from typing import Any

from kvframe_vllm import releases
from kvframe_vllm.suite import rows_of

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


SCENARIOS = """
## Everything at once

Written by `python -m kvframe_vllm.replay.scenarios`: families and scans with adapters, salts,
images and priorities in a small pool; some requests are preempted, some aborted, and the prefix
cache is reset while requests run. lru and stock are compared in the same way.

| scenario | vLLM | date | blocks | requests | steps | resumed | aborted | resets | events | equal |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""
SUITE = """
## vLLM's own tests

Written by `python -m kvframe_vllm.suite SOURCE` on {dates}, vLLM {versions}, from its source
distribution and without a GPU. Each test runs with vLLM's own queue first, then with every pool
that it makes under a policy.

"""


def main() -> None:
    """Compare, record, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m kvframe_vllm.compatibility")
    parser.add_argument("--page", action="store_true", help="write the page from the records alone")
    if not parser.parse_args().page:
        measure()
    rows = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
    PAGE.write_text(page(rows, read("scenarios"), read("suite")), encoding="utf-8")


def read(name: str) -> list[dict[str, Any]]:
    """The record of another command, where there is one."""
    path = RECORD.with_name(f"{name}.json")
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.is_file() else []
    return rows


def measure() -> None:
    """Compare the installed release, and enter what is found into the record."""
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


def page(rows: dict[str, Any], scenarios: list[dict[str, Any]], suite: list[dict[str, Any]]) -> str:
    """The page that says what is recorded."""
    lines = [
        f"| {version} | {row['package']} | {row['date']} | {row['requests']} | {row['told']} |\n"
        for version, row in rows.items()
    ]
    text = HEAD.format(sizes=", ".join(map(str, SIZES))) + "".join(lines)
    if scenarios:
        text += SCENARIOS
    columns = ("scenario", "vllm", "date", "blocks", "requests", "steps", "resumed", "aborted")
    for row in scenarios:
        cells = [row[column] for column in (*columns, "resets", "events")]
        text += "".join(f"| {cell} " for cell in [*cells, "yes" if row["equal"] else "**no**"])
        text += "|\n"
    if suite:
        of = [", ".join(sorted({row[key] for row in suite})) for key in ("date", "vllm")]
        text += SUITE.format(dates=of[0], versions=of[1]) + rows_of(suite)
    return text


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:2]]


if __name__ == "__main__":
    main()
