"""transformers' continuous batching gives the same tokens on kvframe's blocks as on its own.

Skipped where a known transformers and torch are not installed: run_transformers.py says how.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import kvframe
from kvframe.policies import BatchedEviction, Candidates

pytest.importorskip("torch", reason="needs torch")
pytest.importorskip(
    "kvframe.integrations.transformers", reason="needs transformers 5.17", exc_type=ImportError
)

import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM
from transformers.generation.configuration_utils import ContinuousBatchingConfig
from transformers.generation.continuous_batching import continuous_api
from transformers.generation.continuous_batching.cache import PagedAttentionCache

from kvframe.integrations.transformers import kvframe_blocks, releases
from tests.integrations import tiny

pytestmark = pytest.mark.filterwarnings("default")  # the engine's own are not ours to mend

WORK = tiny.prompts(64)
ROOMY, TIGHT, SCARCE = 400, 32, 16
"""Blocks: nothing is evicted; cached blocks are; running requests are preempted too."""

model = cache(tiny.llama)


@cache
def right() -> list[tiny.Tokens]:
    return tiny.plain(model(), WORK)


@cache
def stock(blocks: int) -> tiny.Served:
    return tiny.serve(model(), WORK, nullcontext(), blocks=blocks)


class LeastRecent(BatchedEviction):
    """As the built-in lru, in Python, looking at all there is."""

    columns = ("last_use",)
    window = 0

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        out[:] = candidates["last_use"]


class Plugin:
    @kvframe.hookimpl
    def kvframe_eviction(self) -> list[kvframe.EvictionPolicy]:
        policy = kvframe.EvictionPolicy(
            name="least-recent", way="batched", summary="", make=lambda options: LeastRecent()
        )
        return [policy]


@cache
def registry() -> kvframe.Registry:
    found = kvframe.Registry()
    found.register(Plugin(), "this test")
    return found


@contextmanager
def checked(
    into: list[kvframe.KVCacheManager], eviction: str = "lru", **sections: Any
) -> Iterator[None]:
    """On kvframe; afterwards nothing is left in use."""
    table = {"policy": eviction, "on_error": "raise"}
    with kvframe_blocks(registry=registry(), eviction=table, **sections) as managers:
        yield
    (manager,) = managers
    manager.check_integrity()
    assert manager.counts().referenced == manager.stats.counters()["live_sequences"] == 0
    into.append(manager)


def on_kvframe(
    blocks: int, eviction: str = "lru", **options: Any
) -> tuple[tiny.Served, dict[str, int]]:
    managers: list[kvframe.KVCacheManager] = []
    served = tiny.serve(model(), WORK, checked(managers, eviction), blocks=blocks, **options)
    return served, managers[0].stats.counters()


@pytest.mark.parametrize("eviction", ["lru", "slru", "least-recent"])
def test_prefill_falls_by_the_shared_share(eviction: str) -> None:
    served, stats = on_kvframe(ROOMY, eviction)
    assert served.answers == stock(ROOMY).answers == right()
    prompt_tokens = sum(map(len, WORK))
    assert served.prefill == stock(ROOMY).prefill == prompt_tokens - tiny.shared(WORK)
    assert (stats["prompt_tokens"], stats["hit_tokens"]) == (prompt_tokens, tiny.shared(WORK))
    assert stats["evictions"] == 0


def test_policies_decide_what_is_computed_again() -> None:
    prefill = {}
    for eviction in ("lru", "slru", "least-recent"):
        served, stats = on_kvframe(TIGHT, eviction)
        assert served.answers == stock(TIGHT).answers == right()
        assert stats["evictions"] > 0
        prefill[eviction] = served.prefill
    assert prefill["slru"] < prefill["lru"] == prefill["least-recent"] < stock(TIGHT).prefill


@pytest.mark.parametrize("eviction", ["lru", "slru"])
@pytest.mark.parametrize("blocks", [ROOMY, SCARCE])
def test_many_at_once(blocks: int, eviction: str) -> None:
    served, stats = on_kvframe(blocks, eviction, at_once=64, max_batch_tokens=256)
    assert served.answers == right()
    again = stats["requests"] - len(WORK)
    assert (again > 0) == (blocks == SCARCE), "preempted requests come in again"


@pytest.mark.parametrize("blocks", [ROOMY, TIGHT])
def test_forks(blocks: int) -> None:
    served, _ = on_kvframe(blocks, samples=3, at_once=4)
    assert served.answers == right()
    assert len(served.forks) == 2 * len(WORK)
    assert all(answer == right()[i] for i, answer in served.forks)


def test_requests_come_back_from_the_cpu_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = torch.empty

    def unpinned(*args: Any, pin_memory: bool = False, **options: Any) -> Any:
        return empty(*args, **options)

    monkeypatch.setattr(torch, "empty", unpinned)  # there may be no card to pin memory for
    served, _ = on_kvframe(SCARCE, at_once=16, cpu_offload_space=0.01)
    assert served.answers == right()


def test_reserve_holds_admissions_back() -> None:
    managers: list[kvframe.KVCacheManager] = []
    context = checked(managers, pressure={"reserve": 4})
    served = tiny.serve(model(), WORK[:16], context, blocks=24, at_once=16)
    assert served.answers == right()[:16]
    assert managers[0].stats.counters()["refused"] > 0


def windowed() -> PreTrainedModel:
    torch.manual_seed(0)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=tiny.VOCAB,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            use_sliding_window=True,
            sliding_window=2 * tiny.BLOCK_SIZE,
            layer_types=["full_attention", "sliding_attention"] * 2,
            initializer_range=0.3,
            pad_token_id=0,
            attn_implementation="sdpa",
        )
    ).eval()


def test_windows_share_nothing_and_give_all_back() -> None:
    mixed, work = windowed(), WORK[:8]
    managers: list[kvframe.KVCacheManager] = []
    context = checked(managers)
    served = tiny.serve(mixed, work, context, blocks=80, at_once=4, samples=2)
    expected = tiny.plain(mixed, work)
    assert served.answers == expected
    assert all(answer == expected[i] for i, answer in served.forks)
    assert managers[0].counts().free == 80


def test_without_sharing_nothing_is_cached() -> None:
    served, stats = on_kvframe(TIGHT, at_once=4, allow_block_sharing=False)
    assert served.answers == right()
    assert stats["stored"] == 0


def outcomes(work: list[tiny.Tokens], blocks: int, new_tokens: int) -> list[Any]:
    """What the engine answers to all of some prompts, in their order."""
    batching = ContinuousBatchingConfig(
        block_size=tiny.BLOCK_SIZE, num_blocks=blocks, max_batch_tokens=64
    )
    engine = model().continuous_batching_context_manager(
        tiny.generation(), timeout=60, continuous_batching_config=batching
    )
    with checked([]), engine as manager:
        for i, prompt in enumerate(work):
            manager.add_request(prompt, str(i), max_new_tokens=new_tokens)
        found = [manager.get_result(timeout=60) for _ in work]
    return sorted(found, key=lambda result: int(result.request_id))


def test_prompts_that_never_fit_are_refused_one_by_one() -> None:
    large = list(range(1, 90))
    first, refused, *others = outcomes([WORK[0], large, *WORK[1:4]], 10, tiny.NEW_TOKENS)
    assert refused.error == "the prompt needs 12 blocks, but the cache has 10"
    assert [one.generated_tokens for one in (first, *others)] == right()[:4]


def test_a_request_that_outgrows_the_cache_ends_and_the_others_go_on() -> None:
    grown, other = outcomes([WORK[0], WORK[1]], 10, 60)
    expected = "the request needs 11 blocks, but the cache has 10"
    assert expected in (grown.error, other.error)
    assert len(grown.generated_tokens) > 20


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"eviction": {"policy": "lruu"}}, "lru"),
        ({"cache": {"null_block": True}}, "null_block"),
        ({"cache": {"partial_hits": True}}, "partial_hits"),
        ({"groups": [{"name": "w", "kind": "sliding_window", "window": 8}]}, "full group"),
    ],
)
def test_what_does_not_suit_is_refused_before_a_model_runs(
    sections: dict[str, Any], told: str
) -> None:
    with pytest.raises(kvframe.KVFrameError, match=told), kvframe_blocks(**sections):
        pass


def test_the_engine_is_as_before_afterwards() -> None:
    before = continuous_api.PagedAttentionCache
    context: AbstractContextManager[Any] = kvframe_blocks()
    with context:
        assert continuous_api.PagedAttentionCache is not before
    assert continuous_api.PagedAttentionCache is before


def test_another_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "version_of", lambda _: "5.18.0")
    with (
        pytest.raises(ImportError, match=r"^transformers 5\.18\.0 is installed: .* 5\.17 only$"),
        kvframe_blocks(),
    ):
        pass


def test_what_has_changed_within_a_release_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def update(self: Any, other: int) -> None: ...

    monkeypatch.setattr(PagedAttentionCache, "update", update)
    with pytest.raises(ImportError, match=r"PagedAttentionCache\.update takes \('other',\)"):
        releases.check_release()
