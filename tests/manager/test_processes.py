"""Other processes: the same keys everywhere, and no work in a forked child."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

KEYS = """
import numpy as np
from kvframe import Config, KVCacheManager
from kvframe.request import MMItem
for name in ("sha256", "blake3", "xxh3-128"):
    kv = KVCacheManager(Config.load(env={}, cache={"hash": name}))
    items = [MMItem(3, 40, b"cat")]
    keys = kv.blocks.hash_blocks(range(70), cache_salt="s", lora_name="a", mm_items=items)
    print(name, keys.tolist())
"""

FORK = """
import os, sys
import numpy as np
from kvframe import Config, HandleError, KVCacheManager
kv = KVCacheManager(Config.of(cache={"event_log": True}))
seq = kv.allocate(range(40)).seq
kv.append(kv.fork(seq), [1])
ticket = kv.take_plan().ticket
calls = [
    lambda: kv.lookup([1]), lambda: kv.allocate([1]), lambda: kv.append(seq, [1]),
    lambda: kv.extend(seq, 40), lambda: kv.commit(seq, 40), lambda: kv.truncate(seq, 3),
    lambda: kv.fork(seq), lambda: kv.release(seq), lambda: kv.step(), lambda: kv.take_plan(),
    lambda: kv.step(release=[seq]), lambda: kv.done(ticket), lambda: kv.failed(ticket),
    lambda: kv.block_table(seq), lambda: kv.block_tables([seq], np.zeros((1, 9), np.int32)),
    lambda: kv.slot_mapping([seq], [0], [1], np.zeros(1, np.int64)),
    lambda: kv.blocks.take(out=np.zeros(1, np.int32)),
    lambda: kv.blocks.free(np.zeros(1, np.int32)), lambda: kv.reset_prefix_cache(), lambda:
        kv.counts(),
    lambda: kv.lengths(seq), lambda: kv.stats.counters(), lambda: kv.log.take_events(), lambda:
        kv.inspect.options(),
    lambda: kv.inspect.eviction_order(), lambda: kv.check_integrity(),
    lambda: kv.log.take(), lambda: kv.stats.hit_rates(), lambda: kv.stats.miss_reasons(), lambda:
        kv.stats.miss_reason(seq),
    lambda: kv.stats.block_lifetimes(), lambda: kv.inspect.snapshot(), lambda:
        kv.inspect.explain_sequence(seq),
    lambda: kv.inspect.explain_block(0),
]
child = os.fork()
if child == 0:
    for i, call in enumerate(calls):
        try:
            call()
        except HandleError as error:
            assert str(error) == (
                "this manager belongs to the parent of a fork; make one in the child"
            ), error
        else:
            print("call", i, "worked in the child", flush=True)
            os._exit(1)
    fresh = KVCacheManager(Config())
    fresh.commit(fresh.allocate(range(40)).seq, 40)
    fresh.check_integrity()
    del fresh
    os._exit(0 if os.fork() == 0 else os.waitstatus_to_exitcode(os.wait()[1]))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
kv.done(ticket)
kv.release(seq)
kv.check_integrity()
print("the parent goes on")
"""


def run(code: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.scenario("T18", "I10")
def test_keys_do_not_depend_on_the_process() -> None:
    told = {run(KEYS, PYTHONHASHSEED=seed) for seed in ("0", "1", "4294967295")}
    assert len(told) == 1
    assert len(told.pop().splitlines()) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_is_refused_by_every_call() -> None:
    assert run(FORK).endswith("the parent goes on\n")
