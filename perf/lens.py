"""llmtrafficlens beside ``kvframe trace info`` on the same log: each figure equal, or why not.

llmtrafficlens (PyPI) is installed into an environment of its own at first use.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kvframe.bench.traces import load
from kvframe.traces.rewrite import convert
from kvframe.traces.source import ReadOptions
from perf.peers import CACHE
from perf.published import Figure, percent, single_blocks

VERSION = "0.13.4"
RULES = "single blocks without order, partial ones count whole (docs/reference/published.md)"
RANKS = "it interpolates between ranks, kvframe takes the nearest"
SHARES = "it divides by the sum of all nested prefixes, kvframe by all that can hit"


def installed() -> Path:
    """The environment's program."""
    place = CACHE / f"llmtrafficlens-{VERSION}"
    program = place / "bin" / "llmtrafficlens"
    if not program.exists():
        venv.create(place, with_pip=True)
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, f"llmtrafficlens=={VERSION}"], check=True)
    return program


def figures(
    theirs: Mapping[str, Any], ours: Mapping[str, Any], trace: Path, blocks: int
) -> Iterator[Figure]:
    """What both say, in the same digits."""
    sample, curve = theirs["sample"], theirs["reuse_potential"]["curve"]
    for what, one, other in (
        ("requests", sample["requests"], ours["requests"]),
        ("span, s", round(sample["duration_s"]), round(ours["span_seconds"])),
        ("requests a second", sample["avg_qps"], round(ours["requests"] / ours["span_seconds"], 1)),
        ("prompt tokens", theirs["reuse_potential"]["total_input_tokens"], ours["input_tokens"]),
    ):
        yield Figure(what, f"{one:,}", f"{other:,}")
    for what, key, name in (
        ("prompt tokens", "input_tokens", "input_length"),
        ("answer tokens", "output_tokens", "output_length"),
    ):
        for rank in ("mean", "p50", "p90", "p99"):
            one, other = theirs["lengths"][key][rank], round(ours[name][rank])
            yield Figure(f"{what}, {rank}", f"{one:,}", f"{other:,}", RANKS)
    session = theirs["session"]["with_session_key"]
    yield Figure("requests with a session", f"{session:,}", f"{ours['in_sessions']:,}")
    for kind, name in (("reuse_volume", "tokens"), ("count", "requests")):
        one = theirs["prefix_structure"][f"top_by_{kind}"][0]
        other = ours[f"prefixes_by_{name}"][0]
        shown = [
            f"{top['prefix_tokens' if 'prefix_tokens' in top else 'tokens']:,} tokens in "
            f"{top['count' if 'count' in top else 'requests']:,} requests save "
            f"{top['reuse_tokens']:,}"
            for top in (one, other)
        ]
        yield Figure(f"first prefix by {name}", *shown)
        share = other["reuse_tokens"] / ours["ceiling_hit_tokens"]
        yield Figure("its share", percent(one["share_of_reusable"]), percent(share), SHARES)
    source = load(str(trace))
    points = {point["blocks"]: point["hit_tokens_last_half"] for point in ours["lru"]}
    last = ours["input_tokens_last_half"]
    for point in curve:
        tokens = point["capacity_tokens"]
        size = None if tokens is None else tokens // blocks
        hits = ours["ceiling_hit_tokens_last_half"] if size is None else points.get(size)
        name = "no limit" if size is None else f"{size:,} blocks"
        if hits is not None:
            yield Figure(
                f"lru, {name}", percent(point["hit_rate"], 2), percent(hits / last, 2), RULES
            )
        rules = single_blocks(source, size, ours["requests"] // 2)
        yield Figure(f"lru, {name}, by its rules", percent(point["hit_rate"], 2), percent(rules, 2))


def main() -> None:
    """Runs both and prints the table; exit code 1 where a difference has no explanation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", default="conversation", help="JSONL in Mooncake's form")
    asked = parser.parse_args()
    program = installed()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        convert(asked.trace, ReadOptions(), log, "mooncake")
        start = time.perf_counter()
        command = f"{program} profile {log} --format mooncake -o {folder}/report"
        subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL)
        lens_seconds = time.perf_counter() - start
        theirs = json.loads((Path(folder) / "report.json").read_text())
        start = time.perf_counter()
        told = subprocess.run(
            [sys.executable, "-m", "kvframe", "trace", "info", log, "--mode", "trace", "--json"],
            check=True,
            stdout=subprocess.PIPE,
        )
        seconds = time.perf_counter() - start
        ours = json.loads(told.stdout)
        rows = list(figures(theirs, ours, log, ours["block_size"]))
    print(f"llmtrafficlens {VERSION}: {lens_seconds:.1f} s; kvframe trace info: {seconds:.1f} s")
    for row in rows:
        why = "" if row.equal else row.why or "NOT EXPLAINED"
        print(f"{row.what:34} {row.theirs:>42} {row.ours:>42}  {why or 'equal'}")
    unexplained = [row.what for row in rows if not row.equal and not row.why]
    raise SystemExit(1 if unexplained else 0)


if __name__ == "__main__":
    main()
