"""``python -m kvframe_vllm.replay.scenarios``: is lru equal to stock under everything at once?

In each scenario the requests are families and scans with adapters, salts, images, priorities and
long outputs in a pool that is too small for them: some are preempted, some are aborted, and the
prefix cache is reset while requests run. Hits, block tables, steps and KV events are compared, and
the worker's tables and contents are checked after every step.
"""

from __future__ import annotations

import argparse
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from vllm.lora.request import LoRARequest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.v1.kv_cache_interface import SlidingWindowSpec
from vllm.v1.request import Request, RequestStatus

from kvframe_vllm.choice import resolved
from kvframe_vllm.install import STOCK, put_in
from kvframe_vllm.replay.check import check_step
from kvframe_vllm.replay.engine import Load, Run, full_attention, requests, run, scheduler
from kvframe_vllm.replay.workload import Families

BLOCK = 16
WINDOW = SlidingWindowSpec(
    block_size=BLOCK, num_kv_heads=2, head_size=16, dtype=torch.float32, sliding_window=96
)
LATE = {
    "kv_connector": "KvframeConnector",
    "kv_connector_module_path": "kvframe_vllm.connector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {"policy": STOCK},
}
"""A connector that only makes vLLM free blocks late: the pool is ruled beside it."""

_PLAIN = Load(blocks=160, running=12, events=True)
SCENARIOS: Mapping[str, Load] = {
    "synchronous": _PLAIN,
    "asynchronous": replace(_PLAIN, asynchronous=True),
    "speculative": replace(_PLAIN, drafts=3),
    "hybrid": replace(_PLAIN, blocks=260, groups=[full_attention(BLOCK), WINDOW]),
    "deferred frees": replace(_PLAIN, asynchronous=True, connector=LATE),
}
"""How the scheduler is set up in each."""


@dataclass
class Outcome:
    """What was served, and what happened on the way.

    Attributes:
        run: What the worker was told.
        events: The KV events.
        aborted, resets: How often.
    """

    run: Run
    events: list[Any]
    aborted: int = 0
    resets: int = 0

    def compared(self) -> tuple[Any, ...]:
        """All that may not differ."""
        return self.run.hits, self.run.tables, self.run.steps, self.run.resumed, self.events


def mixed(count: int) -> list[Request]:
    """Adapters, salts, images and priorities among families and scans, some of them long."""
    chance = random.Random(11)
    made = []
    for number, prompt in enumerate(Families(requests=count, seed=5).prompts()):
        fields: dict[str, Any] = {"priority": chance.randrange(-3, 4)}
        if number % 5 == 0:
            which = chance.randrange(3) + 1
            fields["lora_request"] = LoRARequest(f"adapter{which}", which, f"/adapter{which}")
        if number % 7 == 0:
            fields["cache_salt"] = f"tenant {chance.randrange(3)}"
        if number % 6 == 0:
            place = PlaceholderRange(offset=chance.randrange(100), length=40)
            image = f"image {chance.randrange(4)}"
            fields["mm_features"] = [MultiModalFeatureSpec(None, "image", image, place)]
        [one] = requests([prompt], BLOCK, chance.choice([4, 16, 200]), **fields)
        one.request_id = str(number)
        made.append(one)
    return made


def serve(load: Load, count: int, policy: str | None, *, check: bool = True) -> Outcome:
    """Serve that many mixed requests under a policy, or as vLLM does if None.

    Raises:
        AssertionError: A check failed, or a block was lost.
    """
    made = scheduler(load)
    pool = made.kv_cache_manager.block_pool
    if policy is not None:
        put_in(pool, resolved(policy))
    waiting, chance = mixed(count)[::-1], random.Random(3)
    done = Outcome(Run(), made.replay_events)

    def before(step: int) -> None:
        while waiting and len(made.waiting) < 4:
            made.add_request(waiting.pop())
        if step % 17 == 0 and made.running:
            gone = chance.choice(made.running).request_id
            made.finish_requests(gone, RequestStatus.FINISHED_ABORTED)
            done.aborted += 1
        # vLLM cannot reset while blocks are freed late.
        if step % 301 == 300 and not load.connector:
            done.resets += made.reset_prefix_cache(reset_running_requests=True)

    def after(run: Run, output: Any) -> None:
        if check:
            check_step(made, run, output, BLOCK)

    made.add_request(waiting.pop())
    done.run = run(made, load, before, after)
    assert not waiting
    assert pool.get_num_free_blocks() == load.blocks - 1, "blocks were lost"
    return done


def main() -> None:
    """Serve every scenario twice, and print whether lru is stock."""
    parser = argparse.ArgumentParser(
        prog="python -m kvframe_vllm.replay.scenarios", description=__doc__
    )
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help="names by comma")
    parser.add_argument("--requests", type=int, default=2000)
    asked = parser.parse_args()
    logging.getLogger("vllm").setLevel(logging.ERROR)
    for name in asked.scenarios.split(","):
        stock = serve(SCENARIOS[name], asked.requests, None, check=False)
        ours = serve(SCENARIOS[name], asked.requests, "lru")
        told = "equal to stock" if ours.compared() == stock.compared() else "DIFFERS FROM STOCK"
        print(
            f"{name}: {told}, {len(ours.run.hits)} requests, {ours.run.steps} steps checked, "
            f"{ours.run.resumed} resumed, {ours.aborted} aborted, {ours.resets} resets, "
            f"{len(ours.events)} events",
            flush=True,
        )


if __name__ == "__main__":
    main()
