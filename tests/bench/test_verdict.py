"""The sentence, on numbers made for it."""

from kvframe import _core
from kvframe.bench.cells import Cell, Plan
from kvframe.bench.policies import choose
from kvframe.bench.traces import Source
from kvframe.bench.verdict import sentence, telling, with_gap_closed
from kvframe.registry import Registry

from .conftest import SMALL

SOURCE = Source("small", "", _core.Trace.parse(SMALL, "small"))
REGISTRY = Registry()


def rows(hits: dict[int, dict[str, int]]) -> dict[Plan, Cell]:
    """Hit tokens of 1,000 input tokens, by capacity and policy."""
    found = {}
    for capacity, by_policy in hits.items():
        for policy, tokens in by_policy.items():
            plan = Plan(SOURCE, choose(policy, REGISTRY), "engine", capacity)
            found[plan] = Cell(
                trace="small",
                policy=policy,
                mode="engine",
                block_size=512,
                capacity_blocks=capacity,
                requests=4,
                input_tokens=1000,
                hit_tokens=tokens,
                input_tokens_last_half=500,
                hit_tokens_last_half=0,
                token_hit_rate=tokens / 1000,
                after_gap_hit_tokens=0,
                evictions=0,
                block_accesses=10,
                seconds=1.0,
                prepare_seconds=0.0,
            )
    return found


def test_names_the_capacity_where_the_best_gains_most() -> None:
    said = sentence(
        rows(
            {
                8: {"lru": 100, "lfu": 120, "opt": 400},
                16: {"lru": 200, "lfu": 190, "lfuda": 250, "opt": 300},
                32: {"lru": 300, "lfu": 310, "opt": 320},
            }
        )
    )
    assert said == (
        "small, engine mode: lfuda would have served it best, most clearly at 16 blocks, where it "
        "hits 25.00% of the input tokens against 20.00% for lru and 30.00% for opt (50.0% of the "
        "gap closed); lfu leads at 8 and 32."
    )


def test_where_nothing_beats_lru_it_names_what_opt_leaves() -> None:
    said = sentence(rows({8: {"lru": 100, "lfu": 90, "opt": 400}, 16: {"lru": 200, "opt": 300}}))
    assert "lru would have served it best" in said
    assert "most is left to win at 8 blocks, where lru hits 10.00%" in said
    assert said.endswith("opt 40.00%.")


def test_no_verdict_where_nothing_can_be_hit() -> None:
    said = sentence(rows({8: {"lru": 0, "lfu": 0, "opt": 0}}))
    assert said == "small, engine mode: no verdict, since no policy hits anything, opt neither."
    assert "lru would" in sentence(rows({8: {"lru": 0, "opt": 0}, 16: {"lru": 9, "opt": 9}}))


def test_bounds_are_never_the_best() -> None:
    at = telling(rows({8: {"lru": 100, "opt-forced": 390, "opt": 400}}))
    assert at is not None
    assert at.best.policy == "lru"


def test_equals_are_named() -> None:
    said = sentence(rows({8: {"lru": 100, "lfu": 120, "slru": 120, "opt": 400}}))
    assert "lfu (equal: slru) would have served it best" in said


def test_no_verdict_without_both_references() -> None:
    assert "no verdict" in sentence(rows({8: {"lru": 100}, 16: {"opt": 300}}))


def test_gap_closed_is_none_where_there_is_no_gap() -> None:
    filled = with_gap_closed(rows({8: {"lru": 100, "lfu": 100, "opt": 100}, 16: {"lfu": 5}}))
    assert [cell.gap_closed for cell in filled.values()] == [None] * 4
