"""The verdict on simulated servers: who is ahead, by how much, and who cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from kvframe.bench.policies import choose
from kvframe.bench.server.cells import ServerCell, ServerPlan
from kvframe.bench.server.fleet import fleets
from kvframe.bench.server.routing import sentences
from kvframe.bench.server.tier_verdict import tier_sentence
from kvframe.bench.server.tiers import parse_tiers
from kvframe.bench.server.verdict import lag, sentence
from kvframe.registry import Registry

from .made import source


def cell(**given: object) -> ServerCell:
    """One with these fields, and zeros elsewhere."""
    required = [field.name for field in msgspec.structs.fields(ServerCell) if field.required]
    zeros: dict[str, object] = dict.fromkeys(required, 0)
    zeros |= {"trace": "", "profile": "", "saturated": False, "finished": 1, "capacity_blocks": 8}
    return msgspec.convert(zeros | {"ttft_mean": 0.01} | given, ServerCell)


Kept = Mapping[str, float]


def said(goodput: Kept, *at_other_times: Kept) -> str:
    """What is said of policies that keep so many promises a second, and so many at 0.7 and 1.4."""
    made, registry = source(np.random.default_rng(0), 5), Registry()
    cells = {}
    for factor, kept in zip((1.0, 0.7, 1.4), (goodput, *at_other_times), strict=False):
        for policy, good in kept.items():
            plan = ServerPlan(made, choose(policy, registry), 8, 1.0, factor)
            cells[plan] = cell(policy=policy, goodput=good)
    return sentence(cells).removeprefix("made, load 1, 8 blocks: ")


def routed(*kept: Kept) -> str:
    """What is said of routings that keep so many promises a second, at each time factor."""
    made, lru = source(np.random.default_rng(0), 5), choose("lru", Registry())
    cells = {}
    for factor, of in zip((1.0, 0.7, 1.4), kept, strict=True):
        for routing, good in of.items():
            fleet = fleets(["2"], [routing], 0)[0]
            plan = ServerPlan(made, lru, 8, 1.0, factor, fleet=fleet)
            cells[plan] = cell(policy="lru", routing=routing, goodput=good)
    (told,) = sentences(cells)
    return told


def test_an_optimum_of_hits_that_serves_worse_is_told() -> None:
    told = said({"lru": 0.5, "mq": 0.49, "opt": 0.4})
    assert told.endswith(
        "opt 0.400 good requests/s, mean TTFT 0.010 s (an optimum of hits, which is no bound of "
        "what users feel)."
    )
    assert "no bound" not in said({"lru": 0.5, "mq": 0.49, "opt": 0.49})


def test_a_choice_that_matters_at_other_step_times_only_is_told() -> None:
    alike, apart = {"lru": 0.5, "mq": 0.49}, {"lru": 0.5, "mq": 0.4}
    assert said(alike, alike, apart).endswith(
        "; with step times of 1.4 times these it does matter."
    )
    assert said(alike, alike, alike).endswith(
        "; the ranking survives step times of 0.7 and 1.4 times these."
    )


def test_a_routing_that_matters_at_other_step_times_only_is_told() -> None:
    alike = {"prefix": 0.9, "session": 0.89, "round-robin": 0.9}
    apart = {"prefix": 0.901, "session": 0.891, "round-robin": 0.655}
    told = routed(alike, alike, apart)
    assert ": the choice among 3 routings does not matter, " in told
    assert told.endswith(
        "; prefix leads at 1.4 times these step times, round-robin is last, 27% fewer."
    )
    assert routed(alike, alike, alike).endswith(
        "; that survives step times of 0.7 and 1.4 times these."
    )


def below_and_without(**given: tuple[object, object]) -> str:
    """What is said of a tier: each field's value without it, and with it."""
    made, lru = source(np.random.default_rng(0), 5), choose("lru", Registry())
    host = parse_tiers(["host=8"], Registry())
    always: dict[str, object] = {"makespan": 3600.0, "replicas": 1, "ttft_p99": 0.01}
    without, below = (
        cell(policy="lru", **always | {name: pair[at] for name, pair in given.items()})
        for at in (0, 1)
    )
    plan = ServerPlan(made, lru, 8, 1.0)
    return tier_sentence({plan: without, replace(plan, tiers=host): below})


def test_where_no_request_is_finished_there_is_no_verdict_on_tiers() -> None:
    nothing = {"finished": (0, 0), "rejected": (7, 7), "ttft_mean": (None, None)}
    assert below_and_without(**nothing) == ""
    some = below_and_without(finished=(1, 1), rejected=(7, 7))
    assert some.startswith(
        "made, load 1, 8 blocks: 7 requests rejected, larger than the pool; of the others, host "
        "below the pool makes no difference"
    )
    assert some.count("rejected") == 1


def test_hits_that_fall_while_less_is_computed_are_told_with_it() -> None:
    """What preempted requests find is in no hit rate, and yet is not computed."""
    hits = {"token_hit_rate": (0.84, 0.837)}
    told = below_and_without(**hits, prefill_tokens=(90_000, 70_000))
    assert (
        "prompt tokens found at first 84.0% -> 83.7% (), computed with what was preempted " in told
    )
    assert "90,000 -> 70,000; " in told
    for more in (70_000, 99_000):
        plain = below_and_without(token_hit_rate=(0.5, 0.6), prefill_tokens=(100_000, more))
        assert "computed" not in plain
    assert "computed" not in below_and_without(**hits, prefill_tokens=(70_000, 90_000))


@pytest.mark.parametrize(
    ("busy", "told"),
    [
        (90.0, "; 10 GPU-seconds saved in 1 h, 2.5 a GiB of the 4 below the pool; "),
        (99.9, "); the"),
    ],
)
def test_what_a_tier_saves_is_told_where_it_is_something(busy: float, told: str) -> None:
    made, lru = source(np.random.default_rng(0), 5), choose("lru", Registry())
    host = parse_tiers(["host=8"], Registry())
    hour = {"makespan": 3600.0, "replicas": 1}
    without = cell(policy="lru", utilisation=100 / 3600, ttft_mean=2.0, ttft_p99=2.0, **hour)
    below = cell(
        policy="lru over host", utilisation=busy / 3600, tier_bytes={"host": 2**32},
        tier_hit_tokens={"pool": 5, "host": 5}, ttft_mean=1.0, ttft_p99=1.0, **hour,
    )  # fmt: skip
    plan = ServerPlan(made, lru, 8, 1.0)
    sentence = tier_sentence({plan: without, replace(plan, tiers=host): below})
    assert told in sentence
    assert ("GPU-seconds" in sentence) == (busy == 90.0)


def hardly(kept: Kept, ttft: Mapping[str, float]) -> str:
    """What is said of policies that finish 1.6 requests a second."""
    made, registry, cells = source(np.random.default_rng(0), 5), Registry(), {}
    for policy, good in kept.items():
        plan = ServerPlan(made, choose(policy, registry), 8, 1.0)
        rates = {"goodput": good, "requests_per_second": 1.6, "ttft_mean": ttft[policy]}
        cells[plan] = cell(policy=policy, **rates)
    return sentence(cells).removeprefix("made, load 1, 8 blocks: ")


def test_a_promise_that_hardly_anything_keeps_decides_nothing() -> None:
    ttft = {"lru": 40.0, "mq": 20.0}
    assert hardly({"lru": 0.008, "mq": 0.0}, ttft) == (
        "almost no request keeps the promise (0.008 of 1.600 a second); judged by mean TTFT, mq "
        "serves best of 2, mq mean TTFT 20.00 s; last is lru mean TTFT 40.00 s, 100% longer."
    )
    none = hardly({"lru": 0.0, "mq": 0.0}, ttft)
    assert none.startswith("no request keeps the promise; judged by mean TTFT, mq serves best")
    assert hardly({"lru": 0.09, "mq": 0.0}, ttft).startswith("lru serves best of 2, lru 0.090 good")


def test_a_routing_is_not_judged_by_a_promise_that_hardly_anything_keeps() -> None:
    made, lru, cells = source(np.random.default_rng(0), 5), choose("lru", Registry()), {}
    for routing, good, ttft in (("prefix", 0.0, 20.0), ("session", 0.008, 40.0)):
        plan = ServerPlan(made, lru, 8, 1.0, fleet=fleets(["2"], [routing], 0)[0])
        rates = {"goodput": good, "requests_per_second": 1.6, "ttft_mean": ttft}
        cells[plan] = cell(policy="lru", routing=routing, **rates)
    (told,) = sentences(cells)
    assert "a second); judged by mean TTFT, prefix routes best of 2, " in told


def test_times_are_longer_by_a_share_of_the_best() -> None:
    best, worst = cell(policy="mq", ttft_mean=0.35), cell(policy="lru", ttft_mean=0.45)
    assert lag(best, worst, by_goodput=False) == "29% longer"


@pytest.mark.parametrize(
    ("goodput", "wanted"),
    [
        (
            {"lru": 0.2, "mq": 0.250, "foresight": 0.249},
            "mq serves best of 3 (foresight within 5%), mq 0.250 good requests/s, mean TTFT 0.010 "
            "s; last is lru 0.200 good requests/s, mean TTFT 0.010 s, 20% fewer.",
        ),
        (
            {"lru": 0.245, "mq": 0.250},
            "the choice among 2 policies does not matter, they are within 5%, lru 0.245 good "
            "requests/s, mean TTFT 0.010 s.",
        ),
        (
            {"lru": 0.5, "mq": 0.250},
            "lru serves best of 2, lru 0.500 good requests/s, mean TTFT 0.010 s; last is mq 0.250 "
            "good requests/s, mean TTFT 0.010 s, 50% fewer.",
        ),
    ],
)
def test_a_lead_is_told_with_its_size(goodput: dict[str, float], wanted: str) -> None:
    assert said(goodput) == wanted
