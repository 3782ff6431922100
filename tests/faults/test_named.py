"""Faults that have a name, with the real parts: processes, files, servers of loopback, signals.

What each of these tests leaves out has one elsewhere: docs/explanation/memory.md has the list.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from kvframe.tiers import Thread
from kvframe.tiers.codec import Codec
from kvframe.tiers.object_keys import Space

from ..bench.conftest import KVFRAME
from ..signals import hears_interrupts
from ..tiers.helpers import SHAPE, Engine, Known, Shelf, below, host, text
from ..tiers.proxy import Proxy
from ..tiers.servers import SERVERS, Process, RedisServer

KNOWN = Known()
ROOT = Path(__file__).parents[2]


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    started = RedisServer(tmp_path)
    yield started
    started.stop()


@contextmanager
def child(code: str, *args: object, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """A Python program of its own, whose lines are read as they come."""
    command = [sys.executable, "-c", code, *map(str, args)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, **more
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def ran(code: str, *args: object) -> tuple[int, str, str]:
    with child(code, *args) as process:
        out, err = process.communicate(timeout=120)
    return process.returncode, out, err


# --- kill -9 in the middle of a write to a server; of a file: tests/tiers/test_disk.py -----------

WRITES = """
import sys
import numpy as np
from kvframe.tiers.codec import Codec
from kvframe.tiers.object_keys import Space
from kvframe_redis.store import Options, Redis
from tests.tiers.helpers import SHAPE

store, codec = Redis(Options(url=sys.argv[1])), Codec(Space(), [SHAPE])
for at in range(0, 10**6, 64):
    pages = []
    for key in ((n + 1, 7) for n in range(at, at + 64)):
        page = np.full(SHAPE.page_bytes, key[0] % 251, np.uint8)
        pages.append((codec.name(key, 0), codec.encode(page, key, 0, None, 0)))
    store.put(pages)
    if at == 128:
        print("writing", flush=True)
"""


def test_a_writer_killed_in_the_middle_of_a_remote_write_leaves_whole_pages(
    redis: RedisServer,
) -> None:
    from kvframe_redis.store import Options, Redis

    url = redis.options()["url"]
    with child(WRITES, url) as writer:
        assert line(writer) == "writing\n"
        writer.kill()
    store, codec = Redis(Options(url=url)), Codec(Space(), [SHAPE])
    store.largest = 1 << 16
    keys = [(n + 1, 7) for n in range(4096)]
    pages = store.get([codec.name(key, 0) for key in keys])
    whole = [(key, data) for key, data in zip(keys, pages, strict=True) if data is not None]
    assert len(whole) >= 192
    for key, data in whole:
        page = codec.decode(data, key, 0)
        assert np.array_equal(page, np.full(SHAPE.page_bytes, key[0] % 251, np.uint8))


# --- a full disk: the system refuses the rest of a file ------------------------------------------

FULL = """
import resource, signal, sys
from contextlib import contextmanager
from pathlib import Path
from tests.tiers.helpers import Engine, below, host, text

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit is an OSError
made = Engine([host(16), below(64, "disk", options={"path": sys.argv[1]})])
made.run(text(1, 17))
stored = len(list(Path(sys.argv[1]).glob("??/*")))
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
made.run(text(2, 17))
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
left = len(list(Path(sys.argv[1]).glob("??/*")))
told = made.tiers.stats()["below"]["failed_stores"]
made.now += 10_000
made.run(text(3, 17))
made.only_below()
again = [made.run(text(n, 17)).external_tokens for n in (1, 2, 3)]
made.tiers.check_integrity()
made.tiers.close()
print(stored, left, told, again)
"""


def test_files_that_may_not_grow_are_misses_and_leave_nothing(tmp_path: Path) -> None:
    code, out, err = ran(FULL, tmp_path / "pages")
    assert (code, out) == (0, "4 4 4 [16, 0, 16]\n"), err


# --- clocks that jump ---------------------------------------------------------------------------


def test_the_time_of_day_may_jump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Back and forth by years: every decision is as without. Limits go by a monotonic clock."""

    def served(folder: str) -> list[tuple[int, int]]:
        store = below(64, "disk", options={"path": str(tmp_path / folder)})
        engine = Engine([host(8, timeout_ms=1000), store], worker=Thread, clock=None)
        dice, found = Random(1), []
        for _ in range(40):
            grant = engine.run(text(dice.randrange(8), 17))
            found.append((grant.cached_tokens, grant.external_tokens))
        engine.tiers.close()
        return found

    still = served("still")
    dice, now = Random(2), time.time_ns
    with monkeypatch.context() as patch:

        def jumping() -> int:
            return max(1, now() + dice.choice((-1, 0, 1)) * dice.randrange(10**18))

        patch.setattr(time, "time_ns", jumping)
        patch.setattr(time, "time", lambda: jumping() / 1e9)
        jumped = served("jumping")
    assert jumped == still
    assert sum(external for _, external in still) > 0


def test_the_clock_of_tiers_may_go_back() -> None:
    """One that the engine gives: what is under way still ends, and nothing is late that is not."""
    engine = Engine([host(16, timeout_ms=50), below(timeout_ms=50)], stores=[Shelf()])
    engine.now = 10**9
    engine.run(text(1, 17))
    engine.only_below()
    grant = engine.start(text(1, 17))
    engine.now = 1
    engine.settle()
    assert engine.compute(grant.seq) == 1
    engine.kv.release(grant.seq)
    engine.now = 10**12
    engine.forget()
    assert engine.run(text(1, 17)).external_tokens == 16
    assert engine.tiers.stats()["below"]["late"] == 0


# --- servers that restart, and connections that are cut off ---------------------------------------


# Calls of Mooncake's client take many seconds each while its master is away.
@pytest.mark.parametrize("name", ["redis", pytest.param("mooncake", marks=pytest.mark.slow)])
def test_a_server_that_restarts_in_the_middle_of_traffic_costs_misses(
    name: str, tmp_path: Path
) -> None:
    server = SERVERS[name](tmp_path)
    assert isinstance(server, Process)
    try:
        tier = below(64, name, options=server.options())
        engine = Engine([host(8), tier], registry=KNOWN, blocks=40, worker=Thread)
        dice, before = Random(3), 0
        for turn in range(60):
            grant = engine.start(text(dice.randrange(12), 17))
            if turn in (20, 40):  # while its pages are on their way
                before = sum(engine.tiers.stats()["moved"].values())
                server.kill()
            engine.settle()
            engine.compute(grant.seq)  # every byte that is there is looked at
            engine.tiers.offload(grant.seq)
            engine.kv.release(grant.seq)
            if turn in (25, 45):
                server.restart()
            engine.now += 5000
            engine.tiers.check_integrity()
        engine.settle()
        assert sum(engine.tiers.stats()["moved"].values()) > before
        if name == "redis":  # what was written is there again, and is asked for
            engine.only_below()
            found = [engine.run(text(seed, 17)).external_tokens for seed in range(12)]
            assert sum(found) > 0
        engine.tiers.close()
    finally:
        server.stop()


@pytest.mark.parametrize("how", ["stall", "break_off"])
def test_a_page_that_is_cut_off_on_its_way_is_a_miss(how: str, redis: RedisServer) -> None:
    with Proxy(redis.port) as way:
        url = f"redis://127.0.0.1:{way.port}/0"
        tier = below(64, "redis", options={"url": url, "timeout_ms": 200})
        engine = Engine([host(16), tier], registry=KNOWN, worker=Thread)
        engine.run(text(1, 17))
        engine.only_below()
        for after in (0, 1, 70, 200, 500):  # bytes of the answer that still come
            grant = engine.start(text(1, 17))
            assert grant.external_tokens == 16
            getattr(way, how)(after)
            engine.settle()
            way.go_on()
            assert engine.compute(grant.seq) == 17
            engine.kv.abort(grant.seq)
            engine.now += 10_000
            engine.tiers.check_integrity()
            engine.only_below()
        assert engine.tiers.stats()["below"]["corrupt"] == 0
        engine.run(text(1, 17))
        engine.only_below()
        assert engine.run(text(1, 17)).external_tokens == 16
        engine.tiers.close()


# --- the end of a process, and another process ----------------------------------------------------

STUCK = """
import threading
from tests.tiers.helpers import Engine, Shelf, below, host, text
from kvframe.tiers import Thread

class Deadlocked(Shelf):
    def get(self, names):
        threading.Event().wait()

engine = Engine([host(16), below()], stores=[Deadlocked()], worker=Thread)
engine.run(text(1, 17))
engine.only_below()
engine.start(text(1, 17))
print(engine.tiers.poll().landed, flush=True)
"""


def test_an_interpreter_ends_with_a_call_of_a_store_that_never_returns() -> None:
    assert ran(STUCK) == (0, "[]\n", "")


FORKED = """
import os, sys
from tests.tiers.helpers import Engine, Shelf, below, host, text
from kvframe import HandleError
from kvframe.tiers import Thread

engine = Engine([host(16), below()], stores=[Shelf()], worker=Thread)
engine.run(text(1, 17))
engine.only_below()
grant = engine.start(text(1, 17))
tiers = engine.tiers
calls = [
    lambda: tiers.allocate([1]), tiers.poll, tiers.drain, lambda: tiers.offload(grant.seq),
    lambda: tiers.prefetch(text(1, 17)), tiers.verify, lambda: tiers.close(limit=0.1),
]
child = os.fork()
if child == 0:
    for call in calls:
        try:
            call()
        except HandleError as error:
            assert "belongs to the parent of a fork; make one in the child" in str(error)
        else:
            print(call, "worked in the child")
    sys.exit(0)  # not os._exit: what runs at the end of a process runs here too
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
engine.settle()
assert engine.compute(grant.seq) == 1
engine.tiers.close()
print("the parent goes on")
"""


def test_a_forked_child_of_tiers_that_are_at_work_is_refused_and_ends() -> None:
    code, out, _ = ran("import warnings; warnings.simplefilter('ignore')" + FORKED)
    assert (code, out) == (0, "the parent goes on\n")


# --- signals ----------------------------------------------------------------------------------

LOOP = """
import signal
from random import Random
from kvframe import Config, KVCacheManager

kv = KVCacheManager(Config.of(cache={"capacity": 64, "block_size": 4}))
dice, stops, heard = Random(1), 0, 0

class Stop(BaseException):
    pass

def terminate(*_):
    raise Stop

signal.signal(signal.SIGTERM, terminate)
while stops + heard < 20:
    try:
        print("at work", flush=True)
        while True:
            start = dice.randrange(50)
            seq = kv.allocate(range(start, start + 40)).seq
            kv.commit(seq, 40)
            kv.release(seq)
    except (Stop, KeyboardInterrupt) as error:
        stops, heard = stops + isinstance(error, Stop), heard + isinstance(error, KeyboardInterrupt)
        kv.check_integrity()
        for one in kv.inspect.running().tolist():
            kv.release(one)
        assert kv.counts().referenced == 0
print(stops, heard)
"""


def test_signals_in_the_middle_of_allocations_leave_a_whole_pool() -> None:
    dice, kinds = Random(4), [signal.SIGINT, signal.SIGTERM]
    with child(LOOP, preexec_fn=hears_interrupts) as engine:
        for turn in range(20):
            assert line(engine) == "at work\n"
            time.sleep(dice.random() / 100)
            engine.send_signal(kinds[turn % 2])
        out, err = engine.communicate(timeout=120)
    assert (engine.returncode, out) == (0, "10 10\n"), err


def test_a_replay_that_is_terminated_leaves_whole_cells(tmp_path: Path) -> None:
    asked = [
        str(KVFRAME), "bench", "run", "--policy", "lru,fifo,lfu,sieve", "--capacity",
        "1000,2000,4000", "--out", str(tmp_path / "kept"), "--format", "json", "--quiet",
    ]  # fmt: skip
    cells = tmp_path / "kept" / "cells"
    running = subprocess.Popen(asked, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while running.poll() is None and len(list(cells.glob("*.json"))) < 2:
        time.sleep(0.005)
    running.terminate()
    _, err = running.communicate(timeout=60)
    assert running.returncode != 0
    assert b"Traceback" not in err
    before = {path: path.stat().st_mtime_ns for path in cells.glob("*.json")}
    done = subprocess.run(asked, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    after = {path: path.stat().st_mtime_ns for path in cells.glob("*.json")}
    assert len(after) == 12
    assert before.items() <= after.items()
