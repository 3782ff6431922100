"""LMCache by configuration alone: its own loaders ($LMCACHE_PYTHON) find kvframe's policies."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

from .peer import HERE, Peer

MODULE = {"module_path": "kvframe.integrations.lmcache_server", "config": {"policy": "arc"}}


def test_a_backend_and_a_server_get_the_policy_that_is_named(tmp_path: Path) -> None:
    peer = Peer("lmcache", tmp_path)
    done = peer.run("-W", "ignore", str(HERE / "lmcache" / "by_name.py"))
    told = [line for line in done.stdout.splitlines() if line.startswith(("backend ", "server "))]
    assert told == [
        "backend kvframe:arc: KvframeCachePolicy arc",
        "backend kvframe:S3-FIFO: KvframeCachePolicy s3-fifo",
        "backend kvframe: KvframeCachePolicy lru",
        "backend LRU: LRUCachePolicy -",
        "server arc: KvframeEvictionPolicy arc {}",
        "server s3-fifo: KvframeEvictionPolicy s3-fifo {'small_percent': 20}",
    ], done.stderr[-3000:]


def test_lmcache_server_starts_with_it(tmp_path: Path) -> None:
    peer = Peer("lmcache", tmp_path)
    log = tmp_path / "server.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            [
                *(peer.python, "-W", "ignore", "-m", "lmcache.cli.main", "server"),
                *("--host", "127.0.0.1", "--port", "0", "--http-port", "0"),
                *("--l1-size-gb", "0.01", "--eviction-policy", "LRU"),
                *("--server-module", json.dumps(MODULE)),
            ],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(peer.path), "NO_COLOR": "1"},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            until = time.monotonic() + 120
            wanted = "kvframe's policy arc evicts in this server"
            while wanted not in log.read_text() and server.poll() is None:
                assert time.monotonic() < until, log.read_text()[-2000:]
                time.sleep(0.2)
        finally:
            server.kill()
            server.wait()
    assert wanted in log.read_text(), log.read_text()[-3000:]
