"""Ctrl-C, a reader that leaves, a terminal: the command as a citizen of the shell."""

import json
import os
import pty
import signal
import subprocess
import time
from pathlib import Path

from ..signals import hears_interrupts
from .conftest import KVFRAME, Command

# About twenty seconds of replays, of which a test waits for two.
LONG = ["run", "--trace", "agent", "--policy", "lru", "--capacity"]
LONG.append(",".join(str(1000 + 50 * i) for i in range(400)))


def interrupted(folder: Path, *more: str) -> tuple[int, str, str]:
    """Start a long run, send SIGINT once two cells are kept; exit code, stdout, stderr."""
    command = [str(KVFRAME), "bench", *LONG, "--format", "json", "--out", "results", *more]
    with subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hears_interrupts,
    ) as process:
        kept = folder / "results" / "cells"
        deadline = time.monotonic() + 60
        while not kept.is_dir() or len(list(kept.glob("*.json"))) < 2:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        out, err = process.communicate(timeout=30)
        assert time.monotonic() - sent < 10
    return process.returncode, out, err


def test_ctrl_c_keeps_finished_cells_and_a_later_run_takes_them(
    bench: Command, tmp_path: Path
) -> None:
    code, out, err = interrupted(tmp_path)
    assert code == 130
    finished = json.loads(out)["cells"]
    assert 2 <= len(finished) < 400
    assert f"interrupted: {len(finished)} of 400 cells" in err
    assert "Traceback" not in err
    record = json.loads((tmp_path / "results" / "run.json").read_bytes())
    assert record["state"] == "interrupted"
    assert len(record["unfinished"]) == 400 - len(finished)

    sizes = ",".join(str(cell["capacity_blocks"]) for cell in finished)
    again = bench("run", "--trace", "agent", "--policy", "lru", "--capacity", sizes, "--format",
                  "json", "--out", "results")  # fmt: skip
    # The timings are equal too: nothing ran again.
    assert json.loads(again.stdout)["cells"] == finished
    assert f"{len(finished)} of {len(finished)} cells taken from results" in again.stderr


def test_ctrl_c_with_jobs_keeps_the_cells_that_run(tmp_path: Path) -> None:
    code, out, err = interrupted(tmp_path, "--jobs", "2")
    assert code == 130
    finished = json.loads(out)["cells"]
    kept = list((tmp_path / "results" / "cells").glob("*.json"))
    assert len(kept) == len(finished) >= 2
    assert "Traceback" not in err


def test_a_reader_that_leaves_is_no_error_message(tmp_path: Path) -> None:
    with subprocess.Popen(
        [KVFRAME, "bench", "run", "--policy", "lru", "--capacity", "1000", "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 141


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [KVFRAME, "bench", "run", "--policy", "lru", "--capacity", "1000"],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == b"error: stdout: No space left on device\n"


def test_progress_is_one_line_on_a_terminal_only(bench: Command, small: Path) -> None:
    asked = ["run", "--trace", str(small), "--policy", "lru,fifo", "--capacity", "2", "--format",
             "json"]  # fmt: skip
    assert bench(*asked).stderr == ""
    for more, shown in (([], True), (["--quiet"], False)):
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [KVFRAME, "bench", *asked, *more], stdout=subprocess.PIPE, stderr=theirs
        ) as process:
            os.close(theirs)
            out, _ = process.communicate(timeout=60)
        try:
            said = os.read(ours, 10_000)
        except OSError:  # Linux: the other side has closed, and nothing was written.
            said = b""
        finally:
            os.close(ours)
        assert json.loads(out)["cells"]
        assert (b"\r[1/2] " in said) == shown
        assert b"\n" not in said
