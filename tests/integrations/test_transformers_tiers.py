"""transformers' continuous batching with tiers below its blocks: the same tokens, less computed.

Skipped where a known transformers and torch are not installed: run_transformers.py says how.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kvframe
from kvframe.tiers import SwapCost, Tiers

pytest.importorskip("torch", reason="needs torch")
pytest.importorskip(
    "kvframe.integrations.transformers", reason="needs transformers 5.17", exc_type=ImportError
)

import torch
from transformers.generation.configuration_utils import ContinuousBatchingConfig

from kvframe.integrations.transformers import kvframe_blocks
from kvframe.integrations.transformers.planes import adopted
from kvframe.integrations.transformers.releases import check_release
from tests.integrations import tiny

pytestmark = pytest.mark.filterwarnings("default")  # the engine's own are not ours to mend

WORK = tiny.prompts(48)
TIGHT, SCARCE = 32, 16
"""Blocks: cached ones are evicted; running requests are preempted too."""
COSTLY, CHEAP = (
    SwapCost(parameters=1, flops=flops, bandwidth_out=1e9, bandwidth_in=1e9)
    for flops in (1.0, 1e30)
)
"""Computing a token, beside moving it."""
HOST = {"name": "host", "capacity": 400}

model = cache(tiny.llama)


@cache
def right() -> list[tiny.Tokens]:
    return tiny.plain(model(), WORK)


@cache
def pool_only(blocks: int) -> tiny.Served:
    return tiny.serve(model(), WORK, kvframe_blocks(), blocks=blocks)


@contextmanager
def checked(into: list[Tiers], cost: SwapCost | None, **sections: Any) -> Iterator[None]:
    """On kvframe with tiers; afterwards nothing is left in use in any of them."""
    with kvframe_blocks(cost=cost, **sections) as managers:
        yield
    (manager,), (tiers,) = managers, managers.tiers
    assert tiers is not None
    tiers.check_integrity()
    assert manager.counts().referenced == manager.stats.counters()["live_sequences"] == 0
    assert not manager.inspect.tickets()
    for level in tiers.levels:
        counts = level.index.counts()
        assert (counts.owned, counts.moving) == (0, 0)
    into.append(tiers)


def on_tiers(
    blocks: int, cost: SwapCost | None, *, at_once: int = 1, admission: str = "write-through"
) -> tuple[tiny.Served, dict[str, int]]:
    made: list[Tiers] = []
    context = checked(made, cost, tiers=[{**HOST, "admission": {"policy": admission}}])
    served = tiny.serve(
        model(), WORK, context, blocks=blocks, at_once=at_once, max_batch_tokens=256
    )
    return served, made[0].stats()["moved"]


def disk(path: Path) -> dict[str, Any]:
    return {
        "name": "disk",
        "store": "disk",
        "capacity": 1000,
        "options": {"path": str(path), "fsync": False},
    }


def test_the_host_tier_gives_back_what_the_pool_evicts() -> None:
    served, moved = on_tiers(TIGHT, COSTLY)
    assert served.answers == right()
    assert served.prefill == sum(map(len, WORK)) - tiny.shared(WORK) < pool_only(TIGHT).prefill
    assert moved["onboarded"] > 0


def test_pages_go_down_only_as_they_are_evicted_if_the_tier_says_so() -> None:
    served, _ = on_tiers(TIGHT, COSTLY, admission="write-back")
    assert served.answers == right()
    assert served.prefill == sum(map(len, WORK)) - tiny.shared(WORK)


def test_a_disk_below_serves_the_next_process(tmp_path: Path) -> None:
    weights = {"cache": {"weight_version": "tiny@1"}}
    small = {**HOST, "capacity": 40}
    for turn in range(2):
        made: list[Tiers] = []
        context = checked(made, COSTLY, tiers=[small, disk(tmp_path)], **weights)
        served = tiny.serve(model(), WORK, context, blocks=TIGHT)
        assert served.answers == right()
        assert made[0].stats()["moved"]["promoted"] > 0
        found = sum((len(prompt) - 1) // tiny.BLOCK_SIZE * tiny.BLOCK_SIZE for prompt in WORK)
        if turn:  # all of it was served before
            assert served.prefill == sum(map(len, WORK)) - found
    assert made[0].stats()["disk"]["recovered"] > 0


def test_where_computing_is_faster_it_is_computed_and_said() -> None:
    served, moved = on_tiers(TIGHT, CHEAP)
    assert served.answers == right()
    assert moved["computed_instead"] > moved.get("onboarded", 0)  # of 16, one is tried all the same


def test_speeds_are_measured() -> None:
    served, moved = on_tiers(TIGHT, None)
    assert served.answers == right()
    assert moved["offloaded"] > 0


def test_requests_are_preempted_by_swap() -> None:
    served, moved = on_tiers(SCARCE, COSTLY, at_once=16, admission="write-back")
    assert served.answers == right()
    assert moved["swapped_out"] == moved["swapped_in"] > 0


def test_what_host_memory_has_anyway_is_not_swapped_out_but_loaded() -> None:
    served, moved = on_tiers(SCARCE, COSTLY, at_once=16)
    assert served.answers == right()
    assert moved["recomputed"] > moved.get("swapped_out", 0)
    assert served.prefill < pool_only(SCARCE).prefill


def test_or_computed_again_where_that_is_faster() -> None:
    served, moved = on_tiers(SCARCE, CHEAP, at_once=16)
    assert served.answers == right()
    assert moved["recomputed"] > 0
    assert "swapped_out" not in moved


def test_pages_that_change_in_host_memory_are_computed_again() -> None:
    made: list[Tiers] = []

    @contextmanager
    def spoilt() -> Iterator[None]:
        with kvframe_blocks(cost=COSTLY, tiers=[HOST]) as managers:
            yield
        made.extend(tiers for tiers in managers.tiers if tiers)

    bring = kvframe.tiers.moves.Moves.bring
    turn = iter(range(1 << 20))

    def wrong(self: Any, slots: Any, *args: Any, **options: Any) -> None:
        if next(turn) % 3 == 0:
            self._host[0].poison(slots[-1:])
        bring(self, slots, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kvframe.tiers.moves.Moves, "bring", wrong)
        served = tiny.serve(
            model(), WORK, spoilt(), blocks=SCARCE, at_once=16, max_batch_tokens=256
        )
    assert served.answers == right()
    made[0].check_integrity()
    assert made[0].stats()["host"]["corrupt"] > 0
    assert made[0].kv.counts().referenced == 0


def test_forks_share_what_came_from_below() -> None:
    made: list[Tiers] = []
    context = checked(made, COSTLY, tiers=[HOST])
    served = tiny.serve(model(), WORK, context, blocks=TIGHT, samples=3, at_once=4)
    assert served.answers == right()
    assert all(answer == right()[i] for i, answer in served.forks)


def test_a_cancelled_request_leaves_nothing_behind() -> None:
    made: list[Tiers] = []
    context = checked(made, COSTLY, tiers=[HOST])
    batching = ContinuousBatchingConfig(
        block_size=tiny.BLOCK_SIZE, num_blocks=SCARCE, max_batch_tokens=256
    )
    engine = model().continuous_batching_context_manager(
        tiny.generation(), timeout=60, continuous_batching_config=batching
    )
    with context, engine as manager:
        for i, prompt in enumerate(WORK):
            manager.add_request(prompt, str(i), max_new_tokens=tiny.NEW_TOKENS)
        answers: dict[int, tiny.Tokens] = {}
        while len(answers) < 12:
            result = manager.get_result(timeout=60)
            answers[int(result.request_id)] = result.generated_tokens
        for i in range(len(WORK)):
            manager.cancel_request(str(i))
    assert all(answer == right()[i] for i, answer in answers.items())


def test_tiers_need_a_model_that_shares_prefixes() -> None:
    context = kvframe_blocks(tiers=[HOST])
    with pytest.raises(kvframe.ConfigError, match="leave them out"):
        tiny.serve(model(), WORK[:1], context, blocks=TIGHT, allow_block_sharing=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tensors_are_adopted_where_they_are(dtype: torch.dtype) -> None:
    keys, values = ([torch.zeros(10 * 4, 2, 8, dtype=dtype) for _ in range(3)] for _ in "kv")
    engine = SimpleNamespace(block_size=4, device="cpu", key_cache=keys, value_cache=values)
    pool, host, movers = adopted(engine, 8)
    assert (host, movers) == (None, None)
    shape = pool.layout.shape
    assert (shape.layers, shape.parts, shape.heads, shape.block_size) == (3, 2, 2, 4)
    values[2][5 * 4 + 1, 1] = 1.5
    page = pool.get([5])
    pool.put([7], page)
    assert torch.equal(values[2][7 * 4 : 8 * 4], values[2][5 * 4 : 6 * 4])
    assert np.count_nonzero(page) > 0


def test_this_release_is_known() -> None:
    check_release()


def test_stock_is_as_before() -> None:
    assert tiny.serve(model(), WORK[:8], nullcontext(), blocks=TIGHT).answers == right()[:8]
