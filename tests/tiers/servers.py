"""Stores as they run: a folder, a Redis server, a Mooncake Store; each with what can happen."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kvframe.testing import ServerProcess, free_port
from kvframe.tiers import Disk


class Server:
    """A store that the tests may break. Each call says what happens to it.

    Attributes:
        name: Of the store, as kvframe.toml says it.
        lists: Whether it says what it had before.
    """

    name: str
    lists = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def options(self) -> dict[str, Any]:
        """``[tiers.options]``."""
        raise NotImplementedError

    def flip(self, store: Any, name: str, at: int) -> None:
        """Change one bit of an object."""
        raise NotImplementedError

    def lose(self, store: Any, name: str) -> None:
        """An object is gone."""
        store.remove([name])

    def fill(self, store: Any) -> None:
        """Nothing more fits."""
        raise NotImplementedError

    def kill(self) -> None:
        """It is killed without a word."""

    def restart(self) -> None:
        """It is started again."""

    def stall(self) -> Callable[[], None]:
        """It answers nothing until it is told to go on."""
        raise NotImplementedError

    def stop(self) -> None:
        """The test is over."""


class Folder(Server):
    name = "disk"

    def options(self) -> dict[str, Any]:
        return {"path": str(self.folder / "pages")}

    def flip(self, store: Any, name: str, at: int) -> None:
        path = store._path(name)
        path.write_bytes(_flipped(path.read_bytes(), at))

    def fill(self, store: Any) -> None:
        # Root writes where nobody may: only a store without a folder cannot.
        shutil.rmtree(self.folder / "pages")
        (self.folder / "pages").write_text("a file stands here")

    def stall(self) -> Callable[[], None]:
        patch, go_on, read = pytest.MonkeyPatch(), threading.Event(), Disk._read

        def when_told(disk: Disk, path: Path) -> bytes | None:
            go_on.wait()
            return read(disk, path)

        patch.setattr(Disk, "_read", when_told)

        def end() -> None:
            patch.undo()
            go_on.set()

        return end


class Process(Server):
    """A store behind a program."""

    process: ServerProcess

    def kill(self) -> None:
        self.process.kill()

    def restart(self) -> None:
        self.process.start()

    def stall(self) -> Callable[[], None]:
        return self.process.stall()

    def stop(self) -> None:
        self.process.kill()


class RedisServer(Process):
    name = "redis"

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        if program is None or find_spec("redis") is None or find_spec("kvframe_redis") is None:
            pytest.skip("needs redis-server and plugins/kvframe-redis")
        super().__init__(folder)
        self.port = free_port()
        save = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        where = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        command = [program, *where, *save, "--loglevel", "warning"]
        self.process = ServerProcess(command, self.port)
        self.restart()

    def options(self) -> dict[str, Any]:
        return {"url": f"redis://127.0.0.1:{self.port}/0", "timeout_ms": 300}

    def restart(self) -> None:
        super().restart()
        while not self.answers():
            time.sleep(0.01)

    def answers(self) -> bool:
        import redis

        try:
            with redis.Redis(port=self.port) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False  # it is reading its log

    def flip(self, store: Any, name: str, at: int) -> None:
        store._server.set(name, _flipped(store._server.get(name), at))

    def fill(self, store: Any) -> None:
        store._server.config_set("maxmemory", 1)


class MooncakeMaster(Process):
    name = "mooncake"
    lists = False

    def __init__(self, folder: Path) -> None:
        program = Path(sys.executable).with_name("mooncake_master")
        if not program.exists() or find_spec("kvframe_mooncake") is None:
            pytest.skip("needs plugins/kvframe-mooncake and a wheel of mooncake-transfer-engine")
        try:
            import mooncake.store  # noqa: F401
        except ImportError as error:
            pytest.skip(f"the wheel of mooncake-transfer-engine does not run here: {error}")
        super().__init__(folder)
        self.port = free_port()
        command = [str(program), f"-rpc_port={self.port}", "-rpc_address=127.0.0.1"]
        command += [f"-metrics_port={free_port()}", "-default_kv_lease_ttl=200"]
        self.process = ServerProcess(command, self.port, self.folder / "master.log")
        self.restart()

    def options(self) -> dict[str, Any]:
        master = f"127.0.0.1:{self.port}"
        return {"master": master, "segment": 16 * 2**20, "buffer": 2**20}

    def flip(self, store: Any, name: str, at: int) -> None:
        (data,) = store.get([name])
        store.remove([name])
        assert list(store.put([(name, _flipped(data, at))])) == [True]

    def fill(self, store: Any) -> None:
        from mooncake.store import ReplicateConfig

        pinned = ReplicateConfig()
        pinned.with_hard_pin = True
        kept = True
        while kept:  # its master evicts what is not pinned, and makes room, a while later
            size, kept = 2**20, False
            while size > 16:
                if store._store.put(f"filler{os.urandom(6).hex()}", bytes(size), pinned):
                    size //= 2
                else:
                    kept = True
            time.sleep(0.5)


SERVERS = {server.name: server for server in (Folder, RedisServer, MooncakeMaster)}


def _flipped(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at % len(changed)] ^= 1
    return bytes(changed)
