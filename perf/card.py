"""The tests of a card on the current one, plain and under the sanitizer: ``python -m perf.card``.

Bitwise round trips of every layout, beside the NumPy backend; then the same under memcheck and
racecheck of compute-sanitizer, which has to be on the path. CI has no card: its results are kept.
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

TOOLS = ("memcheck", "racecheck")
# Without CuPy's pools each array is an allocation, whose end memcheck knows.
CHECKED = (
    "import sys, cupy, pytest; cupy.cuda.set_allocator(None); sys.exit(pytest.main(sys.argv[1:]))"
)
Row = dict[str, Any]


def run(tool: str | None, tests: list[str]) -> Row:
    """One run of the tests, and what the tool says at its end."""
    command = [sys.executable, "-m", "pytest"]
    if tool is not None:
        sanitizer = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9"]
        command = [*sanitizer, sys.executable, "-c", CHECKED]
    started = time.time()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        told = ["-q", "-p", "no:cacheprovider", f"--junitxml={report}", *tests]
        ended = subprocess.run(
            [*command, *told], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        suites = list(ElementTree.parse(report).getroot()) if report.exists() else []
    summary = [line.strip("= ") for line in ended.stdout.splitlines() if "SUMMARY: " in line]
    counts = {
        what: sum(int(suite.get(what, 0)) for suite in suites)
        for what in ("tests", "failures", "errors", "skipped")
    }
    row = {
        "tool": tool,
        **counts,
        "seconds": round(time.time() - started, 1),
        "summary": summary[-1:] or None,
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
    for tool in (None, *tools):
        rows.append(run(tool, list(tests if tool and tests else ["tests/gpu"])))
        record = {
            "date": now(),
            "card": card,
            "driver": driver(),
            "versions": {"cupy": cupy.__version__, "numpy": version("numpy")},
            "command": " ".join(["python", "-m", "perf.card", *sys.argv[1:]]),
            "rows": rows,
        }
        if save is not None:
            name = f"card-{short_name(card)}-{record['date'][:10]}.json"
            (save / name).write_text(json.dumps(record, indent=2) + "\n")
    sys.exit(any(row["exit"] for row in rows))


if __name__ == "__main__":
    main()
