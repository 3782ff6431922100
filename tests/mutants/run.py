"""Plants each mutant into a copy of the core and demands that some test of the core notices.

Usage: python tests/mutants/run.py [--only NAME_OR_NUMBER ...] [--jobs N]

A mutant is judged by `cargo test -p kvframe-core` alone, one test file after another, the test that
killed it last time before all others (`kills.toml`, which a run brings up to date).
Exit status: 0 if every mutant was killed, 1 if one survived, 2 if the list or the baseline is bad.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.mutants import kills
from tests.mutants.listing import MUTANTS
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "rust" / "core"
WORK = ROOT / "target" / "mutants"
BUILD_LIMIT_S = 600
TEST_LIMIT_S = 600  # they take less than ten on a machine that does nothing else
PROFILE = """
# The core is built again for each mutant, and tested for seconds: what it is built on is not.
[profile.mutants]
inherits = "dev"
opt-level = 0
debug = 0
[profile.mutants.package."*"]
opt-level = 2
"""
FAILED = re.compile(
    r"^(?:test (\S+) \.\.\. FAILED$|FAILED (\S+)|thread '([^']+)' .*has overflowed its stack$)",
    re.MULTILINE,
)


def plant(mutant: Mutant, text: str) -> str:
    """The mutated source.

    Raises:
        ValueError: The text to replace is not there exactly once: the list is out of date.
    """
    count = text.count(mutant.old)
    if count != 1:
        raise ValueError(f"{mutant.name}: its text occurs {count} times in {mutant.file}, not once")
    return text.replace(mutant.old, mutant.new)


def copy_core(place: Path) -> None:
    """Makes `place` a workspace of the core alone; files that did not change stay untouched."""
    manifest = (ROOT / "Cargo.toml").read_text()
    manifest = re.sub(r"^members = .*$", 'members = ["rust/core"]', manifest, flags=re.MULTILINE)
    manifest = re.sub(r"^default-members = .*$", "", manifest, flags=re.MULTILINE)
    wanted = {Path("Cargo.toml"): (manifest + PROFILE).encode()}
    if not (place / "Cargo.lock").exists():
        wanted[Path("Cargo.lock")] = (ROOT / "Cargo.lock").read_bytes()
    for path in [CORE / "Cargo.toml", *CORE.glob("src/**/*.rs"), *CORE.glob("tests/**/*.rs")]:
        wanted[path.relative_to(ROOT)] = path.read_bytes()
    if (place / "rust").exists():
        for path in (place / "rust").rglob("*.rs"):
            if path.relative_to(place) not in wanted:
                path.unlink()
    for name, data in wanted.items():
        target = place / name
        if not target.exists() or target.read_bytes() != data:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def cargo(place: Path, arguments: tuple[str, ...], limit_s: int) -> tuple[int | None, str]:
    """Runs `cargo test` in `place`; the status is None if it had to be stopped."""
    env = {
        **os.environ,
        "CARGO_TARGET_DIR": str(place / "target"),
        "CARGO_INCREMENTAL": "1",
        "CARGO_TERM_COLOR": "never",
        "RUST_BACKTRACE": "0",
        "KVFRAME_RUNS": "8",
        "KVFRAME_SCRIPTS": "60",
        "PROPTEST_RNG_SEED": "20261",
    }
    process = subprocess.Popen(
        ["cargo", "test", "--package", "kvframe-core", "--profile", "mutants", *arguments],
        cwd=place,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None, ""
    return process.returncode, output


def stages(mutant: Mutant | None) -> list[tuple[str, str]]:
    """Test files and a test in each (all, if empty), in the order in which they judge `mutant`."""
    files = sorted(path.stem for path in (CORE / "tests").glob("*.rs"))
    files += sorted(path.parent.name for path in (CORE / "tests").glob("*/main.rs"))
    every = [(file, "") for file in kills.ordered([*files, "lib"])]
    last = kills.load().get(mutant.name) if mutant else None
    return [last, *every] if last else every


def judge(mutant: Mutant | None, place: Path) -> tuple[str, str]:
    """Tests the core with `mutant` in it: killed | survived | error, and by what or why.

    What does not build, or runs until it has to be stopped, is an error: no test has judged it.
    """
    if mutant is not None and mutant.tests:
        return judge_package(mutant, place)
    copy_core(place)
    if mutant is not None:
        source = place / mutant.source
        source.write_text(plant(mutant, source.read_text()))
    for file, test in stages(mutant):
        target = ("--lib",) if file == "lib" else ("--test", file)
        status, output = cargo(place, (*target, "--no-run"), BUILD_LIMIT_S)
        if status != 0:
            lines = [line for line in output.splitlines() if line.startswith("error")]
            return "error", "; ".join(lines) or "the build had to be stopped"
        exact = ("--", "--exact", test) if test else ()
        status, output = cargo(place, (*target, *exact), TEST_LIMIT_S)
        if status is None:
            return "error", f"the tests of {file} had to be stopped"
        if status != 0:
            verdict, detail = verdict_of(output)
            return verdict, f"{file} {detail}"
    return "survived", ""


def judge_package(mutant: Mutant, place: Path) -> tuple[str, str]:
    """The same of the Python package, which need not be built."""
    package = place / "python" / "kvframe"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(ROOT / "python" / "kvframe", package)
    source = place / mutant.source
    source.write_text(plant(mutant, source.read_text()))
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *mutant.tests]
    env = os.environ | {"PYTHONPATH": str(package.parent)}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=TEST_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return "error", "the tests had to be stopped"
    if done.returncode == 0:
        return "survived", ""
    return verdict_of(done.stdout)


def verdict_of(output: str) -> tuple[str, str]:
    """Which tests failed, of what cargo said; a stack that overflows takes its test along."""
    failed = ["".join(names) for names in FAILED.findall(output)]
    if not failed:
        return "error", "no test failed, and yet they did not end well"
    more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    return "killed", failed[0] + more


def chosen(only: list[str] | None) -> list[Mutant]:
    """The mutants asked for, by number (from 1), name, or a defect they bring back."""
    if only is None:
        return list(MUTANTS)
    return [m for i, m in enumerate(MUTANTS, 1) if {str(i), m.name, *m.rows} & set(only)]


def run(mutants: list[Mutant], jobs: int) -> int:
    """Judges all of them and prints one line each."""
    places: SimpleQueue[Path] = SimpleQueue()
    for job in range(jobs):
        places.put(WORK / str(job))
    verdict, detail = judge(None, WORK / "0")
    if verdict != "survived":
        print(f"the core fails without any mutant: {detail}", file=sys.stderr)
        return 2
    worst = 0

    def one(mutant: Mutant) -> tuple[Mutant, str, str, float]:
        place = places.get()
        start = time.monotonic()
        try:
            verdict, detail = judge(mutant, place)
        except ValueError as error:
            verdict, detail = "error", str(error)
        finally:
            places.put(place)
        return mutant, verdict, detail, time.monotonic() - start

    with ThreadPoolExecutor(jobs) as pool:
        for mutant, verdict, detail, seconds in pool.map(one, mutants):
            number = MUTANTS.index(mutant) + 1
            print(f"{number:>2} {mutant.name:<28} {verdict:<9} {seconds:5.1f} s  {detail}")
            if verdict == "survived":
                print(f"   {mutant.why}")
            if verdict == "killed" and not mutant.tests:
                kills.keep(mutant.name, detail)
            worst = max(worst, {"killed": 0, "survived": 1, "error": 2}[verdict])
            sys.stdout.flush()
    return worst


def main() -> int:
    """Reads the command line and runs."""
    parser = argparse.ArgumentParser(description="Plant defects in the core; tests must notice.")
    parser.add_argument("--only", nargs="+", help="some, by name, number or row")
    parser.add_argument("--jobs", type=int, default=1, help="builds at a time (default 1)")
    parser.add_argument("--clean", action="store_true", help="drop earlier builds first")
    options = parser.parse_args()
    if options.clean:
        shutil.rmtree(WORK, ignore_errors=True)
    mutants = chosen(options.only)
    if not mutants:
        parser.error(f"no mutant {options.only!r}; there are {', '.join(m.name for m in MUTANTS)}")
    return run(mutants, max(1, options.jobs))


if __name__ == "__main__":
    sys.exit(main())
