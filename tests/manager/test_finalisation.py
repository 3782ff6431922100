"""The interpreter can end while daemon threads are inside policies, callbacks and tiers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.scenario("F19")

ROUNDS = 2

POLICIES = '''
import os, sys, threading, time, warnings
import numpy as np
from kvframe import (AdmissionPolicy, EvictionPolicy, KVCacheManager, PrefixMatcher, Registry,
                     Request, hookimpl, _core)
from kvframe.config import Resolved
from kvframe.policies import BatchedAdmission, BatchedEviction, BatchedIndex, BatchedPrefix

inside = threading.Semaphore(0)

def never_back(*_):
    """One of the threads computes, the others wait."""
    inside.release()
    while threading.current_thread().name != "computes":
        time.sleep(0.001)
    while True:
        pass

class Score(BatchedEviction):
    columns = ("last_use",)
    def score(self, offer, out): never_back()

class Victims(BatchedEviction):
    columns = ("block",)
    def victims(self, n, offer, out): never_back()

class Told(BatchedEviction):
    columns = ("last_use",)
    def insert(self, blocks, now): never_back()
    def score(self, offer, out): out[:] = 0

class Admit(BatchedAdmission):
    def admit(self, blocks, tier, out): never_back()

class Seen(BatchedAdmission):
    def seen(self, keys, now): never_back()
    def admit(self, blocks, tier, out): out[:] = 1

class Takes(BatchedPrefix):
    def take(self, prompts, found, out): never_back()

class Fails(BatchedEviction):
    columns = ("last_use",)
    def score(self, offer, out): raise Unprintable

class Unprintable(Exception):
    def __str__(self): never_back()

class Holder:
    @hookimpl
    def kvframe_eviction(self):
        kinds = (Score, Victims, Told, Fails)
        return [EvictionPolicy(name=k.__name__.lower(), way="batched", summary="x",
                               make=lambda _, k=k: k()) for k in kinds]
    @hookimpl
    def kvframe_admission(self):
        return [AdmissionPolicy(name=k.__name__.lower(), way="batched", summary="x",
                                make=lambda _, k=k: k()) for k in (Admit, Seen)]
    @hookimpl
    def kvframe_prefix(self):
        return [PrefixMatcher(name="takes", way="batched", summary="x", make=lambda _: Takes())]

known = Registry()
known.register(Holder(), "test")

def manager(**sections):
    told = {"cache": {"capacity": 8, "block_size": 4}, **sections}
    return KVCacheManager(Resolved.load(os.devnull, env={}, registry=known, **told))

def serves(kv):
    for n in range(1000):
        seq = kv.allocate(Request(np.arange(n, n + 16, dtype=np.uint32))).seq
        kv.commit(seq, 16)
        kv.release(seq)

def replays():
    trace = _core.Trace.parse(TRACE, "t")
    from kvframe.drivers.asker import Terms
    from kvframe.drivers.eviction import driver
    _core.replay(trace, driver(known.eviction("score"), Terms(512)), 2, "engine")

class Array:
    def __array__(self, *_, **__): never_back()

def listens():
    kv = manager()
    kv.pressure.add_callback(never_back)
    kv.allocate(np.arange(32))

TRACE = b"".join(
    b'{"timestamp": %d, "input_length": 512, "output_length": 1, "hash_ids": [%d]}\\n' % (n, n)
    for n in range(8)
)
works = [
    *[lambda p=p: serves(manager(eviction={"policy": p}))
      for p in ("score", "victims", "told", "fails")],
    *[lambda p=p: serves(manager(admission={"policy": p})) for p in ("admit", "seen")],
    lambda: serves(manager(prefix={"policy": "takes"})),
    lambda: manager(eviction={"policy": "score", "budget_ms": 1}).allocate(Array()),
    lambda: manager().pressure.touch(Array()),
    listens,
    replays,
]
warnings.simplefilter("ignore")
computes = works.pop(int(sys.argv[1]))
for work in [*works, computes]:
    name = "computes" if work is computes else "waits"
    threading.Thread(target=work, name=name, daemon=True).start()
    assert inside.acquire(timeout=100), work
'''


def test_daemon_threads_inside_policies_do_not_abort_the_end() -> None:
    """Each round has one thread in each of eleven calls from the core into Python."""
    program = [sys.executable, "-c", POLICIES]
    pipe = subprocess.PIPE
    for computes in range(0, 11, 11 // ROUNDS):
        run = [*program, str(computes)]
        with subprocess.Popen(run, stdout=pipe, stderr=pipe, text=True) as running:
            _, stderr = running.communicate(timeout=300)
        assert (running.returncode, stderr) == (0, "")


TIERS = """
import os, sys
import numpy as np
from kvframe import KVCacheManager
from kvframe.config import Resolved
from kvframe.pages import LAYER_FIRST, Layout, NumpyPool, PageShape
from kvframe.tiers import Tiers

kv = KVCacheManager(Resolved.load(
    os.devnull, env={},
    cache={"block_size": 4, "capacity": 64, "weight_version": "t"},
    model={"layers": 2, "kv_heads": 2, "head_dim": 64, "dtype": "float16"},
    eviction={"budget_ms": 1000},
    tiers=[{"name": "host", "capacity": 256},
           {"name": "disk", "store": "disk", "capacity": 10_000,
            "options": {"path": sys.argv[1]}}],
))
shape = PageShape.of_model(kv.inspect.resolved.config.model, kv.block_size)
pool = NumpyPool(Layout.of(LAYER_FIRST, shape, blocks=64), dtype=np.float16)
tiers = Tiers(kv, pool)
for n in range(4):
    seq = kv.allocate(np.arange(n * 1000, n * 1000 + 64, dtype=np.uint32)).seq
    kv.commit(seq, 64)
    tiers.offload(seq)
    tiers.poll()
"""


def test_tiers_left_open_end_with_the_process(tmp_path: Path) -> None:
    for turn in range(ROUNDS):
        done = subprocess.run(
            [sys.executable, "-c", TIERS, str(tmp_path / str(turn))],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
