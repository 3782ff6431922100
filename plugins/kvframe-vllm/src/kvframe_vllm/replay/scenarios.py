"""``python -m kvframe_vllm.replay.scenarios``: is lru equal to stock under everything at once?

In each scenario the requests are families and scans with adapters, salts, images, priorities and
long outputs in a pool that is too small for them: some are preempted, some are aborted, and the
prefix cache is reset while requests run. Hits, block tables, steps and KV events are compared, and
the worker's tables and contents are checked after every so many steps. Each outcome is entered into
``results/scenarios.json`` of the folder it is called in, which `kvframe_vllm.compatibility` shows.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import logging
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from vllm.lora.request import LoRARequest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.v1.kv_cache_interface import SlidingWindowSpec
from vllm.v1.request import Request, RequestStatus

from kvframe_vllm.choice import STOCK, resolved
from kvframe_vllm.command import one_line
from kvframe_vllm.install import put_in
from kvframe_vllm.replay import records
from kvframe_vllm.replay.check import check_step
from kvframe_vllm.replay.engine import Load, Run, full_attention, requests, run, scheduler
from kvframe_vllm.replay.workload import Families

RECORD = records.place("scenarios")
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
_HYBRID = replace(_PLAIN, blocks=260, groups=[full_attention(BLOCK), WINDOW])
SCENARIOS: Mapping[str, Load] = {
    "synchronous": _PLAIN,
    "asynchronous": replace(_PLAIN, asynchronous=True),
    "speculative": replace(_PLAIN, drafts=3),
    "hybrid": _HYBRID,
    "deferred frees": replace(_PLAIN, asynchronous=True, connector=LATE),
    "deferred hybrid": replace(_HYBRID, blocks=200, asynchronous=True, connector=LATE),
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

    def counts(self, load: Load) -> dict[str, int]:
        """How much was served, in a pool of how many blocks."""
        return {
            "blocks": load.blocks,
            "requests": len(self.run.hits),
            "steps": self.run.steps,
            "resumed": self.run.resumed,
            "aborted": self.aborted,
            "resets": self.resets,
            "events": len(self.events),
        }


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


Rule = Callable[[Any], None]
"""Puts what is compared into a scheduler that is made."""

After = Callable[[Any, Run, Any], None]
"""Called with the scheduler, the run and what the worker is told, after each step is scheduled."""


def serve(
    load: Load,
    count: int,
    rule: Rule = lambda made: None,
    after: After = lambda made, run, output: None,
) -> Outcome:
    """Serve that many mixed requests.

    Raises:
        AssertionError: A block was lost, or another manager took over.
    """
    made = scheduler(load)
    rule(made)
    manager = made.kv_cache_manager
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

    made.add_request(waiting.pop())
    done.run = run(made, load, before, partial(after, made))
    assert not waiting
    assert made.kv_cache_manager is manager, "vLLM's own manager took over"
    assert manager.block_pool.get_num_free_blocks() == load.blocks - 1, "blocks were lost"
    return done


def under(policy: str) -> Rule:
    """A policy in the pool."""
    return lambda made: put_in(made.kv_cache_manager.block_pool, resolved(policy))


def checked(every: int = 1) -> After:
    """The state is checked after every so many steps."""

    def after(made: Any, run: Run, output: Any) -> None:
        if run.steps % every == 0:
            check_step(made, run, output, BLOCK)

    return after


def compared(name: str, load: Load, count: int, check: int) -> dict[str, Any]:
    """Serve a scenario twice; what there is to say of it."""
    stock, ours = serve(load, count), serve(load, count, under("lru"), checked(check))
    return {
        "scenario": name,
        "equal": ours.compared() == stock.compared(),
        **ours.counts(load),
        "checked every": check,
        "vllm": importlib.metadata.version("vllm"),
        "date": datetime.date.today().isoformat(),
        "command": " ".join(["python -m kvframe_vllm.replay.scenarios", *sys.argv[1:]]),
    }


@one_line
def main() -> None:
    """Serve every scenario twice, and print and record whether lru is stock."""
    parser = argparse.ArgumentParser(
        prog="python -m kvframe_vllm.replay.scenarios", description=__doc__
    )
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help="names by comma")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--blocks", help="blocks of the pool, by comma, in place of a few")
    parser.add_argument("--check", type=int, default=1, help="check the state every so many steps")
    asked = parser.parse_args()
    logging.getLogger("vllm").setLevel(logging.ERROR)
    missed = []
    for name in asked.scenarios.split(","):
        few = SCENARIOS[name]
        sizes = [int(size) for size in asked.blocks.split(",")] if asked.blocks else [few.blocks]
        for size in sizes:
            row = compared(name, replace(few, blocks=size), asked.requests, asked.check)
            enter(row)
            print(json.dumps(row), flush=True)
            missed += [] if row["equal"] else [f"{name}: lru differs from stock"]
    records.fail_if(missed)


def enter(row: dict[str, Any]) -> None:
    """Put a row into the record, in place of what it had of that scenario and size."""
    rows = json.loads(RECORD.read_text()) if RECORD.is_file() else []
    kept = [
        one for one in rows if (one["scenario"], one["blocks"]) != (row["scenario"], row["blocks"])
    ]
    names = list(SCENARIOS)
    kept.append(row)
    kept.sort(key=lambda one: (names.index(one["scenario"]), one["blocks"]))
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
