"""``python -m kvframe_vllm.replay.manager_fuzz``: what clients may say ends the manager never.

As `kvframe_vllm.replay.fuzz`, under kvframe's whole manager: salts, adapters, sessions, priorities,
``kv_transfer_params`` and the retention in it are anything at all. What is raised into the engine
ends the run, and so does a manager that failed and was replaced.
"""

from __future__ import annotations

import argparse
import logging
import random
import time
import warnings
from pathlib import Path

from kvframe_vllm.choice import listed
from kvframe_vllm.command import one_line
from kvframe_vllm.manager.scheduler import put_in
from kvframe_vllm.manager.whole import WholeManager
from kvframe_vllm.replay import records
from kvframe_vllm.replay.engine import Load, requests, run, scheduler
from kvframe_vllm.replay.fuzz import BATCH, VALUES, loose, loosen
from kvframe_vllm.replay.workload import VOCABULARY


def serve(count: int, seed: int, policy: str) -> None:
    """Serve that many loose requests.

    Raises:
        Exception: Whatever was raised into the engine.
        AssertionError: The manager failed, or a block was lost.
    """
    chance = random.Random(seed)
    load = Load(blocks=200, running=64, block_size=4, events=True)
    made = scheduler(load)
    made.vllm_config.additional_config = {"kvframe": policy}
    assert put_in(made), "kvframe does not manage"
    texts = [value for value in VALUES if isinstance(value, str) and value.isprintable()]
    for number in range(count):
        head = chance.randrange(3) if chance.random() < 0.7 else chance.randrange(VOCABULARY)
        tail = [chance.randrange(VOCABULARY) for _ in range(chance.randrange(1, 12))]
        salt = chance.choice([None, *texts])
        [request] = requests([[head] * 4 + tail], load.block_size, 2, cache_salt=salt)
        request.request_id = str(number)
        loosen(request, chance)
        if isinstance(request.kv_transfer_params, dict) and chance.random() < 0.5:
            request.kv_transfer_params = {"kvframe": {"retention": wish(chance)}}
        made.add_request(request)
    run(made, load)
    manager = made.kv_cache_manager
    assert isinstance(manager, WholeManager), "the manager failed"
    manager.kv.check_integrity()
    assert manager.block_pool.get_num_free_blocks() == load.blocks - 1, "blocks were lost"


def wish(chance: random.Random) -> object:
    """A retention as a client may ask for it, right or wrong."""
    keep = {"priority": chance.randrange(-5, 120), "duration": chance.choice([None, 3, "x"])}
    return chance.choice([{"prompt": keep}, {"answer": keep}, {"prompt": loose(chance)}, 3])


@one_line
def main() -> None:
    """Serve loose requests under several policies, and print how many there were."""
    parser = argparse.ArgumentParser(
        prog="python -m kvframe_vllm.replay.manager_fuzz", description=__doc__
    )
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policies", default="lru,lfu,arc,s3-fifo,foresight", help="by comma")
    parser.add_argument(
        "--json", type=Path, default=records.place("manager_fuzz"), help="the record"
    )
    asked = parser.parse_args()
    logging.getLogger("vllm").setLevel(logging.CRITICAL)
    policies, start, served = listed(asked.policies), time.monotonic(), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while served < asked.requests:
            count, seed = min(BATCH, asked.requests - served), asked.seed + served
            serve(count, seed, policies[served // BATCH % len(policies)])
            served += count
    print(f"{served} requests, nothing raised, {time.monotonic() - start:.0f} s")
    records.write(asked.json, "replay.manager_fuzz", requests=served, raised=0)


if __name__ == "__main__":
    main()
