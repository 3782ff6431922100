"""The tests of a card on the current one, plain and under the sanitizer: ``python -m perf.card``.

Bitwise round trips of every layout, beside the NumPy backend; then kvframe's kernels in the same
tests under memcheck and racecheck of compute-sanitizer, which has to be on the path, once each has
found what is wrong with a kernel made to be. CI has no card: its results are kept.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import cupy

from kvframe.bench.results import now
from perf.gpu import driver, short_name
from perf.results import command

TOOLS = ("memcheck", "racecheck")
# Of kernels with these in their names alone: racecheck takes minutes for one product of cuBLAS.
KERNELS = ("move_", "fill_pages", "_tokens")
# Without CuPy's pools each array is an allocation, whose end memcheck knows.
CHECKED = (
    "import sys, cupy, pytest; cupy.cuda.set_allocator(None); sys.exit(pytest.main(sys.argv[1:]))"
)
BAIT = """
import cupy
cupy.cuda.set_allocator(None)
code = r'''extern "C" __global__ void move_bait(int* p) {
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    p[threadIdx.x] = s[63 - threadIdx.x];  // no barrier before it
    p[threadIdx.x + 1024] = 0;             // past the end
}'''
cupy.RawModule(code=code).get_function("move_bait")((1,), (64,), (cupy.empty(64, "i4"),))
cupy.cuda.Device().synchronize()
"""
Row = dict[str, Any]


def sanitized(tool: str, program: str) -> list[str]:
    """The command that runs a program under a tool."""
    only = [option for name in KERNELS for option in ("--kernel-name", f"kns={name}")]
    tooled = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", *only]
    return [*tooled, sys.executable, "-c", program]


def bites(tool: str) -> Row:
    """Whether a tool finds what is wrong with a kernel made to be."""
    ended = subprocess.run(sanitized(tool, BAIT), stdout=subprocess.PIPE, text=True)
    row = {"tool": tool, "bait": summary(ended.stdout), "exit": int(ended.returncode != 9)}
    print(row, file=sys.stderr)
    return row


def summary(text: str) -> str | None:
    """A tool's last word."""
    found = [line.strip("= ") for line in text.splitlines() if "SUMMARY: " in line]
    return found[-1] if found else None


def run(tool: str | None, tests: list[str]) -> Row:
    """One run of the tests, and what the tool says at its end."""
    command = [sys.executable, "-m", "pytest"]
    if tool is not None:
        command = sanitized(tool, CHECKED)
    started = time.time()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        told = ["-q", "-p", "no:cacheprovider", f"--junitxml={report}", *tests]
        ended = subprocess.run(
            [*command, *told], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        suites = list(ElementTree.parse(report).getroot()) if report.exists() else []
    counts = {
        what: sum(int(suite.get(what, 0)) for suite in suites)
        for what in ("tests", "failures", "errors", "skipped")
    }
    row = {
        "tool": tool,
        **counts,
        "seconds": round(time.time() - started, 1),
        "summary": summary(ended.stdout),
        "exit": ended.returncode,
    }
    print(row, file=sys.stderr)
    if ended.returncode:
        print(ended.stdout[-4000:], file=sys.stderr)
    return row


@click.command()
@click.option("--save", type=click.Path(path_type=Path), help="Folder to write to.")
@click.argument("tests", nargs=-1)
def main(save: Path | None, tests: tuple[str, ...]) -> None:
    """Run the tests of a card; under the sanitizer TESTS of them, or all."""
    tools = [tool for tool in TOOLS if shutil.which("compute-sanitizer")]
    if not tools:
        print("compute-sanitizer is not on the path: the tests run without it", file=sys.stderr)
    card, rows = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(), []
    cards = cupy.cuda.runtime.getDeviceCount()
    name = short_name(card) + (f"x{cards}" if cards > 1 else "")
    for tool in (None, *tools):
        if tool is not None:
            rows.append(bites(tool))
        rows.append(run(tool, list(tests if tool and tests else ["tests/gpu"])))
        record = {
            "date": now(),
            "card": card,
            "cards": cards,
            "driver": driver(),
            "versions": {"cupy": cupy.__version__, "numpy": version("numpy")},
            "command": command("card"),
            "rows": rows,
        }
        if save is not None:
            file = save / f"card-{name}-{record['date'][:10]}.json"
            file.write_text(json.dumps(record, indent=2) + "\n")
    sys.exit(any(row["exit"] for row in rows))


if __name__ == "__main__":
    main()
