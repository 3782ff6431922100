"""``python -m kvframe_vllm.replay.fuzz``: what clients and operators may say raises nothing.

Requests with loose values of salt, adapter, session, priority and ``kv_transfer_params`` go through
vLLM's scheduler, under a policy and beside kvframe's connector; loose values of configuration go to
each way in. What is raised into the engine ends the run; so does a queue that failed and was
replaced.
"""

from __future__ import annotations

import argparse
import logging
import random
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from vllm.lora.request import LoRARequest

from kvframe_vllm import choice
from kvframe_vllm.command import one_line
from kvframe_vllm.install import put_in
from kvframe_vllm.plugin import put_into
from kvframe_vllm.pool import ruled
from kvframe_vllm.replay import records
from kvframe_vllm.replay.check import check_pool
from kvframe_vllm.replay.engine import Load, requests, run, scheduler
from kvframe_vllm.replay.workload import VOCABULARY

VALUES: list[Any] = [
    *(None, True, -1, 0, 7, 2**31, 2**32, 2**63, 2**64, -(2**40), 10**40, 1.5, 1e308),
    *(float("nan"), float("inf"), complex(1, 2), "", "name", "\ud800", "\0", "x" * 10_000, "🙂"),
    *(b"", b"bytes", bytearray(b"x"), [], [1], (1, 2), {}, {"session": 1}, {1: 2}, set(), object()),
    *(int, len, NotImplemented, ...),
]
"""What may stand where something else is expected."""

TOLD = ("session", "turn", "request_class", "priority", "tokens", "next_use", "other", 3)
"""Keys of what a client says of its request."""

CONNECTOR = {
    "kv_connector": "KvframeConnector",
    "kv_connector_module_path": "kvframe_vllm.connector",
    "kv_role": "kv_producer",
}
BATCH = 1000


class Hostile:
    """A value of which nothing can be read."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


def loose(chance: random.Random, depth: int = 0) -> Any:
    """A value that the code does not expect."""
    kind = chance.random()
    if depth < 2 and kind < 0.2:
        return {loose_key(chance): loose(chance, depth + 1) for _ in range(chance.randrange(4))}
    if depth < 2 and kind < 0.3:
        return [loose(chance, depth + 1) for _ in range(chance.randrange(3))]
    if kind < 0.32:
        return Hostile()
    return chance.choice(VALUES)


def loose_key(chance: random.Random) -> Any:
    """A key of such a mapping."""
    return chance.choice([*TOLD, "", None, 1.5, b"session", "\ud800"])


def loosen(request: Any, chance: random.Random) -> None:
    """Put loose values where a client's go."""
    told = {chance.choice(TOLD): loose(chance) for _ in range(chance.randrange(4))}
    request.kv_transfer_params = chance.choice(
        [None, {"kvframe": told}, {"kvframe": loose(chance)}]
    )
    request.session_id = loose(chance)
    request.priority = loose(chance)


def serve(count: int, seed: int, policy: str) -> None:
    """Serve that many loose requests.

    Raises:
        Exception: Whatever was raised into the engine.
        AssertionError: The policy's queue failed, or a block was lost.
    """
    chance = random.Random(seed)
    extra = {"kv_connector_extra_config": {"policy": policy}}
    load = Load(blocks=200, running=64, block_size=4, connector=CONNECTOR | extra)
    made = scheduler(load)
    pool = made.kv_cache_manager.block_pool
    if not ruled(pool):
        put_in(pool, choice.resolved(policy))
    prompts = [
        [chance.randrange(3) if chance.random() < 0.7 else chance.randrange(VOCABULARY)] * 4
        + [chance.randrange(VOCABULARY) for _ in range(chance.randrange(1, 12))]
        for _ in range(count)
    ]
    for request in requests(prompts, load.block_size, 2):
        loosen(request, chance)
        made.add_request(request)
    run(made, load)
    assert ruled(pool), "the policy's queue failed"
    assert pool.get_num_free_blocks() == load.blocks - 1, "blocks were lost"
    check_pool(pool)


def salted(count: int, seed: int) -> None:
    """Serve requests with loose salts and adapters, as far as vLLM itself takes them."""
    chance = random.Random(seed)
    load = Load(blocks=200, running=64, block_size=4)
    made = scheduler(load)
    put_in(made.kv_cache_manager.block_pool, choice.resolved("arc"))
    texts = [value for value in VALUES if isinstance(value, str) and value.isprintable()]
    for number in range(count):
        fields: dict[str, Any] = {"cache_salt": chance.choice([None, *texts])}
        if chance.random() < 0.5:
            which = chance.choice([1, 2, 2**31, 2**63])
            fields["lora_request"] = LoRARequest(chance.choice(texts) or "a", which, "/path")
        [request] = requests([[chance.randrange(3)] * 9], load.block_size, 2, **fields)
        request.request_id = str(number)
        loosen(request, chance)
        made.add_request(request)
    run(made, load)
    assert ruled(made.kv_cache_manager.block_pool), "the policy's queue failed"


def configured(count: int, seed: int) -> None:
    """Give loose configuration to each way in."""
    chance = random.Random(seed)
    made = scheduler(Load(blocks=20))
    for _ in range(count):
        value = loose(chance)
        additional = chance.choice([value, {choice.KEY: value}])
        config = SimpleNamespace(additional_config=additional)
        scheduler_like = SimpleNamespace(
            kv_cache_manager=chance.choice([made.kv_cache_manager, value]), vllm_config=config
        )
        put_into(scheduler_like, only_if_asked=chance.random() < 0.5)


@one_line
def main() -> None:
    """Fuzz every seam, and print how much was served."""
    parser = argparse.ArgumentParser(prog="python -m kvframe_vllm.replay.fuzz", description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policies", default="lru,lfu,arc,s3-fifo,w-tinylfu", help="by comma")
    parser.add_argument("--json", type=Path, default=records.place("fuzz"), help="the record")
    asked = parser.parse_args()
    logging.getLogger("vllm").setLevel(logging.CRITICAL)
    policies, start, served = choice.listed(asked.policies), time.monotonic(), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        configured(min(asked.requests, BATCH), asked.seed)
        while served < asked.requests:
            count, seed = min(BATCH, asked.requests - served), asked.seed + served
            if served // BATCH % 5 == 4:
                salted(count, seed)
            else:
                serve(count, seed, policies[served // BATCH % len(policies)])
            served += count
    print(f"{served} requests, nothing raised, {time.monotonic() - start:.0f} s")
    records.write(asked.json, "replay.fuzz", requests=served, raised=0)


if __name__ == "__main__":
    main()
