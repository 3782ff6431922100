"""The sentence, on numbers made for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvframe import _core
from kvframe.bench import admissions, matchers
from kvframe.bench.cells import Cell, Plan
from kvframe.bench.policies import DEFAULT, choose
from kvframe.bench.report import sections
from kvframe.bench.traces import Source
from kvframe.bench.verdict import judge, sentence, with_gap_closed
from kvframe.registry import Registry

from .conftest import SMALL, Command

SOURCE = Source("small", "", _core.Trace.parse(SMALL, "small"))
REGISTRY = Registry()
Hits = Mapping[int | None, Mapping[str, int]]


@cache
def plan(label: str, capacity: int | None, mode: str = "engine") -> Plan:
    """A policy as tables name it: ``lru+second-use/min-hit``."""
    rest, _, prefix = label.partition("/")
    policy, _, gate = rest.partition("+")
    (admission,) = admissions.choose_all([gate], REGISTRY) if gate else [None]
    (matcher,) = matchers.choose_all([prefix], REGISTRY) if prefix else [None]
    chosen = choose(policy, REGISTRY)
    return Plan(SOURCE, chosen, mode, capacity, admission=admission, matcher=matcher)


def rows(hits: Hits, mode: str = "engine", whole: int = 1000) -> dict[Plan, Cell]:
    """Hit tokens of 1,000 input tokens, by capacity and policy."""
    found = {}
    for capacity, by_policy in hits.items():
        for policy, tokens in by_policy.items():
            found[plan(policy, capacity, mode)] = Cell(
                trace="small",
                policy=policy,
                mode=mode,
                block_size=512,
                capacity_blocks=capacity,
                requests=4,
                input_tokens=whole,
                hit_tokens=tokens,
                input_tokens_last_half=500,
                hit_tokens_last_half=0,
                token_hit_rate=tokens / whole if whole else float("nan"),
                after_gap_hit_tokens=0,
                evictions=0,
                block_accesses=10,
                seconds=1.0,
                prepare_seconds=0.0,
            )
    return found


CASES: dict[str, tuple[Hits, str]] = {
    "the mean decides, and not the size with the largest gain": (
        {
            8: {"lru": 100, "lfu": 190, "lfuda": 110, "opt": 400},
            16: {"lru": 300, "lfu": 210, "lfuda": 320, "opt": 500},
        },
        "lfuda would have served it best of lru, lfu and lfuda: it hits 21.50% of the input tokens "
        "against 20.00% for lru and 45.00% for opt on the mean of 2 sizes, most clearly at 16 "
        "blocks, where it hits 32.00% of the input tokens against 30.00% for lru and 50.00% for "
        "opt (10.0% of the gap closed); lfu leads at 8.",
    ),
    "what gains at one size and loses on the mean is not crowned": (
        {
            1: {"lru": 20, "lfu": 60, "opt": 200},
            8: {"lru": 100, "lfu": 120, "opt": 400},
            16: {"lru": 300, "lfu": 210, "opt": 310},
        },
        "lru would have served it best of lru and lfu: none hits more on the mean of 3 sizes; lfu "
        "leads at 1 and 8; most is left to win at 8 blocks, where lru hits 10.00% of the input "
        "tokens and opt 40.00%.",
    ),
    "one size has no mean": (
        {1: {"lru": 100, "lfu": 120, "slru": 110, "opt": 400}},
        "lfu would have served it best of lru, lfu and slru: at 1 block it hits 12.00% of the "
        "input tokens against 10.00% for lru and 40.00% for opt (6.7% of the gap closed).",
    ),
    "lru at one size": (
        {8: {"lru": 100, "lfu": 90, "opt": 400}},
        "lru would have served it best of lru and lfu: none hits more; most is left to win at 8 "
        "blocks, where lru hits 10.00% of the input tokens and opt 40.00%.",
    ),
    "lru alone": (
        {8: {"lru": 100, "opt": 400}, 16: {"lru": 200, "opt": 300}, None: {"infinite": 500}},
        "no verdict, since lru alone was tried; most is left to win at 8 blocks, where lru hits "
        "10.00% of the input tokens and opt 40.00%.",
    ),
    "lru alone, and nothing left to win": (
        {8: {"lru": 0, "opt": 0}, 16: {"lru": 9, "opt": 9}},
        "no verdict, since lru alone was tried; opt hits no more than lru, which hits 0.00% of the "
        "input tokens at 8 blocks.",
    ),
    "bounds are not in the field": (
        {8: {"opt-forced": 390, "lru": 100, "opt": 400}},
        "no verdict, since lru alone was tried; most is left to win at 8 blocks, where lru hits "
        "10.00% of the input tokens and opt 40.00%.",
    ),
    "a bound behind an admission policy is none the fairer": (
        {8: {"opt+second-use": 390, "lru": 100, "lfu": 90, "opt": 400}},
        "lru would have served it best of lru and lfu: none hits more; most is left to win at 8 "
        "blocks, where lru hits 10.00% of the input tokens and opt 40.00%.",
    ),
    "combinations are policies of their own": (
        {
            8: {
                "lru+second-use": 120,
                "lru+second-use/min-hit": 130,
                "lru/min-hit": 90,
                "lru": 100,
                "opt": 400,
            }
        },
        "lru+second-use/min-hit would have served it best of lru+second-use, "
        "lru+second-use/min-hit, lru/min-hit and lru: at 8 blocks it hits 13.00% of the input "
        "tokens against 10.00% for lru and 40.00% for opt (10.0% of the gap closed).",
    ),
    "equals are named": (
        {8: {"lru": 100, "lfu": 120, "slru": 120, "opt": 400}},
        "lfu (equal: slru) would have served it best of lru, lfu and slru: at 8 blocks it hits "
        "12.00% of the input tokens against 10.00% for lru and 40.00% for opt (6.7% of the gap "
        "closed).",
    ),
    "lru goes before its equals": (
        {
            8: {"lfu": 120, "fifo": 50, "lru": 100, "opt": 400},
            16: {"lfu": 180, "fifo": 60, "lru": 200, "opt": 400},
        },
        "lru (equal: lfu) would have served it best of lfu, fifo and lru: none hits more on the "
        "mean of 2 sizes; most is left to win at 8 blocks, where lru hits 10.00% of the input "
        "tokens and opt 40.00%.",
    ),
    "all equal": (
        {8: {"lfu": 100, "lru": 100, "opt": 400}, 16: {"lfu": 300, "lru": 300, "opt": 400}},
        "lru (equal: lfu) would have served it best of lfu and lru: none hits more on the mean of "
        "2 sizes; most is left to win at 8 blocks, where lru hits 10.00% of the input tokens and "
        "opt 40.00%.",
    ),
    "nothing can be hit": (
        {8: {"lru": 0, "lfu": 0, "opt": 0}},
        "no verdict, since no policy hits anything, opt neither.",
    ),
    "one of two references": (
        {8: {"lru": 100, "lfu": 120}, 16: {"lru": 200, "lfu": 220, "opt": 300}},
        "no verdict, since lru and opt did not both run at every size.",
    ),
    "no sizes": (
        {None: {"infinite": 100}},
        "no verdict, since lru and opt did not both run at every size.",
    ),
    "unfinished and ahead": (
        {
            8: {"lru": 100, "lfu": 120, "opt": 400},
            16: {"lru": 200, "lfu": 190, "lfuda": 250, "opt": 300},
        },
        "no verdict, since lfuda did not run at every size, and led where both ran.",
    ),
    "unfinished and behind": (
        {8: {"lru": 100, "lfu": 90, "opt": 400}, 16: {"lru": 200, "opt": 300}},
        "lru would have served it best of lru and lfu: none hits more on the mean of 2 sizes; lfu "
        "did not run at every size; most is left to win at 8 blocks, where lru hits 10.00% of the "
        "input tokens and opt 40.00%.",
    ),
    "by the clock the optimum may lose": (
        {8: {"lru": 100, "lfu": 120, "opt": 90}},
        "lfu would have served it best of lru and lfu: at 8 blocks it hits 12.00% of the input "
        "tokens against 10.00% for lru and 9.00% for opt.",
    ),
    "nothing left to win, and a policy that loses": (
        {8: {"lru": 100, "lfu": 90, "opt": 100}},
        "lru would have served it best of lru and lfu: none hits more; opt hits no more than lru, "
        "which hits 10.00% of the input tokens at 8 blocks.",
    ),
}


@pytest.mark.scenario("F23")
@pytest.mark.parametrize("case", CASES)
def test_the_sentence(case: str) -> None:
    hits, said = CASES[case]
    assert sentence(rows(hits)) == f"small, engine mode: {said}"


@pytest.mark.scenario("F23")
def test_a_large_field_is_counted() -> None:
    names = [row.name for row in REGISTRY.list() if row.kind == "eviction" and row.way == "builtin"]
    online = [name for name in names if not choose(name, REGISTRY).replay_only]
    hits: Hits = {8: {name: 100 + (name == "arc") for name in online} | {"opt": 400}}
    told = sentence(rows(hits))
    assert f"arc would have served it best of the {len(online)} policies tried: at 8" in told


@pytest.mark.scenario("F23")
def test_no_tokens_are_no_verdict() -> None:
    said = sentence(rows({8: {"lru": 0, "lfu": 0, "opt": 0}}, whole=0))
    assert said == "small, engine mode: no verdict, since no policy hits anything, opt neither."


ONLINE = ("lru", "lfu", "lru+second-use", "mq/min-hit")


@pytest.mark.scenario("F23")
@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"opt": st.integers(0, 9)},
            optional=dict.fromkeys((*ONLINE, "opt-forced"), st.integers(0, 9)),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_what_is_crowned_loses_to_none(by_size: list[dict[str, int]]) -> None:
    """Against each other policy, on the mean of the sizes at which both ran."""
    found = judge(rows(dict(enumerate(by_size, 1))))
    assert (found.best is None) == found.said.startswith("no verdict, since ")
    if found.best is None:
        return
    tried = {name for hits in by_size for name in hits if name in ONLINE}
    assert len(tried) > 1
    assert all(found.best in hits for hits in by_size)
    for rival in tried:
        both = [hits for hits in by_size if rival in hits]
        assert sum(h[found.best] for h in both) >= sum(h[rival] for h in both), rival
    assert re.search(rf"of .*{re.escape(found.best)}", found.said)
    assert all(name in found.said for name in tried), "the field is named"


@pytest.mark.scenario("F23")
def test_each_trace_and_mode_has_its_own() -> None:
    several = rows({8: {"lru": 100, "lfu": 120, "opt": 400}}) | rows(
        {8: {"lru": 100, "lfu": 90, "opt": 400}}, mode="timed"
    )
    one, two = (section.verdict for section in sections(several))
    assert one.startswith("small, engine mode: lfu would have served it best of lru and lfu: ")
    assert two.startswith("small, timed mode: lru would have served it best of lru and lfu: ")


@pytest.mark.scenario("F23")
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("lru,lfu", "lru would have served it best of lru and lfu: none hits more .*; lfu leads "),
        ("lru", "no verdict, since lru alone was tried; "),
        ("infinite,opt", "no verdict, since lru alone was tried; "),
    ],
)
def test_on_the_shipped_trace(bench: Command, asked: str, said: str) -> None:
    last = bench("run", "--policy", asked, "--capacity", "2000,16000").stdout.splitlines()[-1]
    assert re.match(f"conversation, engine mode: {said}", last), last


@pytest.mark.scenario("F23")
def test_the_default_field_holds_the_best() -> None:
    assert {"lru", "foresight", "mq"} <= set(DEFAULT)


def gaps(hits: Hits) -> list[float | None]:
    return [cell.gap_closed for cell in with_gap_closed(rows(hits)).values()]


def test_gap_closed_is_none_where_there_is_no_gap() -> None:
    assert gaps({8: {"lru": 100, "lfu": 100, "opt": 100}, 16: {"lfu": 5}}) == [None] * 4
    assert gaps({8: {"lru": 100, "lfu": 120, "opt": 90}}) == [None] * 3
    assert gaps({8: {"lru": 100, "lfu": 120, "opt": 200}}) == [0.0, 0.2, 1.0]
