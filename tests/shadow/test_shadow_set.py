"""A set of shadows as an engine feeds it: what is counted, refused, lost and told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from kvframe.errors import ConfigError, HandleError, PluginError, UsageError
from kvframe.flat import UNKNOWN
from kvframe.shadow import Batching, ShadowCounts, ShadowReport, ShadowSet

SIZE = 16
USE = UNKNOWN.row()


@pytest.fixture(name="shadows")
def two_sizes() -> Iterator[ShadowSet]:
    with ShadowSet(["lru", "lfu"], [10, 40], SIZE, actual=("lru", 10)) as made:
        yield made


def keys(family: int, blocks: int) -> list[bytes]:
    return [b"%d %d" % (family, at) for at in range(blocks)]


def begun(number: int, family: int, blocks: int, found: int = 0) -> Any:
    tokens = blocks * SIZE
    lengths = tokens, tokens - 1, tokens, tokens, found
    return number, keys(family, blocks), *lengths, True, USE


def serve(shadows: ShadowSet, number: int, family: int, blocks: int, found: int = 0) -> None:
    shadows.step(begun=[begun(number, family, blocks, found)])
    shadows.step(ended=[(number, [], blocks * SIZE, blocks * SIZE)])


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("policies", [-1, "lru", [], [3]]),
        ("capacities", [3, 1.5, [], [0], ["x"]]),
        ("block_size", [None, -1, 0, 2**32, 1.5]),
        ("actual", [-1, "lru", ("lru",), (3, 4)]),
        ("chained", [-1, None]),
        ("stride", [-1, 0, float("nan"), 2**70]),
        ("reserved", [-1, 1.5]),
        ("backlog", [-1, 0, 2**70]),
    ],
)
def test_what_no_argument_takes_is_told_by_its_name(name: str, values: list[Any]) -> None:
    for value in values:
        given: dict[str, Any] = {"policies": ["lru"], "capacities": [9], "block_size": 4}
        with pytest.raises(UsageError, match=name if name != "actual" else "actual|capacities"):
            ShadowSet(**given | {name: value})


def test_waiting_for_ever_is_no_fault(shadows: ShadowSet) -> None:
    shadows.flush(2.0**63)
    with pytest.raises(UsageError, match="step = -1: must be an integer"):
        shadows.reset(-1)


def test_each_policy_at_each_size_counts_its_own_hits(shadows: ShadowSet) -> None:
    for number in range(20):
        serve(shadows, number, number % 5, 4)
    shadows.flush()
    shadows.check_integrity()
    small, large = (
        [one for one in shadows.report().shadows if one.capacity == size] for size in (10, 40)
    )
    assert {one.query_tokens for one in small + large} == {20 * 4 * SIZE}
    # Each of five prefixes of four blocks comes back four times; all but the last block is found.
    assert [one.hit_tokens for one in large] == [15 * 3 * SIZE] * 2
    assert all(one.hit_tokens < 15 * 3 * SIZE for one in small)
    assert [one.policy for one in large] == ["lru", "lfu"]


def test_the_anchor_says_whether_they_can_be_trusted() -> None:
    right, wrong = (ShadowSet(["lfu"], [40], SIZE, actual=("lru", 40)) for _ in ("right", "wrong"))
    for number in range(100):
        found = 3 * SIZE if number >= 5 else 0
        serve(right, number, number % 5, 4, found)
        serve(wrong, number, number % 5, 4, 0)
    for shadows in (right, wrong):
        shadows.flush()
        shadows.close()
    report = right.report()
    assert report.actual is not None
    assert (report.doubt, report.actual.equal_requests) == (None, 100)
    assert report.hit_rate(report.shadows[1]) == pytest.approx(0.7125)
    doubt = wrong.report().doubt
    assert doubt is not None
    assert "lru with 40 blocks" in doubt


def test_an_estimate_takes_off_what_the_anchor_misses() -> None:
    anchor = ShadowCounts("lru", 10, 100, 1000, 200, 250)
    better = ShadowCounts("lfu", 10, 100, 1000, 300, 250)
    report = ShadowReport([anchor, better], anchor)
    assert report.hit_rate(anchor) == pytest.approx(0.25)
    assert report.hit_rate(better) == pytest.approx(0.35)
    assert report.difference == pytest.approx(-0.05)
    assert ShadowReport([better]).hit_rate(better) == pytest.approx(0.3)


def test_a_stride_follows_some_blocks_in_a_smaller_pool() -> None:
    with ShadowSet(["lru"], [64], SIZE, stride=4) as shadows:
        for number in range(8):
            serve(shadows, number, number % 2, 16)
        shadows.flush()
        (counted,) = shadows.report().shadows
    # All but the last block of 16, as without a stride.
    assert counted.hit_tokens == 6 * 15 * SIZE


def test_what_a_sample_is_off_is_taken_off() -> None:
    sampled = [ShadowCounts(name, 10, 100, 1000, hits, 250) for name, hits in (("lru", 180),)]
    sampled.append(ShadowCounts("lfu", 10, 100, 1000, 280, 250))
    guide = ShadowCounts("lru", 10, 100, 1000, 250, 250)
    report = ShadowReport(sampled, guide, 8, guides=[guide])
    assert report.hit_rate(sampled[0]) == pytest.approx(0.25)
    assert report.hit_rate(sampled[1]) == pytest.approx(0.35)
    assert report.difference == 0


def test_with_a_stride_what_really_runs_is_followed_in_full_at_each_size() -> None:
    with ShadowSet(["lfu"], [64, 128], SIZE, actual=("lru", 64), stride=4) as shadows:
        for number in range(60):
            serve(shadows, number, number % 7, 13)
        shadows.flush()
        shadows.check_integrity()
        report = shadows.report()
    assert [one[:2] for one in report.guides] == [("lru", 64), ("lru", 128)]
    assert {one[:2] for one in report.shadows} == {
        (policy, size) for policy in ("lru", "lfu") for size in (64, 128)
    }
    (large,) = [one for one in report.shadows if one[:2] == ("lru", 128)]
    assert report.difference == 0
    assert report.hit_rate(large) == pytest.approx(report.guides[1].hit_rate)


def arrival(number: int, family: int, blocks: int, joined: bool = False) -> Any:
    names = [b"%4d %4d" % (family, at) for at in range(blocks)]
    told = (b"".join(names), len(names)) if joined else names
    return number, 1, False, told, blocks * SIZE, 100, True, USE


@pytest.mark.parametrize("joined", [False, True], ids=["list", "joined"])
def test_shadows_make_up_their_own_steps(joined: bool) -> None:
    batching = Batching(max_num_seqs=8, max_num_batched_tokens=256)
    with ShadowSet(["lru"], [5, 40], SIZE, batching=batching, reserved=1) as shadows:
        shadows.advance(
            3,
            rests=True,
            arrived=[arrival(number, number % 2, 4, joined) for number in range(4)],
            found=[(number, 0) for number in range(4)],
            ended=[(number, [], 3) for number in range(4)],
        )
        shadows.flush()
        shadows.check_integrity()
        small, large = shadows.report().shadows
    assert (small.requests, small.waiting) == (large.requests, large.waiting) == (4, 0)
    assert small.hit_tokens < large.hit_tokens == 2 * 3 * SIZE


def test_steps_of_the_other_way_end_the_shadows() -> None:
    with ShadowSet(["lru"], [10], SIZE) as shadows:
        shadows.advance(1)
        shadows.flush()
        assert "do as the engine does" in str(shadows.report().doubt)
    with pytest.raises(UsageError, match="max_num_seqs = 0"):
        ShadowSet(["lru"], [10], SIZE, batching=Batching(0, 10))


def test_steps_that_find_no_place_are_counted_and_leave_nothing_behind() -> None:
    with ShadowSet(["lru"], [100], SIZE, backlog=2) as shadows:
        for number in range(2_000):
            serve(shadows, number, number % 3, 4)
        shadows.flush()
        serve(shadows, 5_000, 1, 4)
        shadows.flush()
        shadows.check_integrity()
        report = shadows.report()
    (counted,) = report.shadows
    assert counted.requests + report.dropped == 2_001
    assert report.dropped > 0
    assert counted.waiting == 0
    assert report.doubt is not None
    assert "lost" in report.doubt


def test_a_reset_forgets(shadows: ShadowSet) -> None:
    serve(shadows, 1, 1, 4)
    shadows.reset()
    serve(shadows, 2, 1, 4)
    shadows.flush()
    assert {one.hit_tokens for one in shadows.report().shadows} == {0}


def test_what_came_before_the_end_stays_counted(shadows: ShadowSet) -> None:
    serve(shadows, 1, 1, 4)
    shadows.flush()
    shadows.close()
    shadows.close()
    serve(shadows, 2, 1, 4)
    shadows.flush()
    assert {one.requests for one in shadows.report().shadows} == {1}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"policies": []}, r"policies = \[\]: must be names"),
        ({"policies": "lru"}, "policies = 'lru': must be names"),
        ({"capacities": [0]}, r"capacities\[0\] = 0: must be blocks, 1 or more"),
        ({"capacities": [4, -8]}, r"capacities\[1\] = -8: must be blocks, 1 or more"),
        ({"capacities": []}, r"capacities = \[\]: must be blocks, at least one size"),
        ({"capacities": 5}, "capacities = 5: must be blocks"),
        ({"policies": ["lru", "lru"]}, "one is named twice"),
        ({"block_size": 0}, "block_size = 0"),
        ({"stride": 0}, "stride = 0"),
        ({"capacities": [3], "stride": 8}, "capacity = 3"),
    ],
)
def test_a_set_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    asked: dict[str, Any] = {"policies": ["lru"], "capacities": [10], "block_size": SIZE} | given
    with pytest.raises(UsageError, match=message):
        ShadowSet(**asked)


def test_a_policy_that_no_shadow_can_run_is_refused() -> None:
    with pytest.raises(PluginError, match="did you mean lru"):
        ShadowSet(["lrx"], [10], SIZE)
    with pytest.raises(ConfigError, match="needs to know the future"):
        ShadowSet(["opt"], [10], SIZE)
    with pytest.raises(UsageError, match="kvflow: is in Python"):
        ShadowSet(["kvflow"], [10], SIZE)


@pytest.mark.parametrize(
    "step", [{"begun": [1]}, {"ended": [(1, "x", 0, 0)]}, {"grown": [(1, [2], 0, 0)]}]
)
def test_a_step_of_another_form_is_refused(shadows: ShadowSet, step: dict[str, Any]) -> None:
    with pytest.raises((TypeError, UsageError)):
        shadows.step(**step)


def test_a_forked_child_has_none(shadows: ShadowSet) -> None:
    child = os.fork()
    if child == 0:
        try:
            shadows.step()
        except HandleError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
