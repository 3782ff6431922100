"""The tutorial, word by word, in an environment that has nothing but Python.

Its commands run in a shell of that environment. pip finds there, as wheels, what is installed here
(`wheelhouse`), and no network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .pages import blocks, commands, matches
from .wheels import wheelhouse

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "your-first-policy.md"
MINUTES = 10
"""What the page promises, reading and typing included; the commands may take all of it."""


def shell(command: str, folder: Path, wheels: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a shell in which ``.venv`` is active, once there is one."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    tools = [str(folder / ".venv" / "bin"), "/usr/local/bin", "/usr/bin", "/bin"]
    return subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=folder,
        env={
            **kept,
            "PATH": os.pathsep.join(tools),
            "COLUMNS": "120",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60 * MINUTES,
        check=False,
    )


def test_both_tutorials_say_how_to_install_in_the_same_words() -> None:
    pages = [path.read_text() for path in PAGE.parent.glob("*.md")]
    begin, end = "Nothing is on PyPI yet.", "pip install kvframe\n```\n"
    told = {text[text.index(begin) : text.index(end)] for text in pages}
    assert (len(pages), len(told)) == (2, 1)


@pytest.mark.slow
@pytest.mark.scenario("S22")
def test_the_tutorial_ends_on_the_leaderboard(tmp_path: Path) -> None:
    wheels, folder = tmp_path / "wheels", tmp_path / "empty"
    wheels.mkdir()
    folder.mkdir()
    wheelhouse(wheels, "kvframe", "pytest", "flit-core")
    start, printed = time.monotonic(), ""
    for block in blocks(PAGE.read_text()):
        if block.file is not None:
            target = folder / block.file
            assert target.parent.is_dir(), f"line {block.line}: no folder for {block.file}"
            target.write_text(block.text)
        elif block.language in ("console", "bash"):
            for command in commands(block):
                # The interpreter of this run, whatever `python3` is out there.
                text = command.text
                if text.startswith("python3 -m venv"):
                    text = text.replace("python3", sys.executable, 1)
                done = shell(text, folder, wheels)
                printed = done.stdout
                told = f"line {block.line}: {command.text}\n{printed}"
                assert done.returncode == command.exit_code, told
                assert not command.output or matches(command.output, printed), told
    assert time.monotonic() - start < 60 * MINUTES
    row = next(line for line in printed.splitlines() if line.startswith("second-visit *"))
    assert int(row.split()[2]) >= 1
    assert "\nsecond-visit keeps every promise" in printed
    installed = shell("kvframe plugins", folder, wheels).stdout
    assert "second-visit" in installed
    assert "kvframe-second-visit" in installed
    shutil.rmtree(folder / ".venv")
