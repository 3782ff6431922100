"""The policy in C of docs/how-to/write-a-native-policy.md is the built-in fifo, as it says."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np

from kvframe import KVCacheManager
from kvframe.native import NativePolicy, include_dir
from tests.docs.pages import blocks

from .helpers import capsule, compiler, manager, serve

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-a-native-policy.md"


def test_the_policy_in_c_is_the_built_in_fifo(tmp_path: Path) -> None:
    (source,) = (block.text for block in blocks(PAGE.read_text()) if block.language == "c")
    (tmp_path / "fifo.c").write_text(source)
    command = [compiler(), "-O2", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{include_dir()}"]
    built = tmp_path / "fifo.so"
    subprocess.run([*command, str(tmp_path / "fifo.c"), "-o", str(built)], check=True)
    library = ctypes.CDLL(str(built))
    table = ctypes.addressof(ctypes.c_char.in_dll(library, "fifo"))
    ours = manager(lambda: NativePolicy(capsule(table)), event_log=True)
    fifo = KVCacheManager.from_toml(
        cache={"capacity": 8, "block_size": 4, "event_log": True}, eviction={"policy": "fifo"}
    )
    for first in (0, 100, 0, 200, 300, 100, 0, 400, 200, 0):
        for kv in (ours, fifo):
            serve(kv, first, 8 + first // 50)
    one, two = ours.log.take_events(), fifo.log.take_events()
    assert all(np.array_equal(one[column], two[column]) for column in one)
    assert ours.stats.counters()["evictions"] > 5
