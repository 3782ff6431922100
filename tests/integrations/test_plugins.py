"""The tests of the plugins for other engines, by the Python of an engine that a variable names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .peer import PLUGINS, Peer


def files() -> list[tuple[str, str]]:
    """An engine and a file of its plugin's tests."""
    return [
        (engine, file.name)
        for engine in ("vllm", "sglang")
        for file in sorted((PLUGINS / f"kvframe-{engine}" / "tests").glob("test_*.py"))
    ]


@pytest.mark.parametrize(("engine", "file"), files())
def test_they_pass_there(engine: str, file: str, tmp_path: Path) -> None:
    peer, plugin = Peer(engine, tmp_path, f"kvframe-{engine}"), PLUGINS / f"kvframe-{engine}"
    done = peer.run(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull),
        *("--rootdir", str(plugin), f"tests/{file}"),
        cwd=plugin,
        # SGLang compiles the hashes of its events with the ninja beside its Python.
        PATH=os.pathsep.join([str(Path(peer.python).parent), os.environ["PATH"]]),
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
