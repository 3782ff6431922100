"""What SECURITY.md promises and no other test holds: no port, no connection, no pickle."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text("utf-8")

WATCHED = """
import sys

SEEN = []
WATCHED = ("socket.bind", "socket.connect", "socket.sendto", "pickle.find_class", "urllib.Request")
sys.addaudithook(lambda event, _: SEEN.append(event) if event in WATCHED else None)
"""
SERVE = """
import numpy as np
from kvframe import Config, KVCacheManager
from kvframe.pages import LAYER_FIRST, Layout, NumpyPool, PageShape
from kvframe.tiers import Tiers

config = Config.of(
    cache={"block_size": 4, "capacity": 8, "weight_version": "w"},
    model={"layers": 1, "kv_heads": 1, "head_dim": 8, "dtype": "float16"},
    tiers=[
        {"name": "host", "capacity": 4},
        {"name": "disk", "store": "disk", "capacity": 64, "options": {"path": "pages"}},
    ],
)
kv = KVCacheManager(config)
shape = PageShape.of_model(kv.inspect.resolved.config.model, kv.block_size)
tiers = Tiers(kv, NumpyPool(Layout.of(LAYER_FIRST, shape, blocks=8), dtype=np.float16))
for start in range(0, 400, 20):
    seq = tiers.allocate(range(start, start + 13)).seq
    kv.commit(seq, 13)
    tiers.offload(seq)
    kv.release(seq)
    tiers.drain()
assert tiers.lookup(range(13)).tiers["disk"] == 12
tiers.close()
"""
REPLAY = """
from kvframe.cli import main
try:
    main(["bench", "run", "--policy", "lru,lfuda", "--capacity", "1000", "--jobs", "1"])
except SystemExit as end:
    assert end.code == 0, end.code
"""


def watched(code: str, folder: Path) -> list[str]:
    """Which of the watched events happen while ``code`` runs in a process of its own."""
    script = f"{WATCHED}{code}\nprint('seen', *SEEN)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()[1:]


def test_a_watched_event_is_seen(tmp_path: Path) -> None:
    code = "import pickle, socket\nsocket.socket().bind(('127.0.0.1', 0))\n"
    code += "pickle.loads(pickle.dumps(socket.AddressFamily.AF_INET))"
    assert watched(code, tmp_path)[0] == "socket.bind"
    assert "pickle.find_class" in watched(code, tmp_path)


@pytest.mark.parametrize("code", [SERVE, REPLAY], ids=["a manager", "a replay"])
def test_no_port_is_opened_and_no_pickle_read(code: str, tmp_path: Path) -> None:
    assert watched(code, tmp_path) == []


def test_every_test_that_the_page_names_is_there() -> None:
    named = re.findall(r"`((?:tests|rust)/[\w/.-]+)(?:::(\w+))?`", PAGE)
    assert len(named) > 10
    for path, name in named:
        assert (ROOT / path).exists(), path
        if name:
            assert f"def {name}(" in (ROOT / path).read_text("utf-8"), f"{path}::{name}"


def test_the_sources_load_no_pickle() -> None:
    files = [
        *(ROOT / "python" / "kvframe").rglob("*.py"),
        *(ROOT / "plugins").glob("*/src/**/*.py"),
    ]
    banned = re.compile(
        r"import (pickle|marshal|shelve|yaml)\b|torch\.load\("
        r"|np\.load\((?![^\n]*allow_pickle=False)"
    )
    found = [str(path) for path in files if banned.search(path.read_text("utf-8"))]
    assert found == []
