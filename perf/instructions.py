"""Instructions that the core's hot paths take, counted by callgrind and held to a record.

Usage, from a checkout: python -m perf.instructions [--record]

Counts do not depend on how busy or fast a machine is. They do depend on the compiler: beside the
record stands its version, and under another one the limit is wider. What is left (libc's memcpy,
say, is chosen by the processor) is far below the limit.

Some works are counted beside few and beside 16 times as many others: one that names as much at both
sizes may take no more than twice as much, one that names all of them no more than n log n. These
limits need no record.

Exit status: 0 if no work takes more than its limit, or valgrind is missing; 1 if one does, or the
works are not those of the record; 2 if they cannot be counted.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PROGRAM = ROOT / "target" / "release" / "examples" / "instructions"
RECORD = Path(__file__).parent / "instructions.toml"
LIMIT, OTHER_COMPILER = 0.10, 0.25
SIZES = 256, 4_096
FEW, ALL = 2.0, 16 * 12 / 8
"""Growth from the first size to the second: of what names few things, and n log n."""
HEAD = """\
# Instructions an operation of the core's hot paths takes; CI fails on more than 10 % above these.
# What each work is: rust/trace/examples/instructions/works.rs. Written by: make instructions-record
"""


class Record(NamedTuple):
    """What was counted, and by which compiler's code: ``rustc``'s version, work → instructions."""

    rustc: str
    works: dict[str, int]

    @classmethod
    def read(cls, file: Path = RECORD) -> Record:
        """The record in ``file``."""
        table = tomllib.loads(file.read_text())
        return cls(table["rustc"], table["works"])

    def write(self, file: Path = RECORD) -> None:
        """Put it into ``file``."""
        works = "".join(f"{work} = {count}\n" for work, count in self.works.items())
        file.write_text(f'{HEAD}rustc = "{self.rustc}"\n\n[works]\n{works}')


def build() -> None:
    """The program of the works, as a release is built."""
    command = ["cargo", "build", "--quiet", "--release", "--locked"]
    example = ["--package", "kvframe-trace", "--example", "instructions"]
    subprocess.run([*command, *example], cwd=ROOT, check=True)


def rustc() -> str:
    """The version of the compiler."""
    said = subprocess.run(["rustc", "--version"], cwd=ROOT, check=True, capture_output=True)
    return said.stdout.decode().split()[1]


def works() -> list[str]:
    """The names of all works."""
    return subprocess.run([PROGRAM], check=True, capture_output=True).stdout.decode().split()


def growing() -> dict[str, float]:
    """The works that are counted at two sizes, and by how much each may grow."""
    said = subprocess.run([PROGRAM, "--growth"], check=True, capture_output=True).stdout.decode()
    rows = [line.split() for line in said.splitlines()]
    return {work: ALL if names == "all" else FEW for work, names in rows}


def judge_growth(counted: Mapping[str, Sequence[int]], limits: Mapping[str, float]) -> list[str]:
    """A line a work; those that grow too much end in capitals."""
    lines = []
    for work, (small, large) in counted.items():
        growth = large / small
        line = f"{work:26}{small:>12,} -> {large:>12,}  x{growth:.2f}"
        over = growth > limits[work]
        lines.append(line + (f"  MORE THAN x{limits[work]:.0f}" if over else ""))
    return lines


def count(work: str, *size: str) -> int:
    """Instructions an operation of ``work``, beside so many others if there is a size."""
    callgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    only = ["--collect-atstart=no", "--toggle-collect=*counted_part*"]
    ran = subprocess.run(
        [*callgrind, *only, PROGRAM, work, *size], check=True, capture_output=True, text=True
    )
    collected = re.search(r"Collected : (\d+)", ran.stderr)
    assert collected is not None, ran.stderr
    return round(int(collected[1]) / int(ran.stdout))


def judge(counted: Record, recorded: Record) -> tuple[list[str], bool]:
    """A line a work, and whether all of them may pass."""
    limit = LIMIT if counted.rustc == recorded.rustc else OTHER_COMPILER
    lines, good = [], True
    if counted.rustc != recorded.rustc:
        lines.append(
            f"recorded with rustc {recorded.rustc}, this is {counted.rustc}: "
            f"the limit is {limit:.0%}; record anew with: make instructions-record"
        )
    for work in recorded.works.keys() - counted.works.keys():
        lines.append(f"{work}: in the record, and no work")
        good = False
    for work, now in counted.works.items():
        before = recorded.works.get(work)
        if before is None:
            lines.append(f"{work}: not in the record; make instructions-record")
            good = False
            continue
        change = now / before - 1
        line = f"{work:30}{before:>10,} -> {now:>10,}  {change:+7.1%}"
        if change > limit:
            line += f"  MORE THAN {limit:.0%} ABOVE ITS RECORD"
            good = False
        elif change < -limit:
            line += "  better: hold on to it with make instructions-record"
        lines.append(line)
    return lines, good


def gate(counted: Mapping[str, int], version: str, record: Path, anew: bool) -> int:
    """Compares with the record, or writes it; the exit status."""
    now = Record(version, dict(counted))
    if anew:
        now.write(record)
        print(f"wrote {record.name}: {len(now.works)} works")
        return 0
    if not record.exists():
        print(f"error: no {record.name}; make instructions-record", file=sys.stderr)
        return 2
    lines, good = judge(now, Record.read(record))
    print("\n".join(lines))
    if not good:
        print("if this is meant, say why in the commit and: make instructions-record")
    return 0 if good else 1


def main(argv: Sequence[str] | None = None) -> int:
    """Count, then compare or record."""
    parser = argparse.ArgumentParser(
        "python -m perf.instructions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--record", action="store_true", help="write instructions.toml anew")
    given = parser.parse_args(argv)
    if shutil.which("valgrind") is None:
        print("instructions: not counted, there is no valgrind (a package of that name has it)")
        return 2 if given.record else 0
    try:
        build()
        counted = {work: count(work) for work in works()}
        limits = growing()
        grown = {work: [count(work, str(size)) for size in SIZES] for work in limits}
    except subprocess.CalledProcessError as error:
        print(f"error: {error}\n{error.stderr or ''}", file=sys.stderr)
        return 2
    lines = judge_growth(grown, limits)
    print(f"beside {SIZES[0]:,} and {SIZES[1]:,} others:", *lines, sep="\n")
    status = gate(counted, rustc(), RECORD, given.record)
    return status or int(any("MORE THAN" in line for line in lines))


if __name__ == "__main__":
    sys.exit(main())
