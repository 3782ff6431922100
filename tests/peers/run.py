"""The suite and random traces over kvframe's manager and vLLM's: what differs, and why.

Usage, from a checkout (make setup): .venv/bin/python -m tests.peers.run [--python PYTHON] [--save]

PYTHON is one that has vLLM 0.33.0; a CPU will do. Exit status: 0 if every difference is listed in
differences.toml, 1 if one is not or a listed one is gone, 2 if vLLM cannot be run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from perf.peers import PeerError
from perf.results import save

from tests.peers.compare import (
    RECORD,
    Theirs,
    different,
    reasons,
    run_traces,
    see,
    start,
    unexplained,
    vllm_python,
)
from tests.peers.ours import Ours


def main(argv: Sequence[str] | None = None) -> int:
    """Compare, print, and save if asked."""
    parser = argparse.ArgumentParser(
        "python -m tests.peers.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--python", default=vllm_python(), help="default: $VLLM_PYTHON")
    parser.add_argument("--save", action="store_true", help="write vllm.json and perf/results")
    given = parser.parse_args(argv)
    if given.python is None:
        print("error: no Python that has vLLM; name one with --python", file=sys.stderr)
        return 2
    try:
        with start(given.python) as peer:
            return compare(Theirs(peer), given.save)
    except PeerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def compare(theirs: Theirs, saved: bool) -> int:
    """All scenarios and traces; the exit status."""
    ours_saw, theirs_saw = see(Ours()), see(theirs)
    found = different(ours_saw, theirs_saw)
    looks = sum(map(len, ours_saw.values()))
    print(f"kvframe beside {theirs.name}: {len(ours_saw)} scenarios, {looks} answers compared")
    for at in found:
        print(f"  differs: {at}: {reasons('scenarios').get(at, 'NOT LISTED')}")
    rows, wrong = run_traces(theirs)
    wrong += unexplained(found)
    requests, unequal = (sum(row["requests"] for row in rows), [])
    for row in rows:
        differ = len(row["different"])
        unequal.append(differ)
        pool = f"{row['blocks']} blocks of {row['block_size']}, window {row['window'] or '-'}"
        print(
            f"  seed {row['seed']:<3}{pool:34}{row['requests']} requests, hit tokens "
            f"{row['hit_tokens']}, {differ} differ {row['explained_by'] or ''}"
        )
    print(f"{requests} requests, {sum(unequal)} answers differ")
    if saved:
        RECORD.write_text(
            json.dumps({"peer": theirs.name, "seen": theirs_saw}, indent=1, sort_keys=True) + "\n"
        )
        file = save(
            "vllm",
            [theirs.name],
            rows,
            command=" ".join(["python -m tests.peers.run", *sys.argv[1:]]),
            scenarios=len(ours_saw),
            answers_compared=looks,
            answers_different=found,
            requests=requests,
            requests_different=sum(unequal),
        )
        print(f"wrote {RECORD.name}, {file.name}")
    print("\n".join(wrong) or "every difference is listed, and every listed one is there")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
