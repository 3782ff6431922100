"""An adapter, a salt or a session is forgotten in every tier; loads are joined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvframe.tiers import SwapCost, Swapped

from .helpers import BLOCK, Engine, Shelf, below, host, text

TEXT = text(1, 13)
SPACES: list[dict[str, Any]] = [
    {},
    {"lora_name": "a"},
    {"lora_name": "a", "cache_salt": "s"},
    {"cache_salt": "s"},
]


def best(engine: Engine) -> list[int]:
    return [engine.tiers.lookup(TEXT, **space).best for space in SPACES]


def filled(**more: Any) -> Engine:
    engine = Engine([host(), below()], stores=[Shelf()], blocks=32, **more)
    for space in SPACES:
        engine.run(TEXT, **space)
    return engine


@pytest.mark.scenario("F30")
@pytest.mark.parametrize("where", ["pool", "host", "store"])
def test_an_adapter_that_is_loaded_anew_finds_nothing_in_any_tier(where: str) -> None:
    engine = filled()
    if where == "host":
        engine.forget()
    elif where == "store":
        engine.only_below()
    assert best(engine) == [12] * 4
    engine.tiers.reset_prefix_cache(lora_name="a")
    assert best(engine) == [12, 0, 0, 12]
    engine.settle()
    assert best(engine) == [12, 0, 0, 12]
    assert len(engine.tiers.below[0].index.stored()) == 6
    engine.run(TEXT, lora_name="a")
    assert best(engine) == [12, 12, 0, 12]
    engine.tiers.reset_prefix_cache(cache_salt="s")
    assert best(engine) == [12, 12, 0, 0]
    engine.tiers.reset_prefix_cache()
    assert best(engine) == [0] * 4
    engine.tiers.check_integrity()


@pytest.mark.scenario("F30")
def test_what_is_on_its_way_is_dropped_where_it_arrives() -> None:
    engine = Engine([host(), below()], stores=[Shelf()], blocks=32)
    grant = engine.start(TEXT, lora_name="a")
    engine.compute(grant.seq)
    assert engine.tiers.offload(grant.seq) == 3
    engine.tiers.reset_prefix_cache(lora_name="a")
    engine.settle()
    assert engine.tiers.lookup(TEXT, lora_name="a").best == 0
    # It still runs, and gives nothing away.
    assert engine.tiers.offload(grant.seq) == 0
    engine.kv.release(grant.seq)
    assert engine.kv.counts().cached == 0
    # A prefetch is under way, and then a load.
    engine.run(TEXT, lora_name="a")
    engine.only_below()
    engine.tiers.prefetch(TEXT, lora_name="a")
    engine.tiers.reset_prefix_cache(lora_name="a")
    engine.settle()
    assert engine.tiers.lookup(TEXT, lora_name="a").best == 0
    engine.run(TEXT, lora_name="a")
    engine.forget()
    grant = engine.start(TEXT, lora_name="a")
    assert grant.load is not None
    engine.tiers.reset_prefix_cache(lora_name="a")
    engine.settle()
    assert engine.kv.lookup(TEXT, lora_name="a").tokens == 0
    assert engine.tiers.lookup(TEXT, lora_name="a").best == 0
    engine.tiers.check_integrity()


@pytest.mark.scenario("F30")
def test_a_sequence_that_was_swapped_out_is_computed_again() -> None:
    engine = Engine([host()], blocks=16)
    cost = SwapCost(parameters=1e9, flops=1e6, bandwidth_out=1e9, bandwidth_in=1e9)
    swapped: list[Any] = []
    for adapter in ("a", "b", "a"):
        grant = engine.start(text(len(swapped), 13), lora_name=adapter)
        engine.compute(grant.seq)
        if len(swapped) == 2:
            engine.tiers.reset_prefix_cache(lora_name="a")
        out = engine.tiers.preempt(grant.seq, cost)
        engine.settle()
        swapped.append(out)
    first, second, third = swapped
    assert isinstance(first, Swapped)
    assert isinstance(second, Swapped)
    assert not isinstance(third, Swapped), "what it has was to be forgotten"
    grant = engine.tiers.swap_in(first)
    assert (first.state, grant.cached_tokens, grant.load) == ("back", 0, None)
    assert engine.tiers.swap_in(second).cached_tokens == 12
    engine.settle()
    engine.tiers.check_integrity()


@pytest.mark.scenario("F30")
def test_a_session_loses_in_each_tier_what_it_alone_asked_for() -> None:
    engine = Engine([host(), below()], stores=[Shelf()], blocks=32)
    shared, tails = text(1, 8), {7: [70] * 5, 8: [80] * 5}
    engine.run([*shared, *[60] * 5])
    for session, tail in tails.items():
        engine.run([*shared, *tail], session=session)
    engine.only_below()
    engine.tiers.reset_prefix_cache(session=7)
    engine.settle()
    found = {s: engine.tiers.lookup([*shared, *tail]).best for s, tail in tails.items()}
    assert found == {7: 8, 8: 12}
    engine.tiers.check_integrity()


@pytest.mark.scenario("F30")
def test_pages_from_before_a_restart_may_be_of_any_adapter(tmp_path: Path) -> None:
    def start() -> Engine:
        store: dict[str, Any] = {"store": "disk", "options": {"path": str(tmp_path)}}
        return Engine([host(), below(**store)], blocks=32)

    engine = start()
    for adapter in ("", "a", "b"):
        engine.run(TEXT, lora_name=adapter)
    engine.tiers.close()
    engine = start()
    assert [engine.tiers.lookup(TEXT, lora_name=a).best for a in ("", "a", "b")] == [12] * 3
    engine.run(TEXT)
    engine.tiers.reset_prefix_cache(lora_name="a")
    # Whose the others are was never said; none of them may be the old adapter's.
    assert [engine.tiers.lookup(TEXT, lora_name=a).best for a in ("", "a", "b")] == [12, 0, 0]
    engine.tiers.close()


@pytest.mark.scenario("F31")
@pytest.mark.parametrize("fails", [False, True])
def test_the_second_of_two_like_requests_joins_the_load_of_the_first(fails: bool) -> None:
    engine = Engine([host()], blocks=32)
    engine.run(TEXT)
    engine.forget()
    first = engine.start(TEXT)
    second = engine.start(TEXT, join=True)
    assert (first.external_tokens, second.external_tokens) == (12, 0)
    assert second.joined_tokens == 12
    if fails:
        host_pool = engine.tiers.host.pools[0]
        host_pool.poison(range(4))
    polled = engine.tiers.drain()
    told = polled.rewound if fails else polled.landed
    assert sorted(told) == sorted([first.seq, second.seq])
    assert engine.tiers.stats()["moved"]["onboarded"] == (0 if fails else 3)
    for grant in (first, second):
        assert engine.compute(grant.seq) == (1 if not fails else 13)
        engine.kv.release(grant.seq)
    engine.tiers.check_integrity()


@pytest.mark.scenario("V28", "F29")
def test_a_full_host_tier_takes_nothing_and_requests_go_on() -> None:
    """Its pages are all being written, or read: nothing may be evicted for what comes."""
    engine = Engine([host(3)], blocks=32)
    grants = [engine.start(text(seed, 13)) for seed in range(3)]
    for grant in grants:
        engine.compute(grant.seq)
    assert engine.tiers.offload(grants[0].seq) == 3
    index = engine.tiers.host.index
    held = index.counts()
    for grant in grants[1:]:
        for _ in range(3):
            assert engine.tiers.offload(grant.seq) == 0
        assert index.counts() == held
    for grant in grants:
        seq, tokens = grant.seq, [*engine.texts[grant.seq], *[5] * BLOCK]
        engine.kv.append(seq, tokens[13:])
        engine.texts[seq] = tokens
        assert engine.compute(seq) == BLOCK
    engine.settle()
    assert engine.tiers.offload(grants[1].seq) == 3
    engine.settle()
    for grant in grants:
        engine.kv.release(grant.seq)
    assert engine.kv.counts().referenced == 0
    engine.tiers.check_integrity()


@pytest.mark.scenario("V28", "F29")
def test_a_preempted_request_comes_back_while_its_first_load_is_under_way() -> None:
    engine = Engine([host()], blocks=32)
    engine.run(TEXT)
    engine.forget()
    first = engine.start(TEXT)
    assert first.load is not None
    loading = set(engine.kv.block_table(first.seq)[:3].tolist())
    request = engine.kv.preempt(first.seq)
    again = engine.tiers.allocate(request)
    engine.texts[again.seq] = TEXT
    # The first load still writes its pages: they are given to no other sequence.
    assert not loading & set(engine.kv.block_table(again.seq).tolist())
    assert again.load not in (None, first.load)
    engine.settle()
    assert engine.compute(again.seq) == 1
    engine.kv.release(again.seq)
    assert (engine.kv.inspect.tickets(), engine.kv.counts().referenced) == ([], 0)
    engine.tiers.check_integrity()


def sharing(objects: dict[str, bytes]) -> Engine:
    return Engine([host(), below(store="shared")], stores=[Shelf(objects=objects)], blocks=32)


@pytest.mark.scenario("F30")
@pytest.mark.parametrize(
    "scope", [{"lora_name": "a"}, {"cache_salt": "s"}, {"lora_name": "a", "cache_salt": "s"}, {}]
)
def test_what_others_wrote_before_an_adapter_was_loaded_anew_is_not_read(
    scope: dict[str, Any],
) -> None:
    objects: dict[str, bytes] = {}
    other, engine = sharing(objects), sharing(objects)
    for space in SPACES:
        other.run(TEXT, **space)
    gone = [all(space.get(what, "") == name for what, name in scope.items()) for space in SPACES]
    engine.tiers.reset_prefix_cache(**scope)
    for _ in range(2):
        for space, forgotten in zip(SPACES, gone, strict=True):
            engine.tiers.prefetch(TEXT, **space)
            engine.settle()
            assert engine.tiers.lookup(TEXT, **space).best == (0 if forgotten else 12)
            # What is computed anew is not taken for what lies there under the old name.
            assert engine.run(TEXT, **space).external_tokens == (0 if forgotten else 12)
            engine.only_below()
            assert engine.tiers.lookup(TEXT, **space).best == 12
        engine.tiers.reset_prefix_cache(**scope)
    # The others go on as before, and find none of it.
    other.only_below()
    assert best(other) == [12] * 4
    engine.settle()
    assert len(objects) == 3 * 4, "what this engine forgets, it has put there itself"
    engine.tiers.check_integrity()


@pytest.mark.scenario("F30")
def test_a_session_that_is_forgotten_goes_on_sharing_what_others_wrote() -> None:
    objects: dict[str, bytes] = {}
    other, engine = sharing(objects), sharing(objects)
    other.run(TEXT, session=7)
    engine.tiers.reset_prefix_cache(session=7)
    engine.tiers.prefetch(TEXT)
    engine.settle()
    assert engine.tiers.lookup(TEXT).best == 12
