"""Hit tokens equal those of an independent replay: integers exactly, rates to four digits."""

from __future__ import annotations

from typing import Any

import pytest

from ..amounts import amount
from .reference import (
    ACCESSES,
    CONVERSATION,
    HIT_TOKENS,
    HIT_TOKENS_LAST_HALF,
    INFINITE,
    RATES,
    REQUESTS,
    TIMED,
    TOTALS,
    UNIQUE,
    Row,
)
from .traces import replay, trace

SOME = slice(None, None, amount(4, 1))
"""Of the capacities of a row."""
NAMES = ("conversation", "synthetic", "agent")


def name(row: object) -> str:
    return f"{row.trace}-{row.mode}-{row.policy}" if isinstance(row, Row) else ""


def cells(row: Row) -> list[dict[str, Any]]:
    return [replay(row.trace, row.policy, n, row.mode) for n in row.capacities[SOME]]


@pytest.mark.parametrize("row", HIT_TOKENS, ids=name)
def test_hit_tokens_of_the_whole_trace(row: Row) -> None:
    got = [cell["hit_tokens"] for cell in cells(row)]
    assert got == list(row.values[SOME])


@pytest.mark.parametrize("row", HIT_TOKENS_LAST_HALF, ids=name)
def test_hit_tokens_of_the_last_half(row: Row) -> None:
    assert [cell["hit_tokens_last_half"] for cell in cells(row)] == list(row.values[SOME])


@pytest.mark.parametrize(("capacity", "hits"), [*zip(CONVERSATION, TIMED, strict=True)][SOME])
def test_hit_tokens_by_the_clock(capacity: int, hits: int) -> None:
    cell = replay("conversation", "lru", capacity, "timed")
    assert (cell["hit_tokens"], cell["input_tokens"]) == (hits, TOTALS["conversation"][0])
    assert 0 < cell["mean_ttft_seconds"] < cell["p95_ttft_seconds"]


@pytest.mark.parametrize("row", RATES, ids=name)
def test_hit_rates_to_four_digits(row: Row) -> None:
    got = [f"{cell['hit_tokens'] / cell['input_tokens']:.4f}" for cell in cells(row)]
    assert got == [f"{rate:.4f}" for rate in row.values[SOME]]


@pytest.mark.parametrize("of", NAMES)
def test_the_traces_are_those_of_the_reference(of: str) -> None:
    whole, half = TOTALS[of]
    cell = replay(of, "lru", 2000, "trace")
    assert (trace(of).requests, trace(of).block_size) == (REQUESTS[of], 512)
    assert cell["requests"] == REQUESTS[of]
    assert cell["input_tokens"] == trace(of).input_tokens == (whole or cell["input_tokens"])
    assert cell["input_tokens_last_half"] == (half or cell["input_tokens_last_half"])
    assert trace(of).prepare("trace")["unique_blocks"] == UNIQUE[of]


@pytest.mark.parametrize("of", NAMES)
@pytest.mark.parametrize("policy", ["lru", "slru", "opt", "infinite"])
def test_block_accesses_are_those_of_the_mode(of: str, policy: str) -> None:
    for mode, accesses in zip(("trace", "engine"), ACCESSES[of], strict=True):
        got = replay(of, policy, None if policy == "infinite" else 2000, mode)["block_accesses"]
        assert got == trace(of).prepare(mode)["block_accesses"]
        assert accesses is None or got == accesses


@pytest.mark.parametrize(("of", "mode"), INFINITE)
def test_nothing_dies_where_everything_fits(of: str, mode: str) -> None:
    cell = replay(of, "infinite", None, mode)
    whole, half = INFINITE[of, mode]
    assert f"{cell['hit_tokens'] / cell['input_tokens']:.4f}" == f"{whole:.4f}"
    if half is not None:
        got = cell["hit_tokens_last_half"] / cell["input_tokens_last_half"]
        assert f"{got:.4f}" == f"{half:.4f}"
    assert (cell["evictions"], cell["after_gap_hit_tokens"]) == (0, 0)
    for policy in ("lru", "opt", "slru"):
        roomy = replay(of, policy, 2**32 - 1, mode)
        assert (roomy["hit_tokens"], roomy["evictions"]) == (cell["hit_tokens"], 0)


@pytest.mark.parametrize("of", ["conversation", "synthetic"])
@pytest.mark.parametrize(
    ("mean", "mode"), [({"conversation": 0.4094, "synthetic": 0.4315}, "trace")]
)
def test_the_mean_of_ratios_is_another_number(of: str, mean: dict[str, float], mode: str) -> None:
    got = replay(of, "infinite", None, mode)["mean_request_hit_rate"]
    assert f"{got:.4f}" == f"{mean[of]:.4f}"


def test_one_request_longer_than_the_cache_changes_nothing() -> None:
    """Insertion stops when nothing may be evicted: the head of the prompt stays."""
    cell = replay("conversation", "lru", 1, "engine")
    assert cell["hit_tokens"] == 12_031 * 512 - 512 - short()


def short() -> int:
    """Tokens of block 0 that prompts too short for the last-token rule cannot hit."""
    found = [trace("conversation").request(i) for i in range(1, 12_031)]
    return sum(512 for _, tokens, *_ in found if tokens <= 512)
