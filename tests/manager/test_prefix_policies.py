"""Prefix matchers in Python: rewriting, namespaces, what is taken and loaded, whole indexes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from kvframe import ConfigError, KVCacheManager, PluginError, Reason, Request, UsageError
from kvframe.policies import BatchedPrefix

from .gates import found, serve
from .helpers import manager
from .matchers import DictIndex, Timeless, matched

A = list(range(12))


def test_a_normaliser_rewrites_what_the_model_sees() -> None:
    kv = matched(Timeless())
    asked = [*A[:4], 900, 17, 23, 901, *A[4:], 7]
    grant = kv.allocate(asked)
    assert grant.prompt is not None
    assert grant.prompt.tolist() == [*A, 7]
    assert (grant.prompt_tokens, grant.granted_tokens) == (13, 13)
    kv.commit(grant.seq, 13)
    back = kv.preempt(grant.seq)
    kv.check_integrity()
    # Another time of day is the same prompt now; one without any is left as it is.
    again = kv.allocate([*A[:4], 900, 18, 0, 5, 901, *A[4:], 7])
    assert again.cached_tokens == 12
    plain = kv.allocate([*A, 7])
    assert (plain.cached_tokens, plain.prompt) == (12, None)
    # What comes back has been rewritten before.
    grant = kv.allocate(back)
    assert (grant.cached_tokens, grant.prompt) == (12, None)
    assert kv.lookup(asked).tokens == 12
    kv.check_integrity()


def test_a_request_is_rewritten_once_and_in_a_step_too() -> None:
    class Counting(Timeless):
        asked = 0

        def normalise(self, prompts: Any) -> list[Any]:
            self.asked += len(prompts)
            return super().normalise(prompts)

    policy = Counting()
    kv = matched(policy, 8)
    request = Request([*A[:4], 900, 17, 901, *A[4:], 7])
    stepped = kv.step(allocate=[request, [1, 2, 3]])
    first, second = stepped.allocations
    assert first is not None
    assert second is not None
    assert first.prompt is not None
    assert second.prompt is None
    assert first.prompt.tolist() == [*A, 7]
    for _ in range(3):
        kv.step(allocate=[request])
    kv.can_allocate(request)
    kv.lookup(request)
    assert policy.asked == 2


def test_a_namespace_parts_prefixes() -> None:
    class BySession(BatchedPrefix):
        def namespace(self, prompts: Any) -> list[str]:
            return [f"session {session}" for session in prompts.sessions]

    kv = matched(BySession())
    assert serve(kv, [*A, 7], session=1) == 0
    assert serve(kv, [*A, 7], session=2) == 0
    assert serve(kv, [*A, 7], session=1) == 12
    assert serve(kv, [*A, 7], session=1, cache_salt="x") == 0
    assert kv.lookup(Request([*A, 7], session=2)).tokens == 12
    assert kv.lookup([*A, 7]).tokens == 0


@pytest.mark.scenario("F30")
def test_a_salt_is_forgotten_in_every_namespace() -> None:
    class BySession(BatchedPrefix):
        def namespace(self, prompts: Any) -> list[str]:
            return [f"session {session}" for session in prompts.sessions]

    kv = matched(BySession())
    for session, salt in ((1, ""), (1, "x"), (2, "x"), (2, "1:x")):
        serve(kv, [*A, 7], session=session, cache_salt=salt)
    assert kv.reset_prefix_cache(cache_salt="x") == 6
    found = [
        kv.lookup(Request([*A, 7], session=session, cache_salt=salt)).tokens
        for session, salt in ((1, ""), (1, "x"), (2, "x"), (2, "1:x"))
    ]
    assert found == [12, 0, 0, 12]


@pytest.mark.scenario("V4")
def test_what_is_pinned_and_hashed_is_what_is_stored() -> None:
    """Where a prompt is rewritten, or its namespace named, its pin holds what it has cached."""

    class BySalt(Timeless):
        def namespace(self, prompts: Any) -> list[str]:
            return [f"{salt}!" for salt in prompts.salts]

    kv = matched(BySalt())
    asked = [*A[:4], 900, 17, 901, *A[4:], 7]
    keys = kv.blocks.hash_blocks(asked, cache_salt="s")
    assert np.array_equal(keys, kv.blocks.hash_blocks([*A, 7], cache_salt="s"))
    serve(kv, asked, cache_salt="s")
    assert kv.pins.pin(asked) is None
    pin = kv.pins.pin([*A[:4], 900, 23, 901, *A[4:]], cache_salt="s")
    assert pin is not None
    assert (pin.tokens, pin.clipped) == (12, False)
    assert kv.evict_until(kv.counts().total) == 0
    kv.pins.unpin(pin)
    kv.check_integrity()


def test_min_hit_takes_all_or_nothing() -> None:
    kv = matched("min-hit", options={"min_tokens": 8})
    serve(kv, [*A, 7])
    assert kv.lookup([*A[:4], 9]).tokens == 0
    assert serve(kv, [*A[:4], 9]) == 0
    assert serve(kv, [*A[:8], 9]) == 8
    assert serve(kv, [*A, 9]) == 12
    kv.check_integrity()


def test_an_attempt_says_what_can_be_brought_of_a_rewritten_prompt() -> None:
    kv = matched(Timeless())
    request = Request([*A[:4], 900, 17, 901, *A[4:], 7])
    stored = kv.inspect.stored_request(request)
    assert stored.prompt is not None
    assert stored.prompt.tolist() == [*A, 7]
    assert kv.inspect.stored_request(stored) is stored
    given = kv.allocate(request, external_until=8)
    assert (given.prompt_tokens, given.external_tokens) == (13, 8)
    assert given.prompt is not None
    assert given.prompt.tolist() == [*A, 7]
    assert np.array_equal(kv.blocks.hash_blocks(request), kv.blocks.hash_blocks([*A, 7]))
    with pytest.raises(UsageError, match="mm_items are the request's own"):
        kv.blocks.hash_blocks(request, cache_salt="s")
    kv.check_integrity()


@pytest.mark.parametrize("way", ["num_external_tokens", "external_until"])
def test_load_or_recompute(way: str) -> None:
    # A token takes 1 s to load after 5 s, and 2 s to compute.
    costs = {
        "bytes_per_token": 1.0,
        "bandwidth": 1.0,
        "latency": 5.0,
        "flops_per_token": 2.0,
        "attention_flops": 0.0,
        "flops": 1.0,
    }
    kv = matched("load-or-recompute", options=costs)
    short = kv.allocate([*A, 7], **{way: 4})  # type: ignore[arg-type]
    assert (short.external_tokens, short.load) == (0, None)
    long = kv.allocate([50 + token for token in [*A, 7]], **{way: 8})  # type: ignore[arg-type]
    assert long.external_tokens == 8
    assert long.load is not None
    kv.check_integrity()


def test_the_shipped_indexes_are_matchers() -> None:
    for name in ("hash", "radix"):
        kv = matched(name, index=name)
        assert serve(kv, [*A, 7]) == 0
        assert serve(kv, [*A, 7]) == 12
    with pytest.raises(ConfigError, match=r'prefix.policy = "radix": cache.index = .hash. differs'):
        matched("radix", index="hash")


def test_wrong_names_are_told() -> None:
    with pytest.raises(PluginError, match="no prefix matcher min-hits; did you mean min-hit"):
        matched("min-hits")
    with pytest.raises(ConfigError, match=r"did you mean prefix.options.min_tokens"):
        matched("min-hit", options={"min_token": 1})
    with pytest.raises(ConfigError, match=r"partial_hits.*takes whole blocks only"):
        matched("min-hit", index="hash", partial_hits=True)
    with pytest.raises(ConfigError, match=r"an index in Python needs cache.index"):
        matched(DictIndex(), index="radix")


@pytest.mark.parametrize("hash_name", ["sha256", "xxh3-128"])
@pytest.mark.parametrize("seed", range(6))
def test_an_index_in_python_finds_what_hash_does(seed: int, hash_name: str) -> None:
    dice = random.Random(seed)
    blocks = dice.choice([12, 20, 64])
    mine, core = matched(DictIndex(), blocks, hash=hash_name), manager(blocks, hash=hash_name)
    running: list[tuple[int, int]] = []
    for _ in range(150):
        if running and dice.random() < 0.5:
            for kv, seq in zip(
                (mine, core), running.pop(dice.randrange(len(running))), strict=True
            ):
                kv.release(seq)
        else:
            tokens = [dice.randrange(2) for _ in range(dice.randint(1, 20))]
            request = Request(tokens), Request(tokens)
            told = [kv.step(allocate=[r]) for kv, r in zip((mine, core), request, strict=True)]
            assert told[0].allocations == told[1].allocations
            assert told[0].reasons.tolist() == told[1].reasons.tolist()
            grant = told[0].allocations[0]
            if grant is not None:
                for kv in (mine, core):
                    kv.commit(grant.seq, grant.prompt_tokens)
                running.append((grant.seq, grant.seq))
        mine.check_integrity()
        assert mine.counts() == core.counts()
        probe = [dice.randrange(2) for _ in range(13)]
        mine_hit, core_hit = mine.lookup(probe), core.lookup(probe)
        assert mine_hit.tokens == core_hit.tokens
        assert mine_hit.blocks[0].tolist() == core_hit.blocks[0].tolist()
        if dice.random() < 0.02:
            mine.reset_prefix_cache()
            core.reset_prefix_cache()
    assert mine.stats.prefix_stats() == {"prefix_failures": 0, "prefix_wrong": 0}
    left_out = ("admission_failures",)
    stats = [
        {k: v for k, v in kv.stats.counters().items() if k not in left_out} for kv in (mine, core)
    ]
    assert stats[0] == stats[1]


def test_what_an_index_names_wrong_is_a_miss() -> None:
    class Liar(DictIndex):
        def match(self, prompts: Any) -> list[Any]:
            return [np.array([3, 1, 2]) for _ in prompts.lengths]

    kv = matched(Liar(), on_error="fallback")
    with pytest.warns(RuntimeWarning, match=r"mine \(kvframe-test 3.2.1\): it named blocks"):
        assert serve(kv, [*A, 7]) == 0
    assert kv.stats.prefix_stats()["prefix_wrong"] == 1
    assert serve(kv, [*A, 7]) == 0
    kv.check_integrity()


def test_an_answer_is_good_up_to_what_is_wrong() -> None:
    class HalfRight(DictIndex):
        def match(self, prompts: Any) -> list[Any]:
            return [np.append(blocks[:2], 31) for blocks in super().match(prompts)]

    kv = matched(HalfRight(), on_error="fallback", name="half-right")
    with pytest.warns(RuntimeWarning):
        serve(kv, [*A, 7])
    assert serve(kv, [*A, 7]) == 8
    kv.check_integrity()


def test_found_for_a_pool_that_gives_blocks_away_in_the_same_step() -> None:
    """Room for the first takes what the second was told of: a shorter hit, not a wrong answer."""
    kv = matched(DictIndex(), 5)
    serve(kv, [*A, 7])
    stepped = kv.step(allocate=[[50] * 16, [*A[:4], 9]])
    first, second = stepped.allocations
    assert first is not None
    assert second is None or second.cached_tokens in (0, 4)
    assert Reason(int(stepped.reasons[0])) is Reason.GRANTED
    assert kv.stats.prefix_stats()["prefix_wrong"] == 0
    kv.check_integrity()


def test_kvframe_manager_takes_sections() -> None:
    kv = KVCacheManager.from_toml(prefix={"policy": "min-hit"}, admission={"policy": "second-use"})
    assert kv.inspect.resolved.prefix.name == "min-hit"
    with pytest.raises(UsageError):
        KVCacheManager("kvframe.toml")  # type: ignore[arg-type]
    assert found(kv, A) == 0
