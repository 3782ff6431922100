"""``kvframe top`` on a running manager, in a terminal of tmux."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from kvframe import UsageError
from kvframe.metrics.view import fetched, page, scraped

ENGINE = Path(__file__).with_name("engine.py")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where an engine in a process of its own serves its metrics."""
    program = subprocess.Popen(
        [sys.executable, str(ENGINE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdin is not None
    assert program.stdout is not None
    try:
        yield program.stdout.readline().strip()
    finally:
        program.stdin.close()
        program.wait()
        program.stdout.close()


def run(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kvframe", "top", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


WORDS = (
    "blocks: ",
    "hit rate",
    "since the start",
    "who holds what",
    "5 blocks, 1 live sequences",
    "pins of team a",
    "2 blocks, 1 pins",
    "unsettled: lease",
    "1 blocks, 1 tickets, the oldest is ",
    "why prefixes end",
    "never_seen",
    "tiers",
    "host",
    "lost to others",
    "(others)",
    "tenants in tiers",
)


def test_one_page_says_usage_hits_and_who_holds_what(url: str) -> None:
    done = run(url, "--once")
    assert done.returncode == 0, done.stderr
    assert [word for word in WORDS if word not in done.stdout] == []


def test_it_runs_in_a_terminal(url: str, tmp_path: Path) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("no tmux")
    tmux = ["tmux", "-f", "/dev/null", "-S", str(tmp_path / "socket")]
    command = f"{sys.executable} -m kvframe top {url} --interval 0.2"
    subprocess.run(
        [*tmux, "new-session", "-d", "-s", "top", "-x", "120", "-y", "40", command], check=True
    )
    try:
        shown = ""
        for _ in range(600):
            captured = subprocess.run(
                [*tmux, "capture-pane", "-p", "-t", "top"],
                capture_output=True,
                text=True,
                check=False,
            )
            shown = captured.stdout
            if "per second" in shown:
                break
            time.sleep(0.1)
        assert [word for word in (*WORDS, "per second") if word not in shown] == []
        subprocess.run([*tmux, "send-keys", "-t", "top", "C-c"], check=True)
        for _ in range(100):
            if subprocess.run([*tmux, "has-session"], capture_output=True, check=False).returncode:
                break
            time.sleep(0.1)
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True, check=False)


def test_a_page_that_cannot_be_had_ends_it_with_one_line(url: str) -> None:
    done = run("http://127.0.0.1:1/metrics", "--once")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "nothing serves metrics there; an engine does after kvframe.metrics" in done.stderr
    done = run(url, "--once", "--engine", "7")
    assert "no metrics of kvframe for engine 7; there: 0" in done.stderr
    with pytest.raises(UsageError, match="must start with http"):
        fetched("file:///etc/passwd")
    with pytest.raises(UsageError, match="engine -; there: none"):
        scraped("# nothing\n", None, 0.0)
    two = 'kvframe_blocks{engine="a",state="free"} 1\nkvframe_blocks{engine="b",state="free"} 1\n'
    with pytest.raises(UsageError, match="engines a, b: name one with --engine"):
        scraped(two, None, 0.0)


def test_no_label_moves_the_cursor_or_is_markup() -> None:
    text = 'kvframe_pinned_blocks{engine="0",owner="[red]\x1b[2Ja"} 3\n'
    console = Console(width=100)
    with console.capture() as capture:
        console.print(page(scraped(text, None, 0.0)))
    assert "pins of [red]?[2Ja" in capture.get()
