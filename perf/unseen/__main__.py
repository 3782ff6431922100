"""``python -m perf.unseen``: foresight beside every other policy, on traffic that it never saw.

Seven families of made-up traffic, three seeds each, and the files of ``--trace``, at four
capacities. Prints what foresight gains over lru and how far it is from the best of the others, by
family and together; ``--save`` keeps every cell.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from perf.results import save, warn_debug
from perf.table import table
from perf.unseen.families import FAMILIES, made
from perf.unseen.judge import JUDGED, Judgement, Place, judged, online, together


def places(families: Sequence[str], seeds: int, files: Sequence[Path]) -> list[Place]:
    """Every trace at every capacity; as many traces at a time as there are processors."""
    policies = online()
    with TemporaryDirectory() as folder, ProcessPoolExecutor() as pool:
        traces = []
        for family in families:
            for seed in range(seeds):
                file = Path(folder) / f"{family}-{seed}.jsonl"
                file.write_bytes(made(family, seed))
                traces.append((family, file, f"{family} {seed}"))
        traces += [("files", file, file.stem) for file in files]
        asked = [
            pool.submit(judged, family, str(file), name, policies, number)
            for number, (family, file, name) in enumerate(traces)
        ]
        found: list[Place] = []
        for (_, _, name), one in zip(traces, asked, strict=True):
            found += one.result()
            print(name, file=sys.stderr)
        return found


def groups(found: Sequence[Place]) -> dict[str, list[Place]]:
    """Places by family; then all of made-up traffic."""
    by: dict[str, list[Place]] = {}
    for place in found:
        by.setdefault(place.family, []).append(place)
    made_up = [place for place in found if place.family in FAMILIES]
    return by | ({"all families": made_up} if made_up else {})


def told(judgements: dict[str, Judgement]) -> str:
    """The table by family."""
    head = ["traffic", "gain", "95 %", "really better, worse", "worst", "worst, later half"]
    head += ["timed", "worst, timed", "to the best", "within 0.5", "within 1"]
    lines = []
    for name, one in judgements.items():
        lines.append(
            [
                *(name, f"{one.gain:+.2f}", f"{one.low:+.2f} to {one.high:+.2f}"),
                f"{one.better}, {one.worse} of {one.cells}",
                *(f"{one.worst[0]:+.2f}", f"{one.worst_later[0]:+.2f}"),
                *(f"{one.timed:+.2f}", f"{one.worst_timed[0]:+.2f}"),
                *(f"{one.ahead:+.2f}", *(f"{share:.0%}" for share in one.within)),
            ]
        )
    return table(head, lines)


def told_places(found: Sequence[Place]) -> str:
    """Each cell: lru, foresight, the best other policy, and opt."""
    head = ["trace", "capacity", "blocks", "lru", JUDGED, "gain", "later half", "timed"]
    lines = [
        [
            *(place.trace, place.share, f"{place.capacity:,}"),
            *(f"{place.whole['lru']:.2f}", f"{place.whole[JUDGED]:.2f}"),
            *(f"{place.gain:+.2f}", f"{place.gain_later:+.2f}", f"{place.gain_timed:+.2f}"),
            *(place.best, f"{place.whole[place.best]:.2f}", f"{place.ahead:+.2f}"),
            f"{place.optimum:.2f}",
        ]
        for place in found
    ]
    return table([*head, "best other", "hits", "ahead of it", "opt"], lines)


def told_means(judgement: Judgement) -> str:
    """Each policy's mean over all cells."""
    lines = [[name, f"{rate:.2f}"] for name, rate in judgement.means.items()]
    return table(["policy", "mean"], lines)


def row(place: Place) -> dict[str, Any]:
    """A place as it is saved."""
    kept = {
        field.name: getattr(place, field.name)
        for field in dataclasses.fields(place)
        if field.name != "drawn"
    }
    rounded: dict[str, Any] = json.loads(
        json.dumps(kept), parse_float=lambda text: round(float(text), 3)
    )
    return rounded


def main() -> int:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(prog="python -m perf.unseen", description=__doc__)
    parser.add_argument("--family", default=",".join(FAMILIES), metavar="LIST")
    parser.add_argument("--seeds", type=int, default=3, help="of each family")
    parser.add_argument("--trace", type=Path, action="append", default=[], metavar="FILE")
    parser.add_argument("--save", action="store_true", help="write perf/results/DATE-unseen.json")
    asked = parser.parse_args()
    warn_debug()
    families = [name for name in asked.family.split(",") if name]
    if unknown := set(families) - set(FAMILIES):
        parser.error(f"--family: no {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    found = places(families, asked.seeds, asked.trace)
    judgements = {name: together(some) for name, some in groups(found).items()}
    print(told_places(found), told(judgements), sep="\n\n")
    for name, judgement in list(judgements.items())[-1:]:
        print(f"\n{name}:\n\n{told_means(judgement)}")
    if asked.save:
        said = {name: dataclasses.asdict(one) for name, one in judgements.items()}
        save("unseen", [], [row(place) for place in found], judgements=said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
