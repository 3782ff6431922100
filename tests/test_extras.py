"""Without an optional package, what needs it says so on one line, with the extra to install."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BAR = """
import sys


class Barred:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {barred!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Barred())
"""


@pytest.mark.parametrize(
    ("barred", "arguments", "extra"),
    [
        ("rich", ["top"], "top"),
        ("prometheus_client", ["top"], "top"),
        ("zmq", ["events", "record", "made.jsonl", "tcp://127.0.0.1:5557"], "wire"),
        ("zmq", ["events", "tail", "tcp://127.0.0.1:5557"], "wire"),
        ("zmq", ["events", "index", "--block-size", "16", "tcp://127.0.0.1:5557"], "wire"),
    ],
)
def test_a_command_names_the_extra(
    tmp_path: Path, barred: str, arguments: list[str], extra: str
) -> None:
    (tmp_path / "bar").mkdir()
    (tmp_path / "bar" / "sitecustomize.py").write_text(BAR.format(barred={barred}))
    done = subprocess.run(
        [sys.executable, "-m", "kvframe", *arguments],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "bar")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert re.fullmatch(rf"error: .+: pip install 'kvframe\[{extra}\]'\n", done.stderr)
    assert not (tmp_path / "made.jsonl").exists()


@pytest.mark.parametrize("name", ["Announcer", "Curve", "Publisher", "Subscriber"])
def test_the_sockets_name_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import kvframe.wire

    monkeypatch.setitem(sys.modules, "zmq", None)
    for module in ("announcer", "publisher", "sockets", "stream", "subscriber"):
        monkeypatch.delitem(sys.modules, f"kvframe.wire.{module}", raising=False)
    monkeypatch.delitem(vars(kvframe.wire), name, raising=False)  # once used, it is kept there
    with pytest.raises(ImportError, match=r"need pyzmq: pip install 'kvframe\[wire\]'"):
        getattr(kvframe.wire, name)


def test_every_extra_that_is_named_exists() -> None:
    places = [*(ROOT / "python").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    named = {
        extra.strip()
        for path in places
        for extras in re.findall(r"kvframe\[([a-z, ]+)\]", path.read_text())
        for extra in extras.split(",")
    }
    assert {"top", "wire"} <= named <= set(PROJECT["optional-dependencies"])
