"""Known pitfalls of cache evaluations, each by its number in the survey that this bench answers.

The numbers are those of the public threads in ``docs/reference/pitfalls.md``. What only an engine
can get wrong, or a policy, is tested where that is.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from kvframe import KVCacheManager, Request, _core
from kvframe.bench import render
from kvframe.bench.cells import Cell
from kvframe.bench.job import Job
from kvframe.bench.remarks import remarks
from kvframe.bench.report import NOTES
from kvframe.bench.run import Outcome
from kvframe.bench.verdict import Verdict
from kvframe.cli import main
from kvframe.config import CacheConfig, Config, EvictionConfig
from kvframe.traces.info import info
from kvframe.traces.source import ReadOptions

from .conftest import Command
from .exact import arc_hits
from .made import BLOCK, lines, ran, text, write

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "pitfalls.md"


def rows(chains: Sequence[Sequence[int]], *, tail: int = 0, step: int = 1000) -> bytes:
    """A row for each list of ids, its last block with ``tail`` tokens if that is not 0."""
    return text(
        [
            {"timestamp": step * at, "output_length": 1, "hash_ids": list(ids), "block_size": BLOCK,
             "input_length": BLOCK * len(ids) - (BLOCK - tail if tail else 0)}
            for at, ids in enumerate(chains)
        ]
    )  # fmt: skip


def replay(data: bytes, policy: str, capacity: int | None, mode: str = "engine") -> dict[str, Any]:
    trace = _core.Trace.parse(data, "t", None)
    return _core.replay(trace, policy, capacity, mode, per_request=True)


def cells(outcome: Outcome) -> dict[tuple[str, int | None], Cell]:
    return {(plan.label, plan.capacity): cell for plan, cell in outcome.cells.items()}


@pytest.fixture
def made(tmp_path: Path) -> str:
    return str(write(tmp_path / "made.jsonl"))


def table(job: Job, outcome: Outcome) -> str:
    (told,) = job.outputs(outcome)
    return told


def test_01_the_definition_stands_beside_the_figure(made: str) -> None:
    told = table(*ran(traces=made, policies="lru", capacities="50"))
    assert all(note in told for note in NOTES)
    assert "Token-weighted: hit tokens / input tokens." in told


@pytest.mark.parametrize("policy", ["w-tinylfu", "lfu", "arc"])
def test_02_blocks_behind_a_gap_are_no_hits(policy: str) -> None:
    """The first block of a chain is evicted last, and hits are the prefix alone."""
    chains = [[1, 2, 3], [7, 8], [1, 2, 3], [9, 10, 11], [1, 2, 3], [7, 8, 12]] * 20
    got = replay(rows(chains), policy, 4)
    assert got["after_gap_hit_tokens"] == 0
    events = _core.replay(
        _core.Trace.parse(rows(chains), "t", None), policy, 4, "engine", log=True
    )["events"]
    assert np.count_nonzero(events["kind"] == 5) == got["evictions"] > 0


def test_03_equal_timestamps_decide_nothing(made: str) -> None:
    """In the order of the rows, twice the same."""
    chains = [[1, 2, 3], [1, 2, 4], [5], [1, 2, 3]] * 5
    apart, at_once = (replay(rows(chains, step=step), "lru", 4) for step in (1000, 0))
    assert apart["hit_tokens"] == at_once["hit_tokens"]
    again = replay(rows(chains, step=0), "lru", 4)
    assert np.array_equal(again["request_hit_tokens"], at_once["request_hit_tokens"])


@pytest.mark.parametrize("mode", ["trace", "engine", "timed"])
def test_04_and_22_random_prompts_hit_nothing(mode: str) -> None:
    """Neither what is computed again nor what was never written is a hit."""
    chains = [[100 * at + i for i in range(8)] for at in range(40)]
    assert replay(rows(chains, step=0), "lru", 20, mode)["hit_tokens"] == 0


def test_05_06_and_19_a_waiting_request_is_looked_up_once() -> None:
    """Each request counts once, however long it waits and however often it is tried."""
    chains = [[1, 2, 3, 4], [1, 2, 5, 6], [7, 8, 9], [1, 2, 3, 4]] * 10
    waits = replay(rows(chains, step=0), "lru", 5, "timed")
    assert (waits["requests"], waits["block_accesses"]) == (40, 150)
    assert waits["input_tokens"] == 150 * BLOCK
    assert len(waits["request_hit_tokens"]) == 40
    assert waits["request_hit_tokens"].sum() == waits["hit_tokens"]


def test_07_08_and_09_every_cell_starts_cold(made: str) -> None:
    """The same cell twice is the same; the first request hits nothing; nothing warms up unasked."""
    outcomes = [ran(traces=made, policies="lru,mq", capacities="50")[1] for _ in range(2)]
    one, two = (list(outcome.requests.values()) for outcome in outcomes)
    for first, second in zip(one, two, strict=True):
        assert first.hit_tokens[0] == 0
        assert np.array_equal(first.hit_tokens, second.hit_tokens)
    assert "no warm-up, from a cold cache" in table(*ran(traces=made, capacities="50"))


def test_08_what_warms_up_is_not_measured(made: str) -> None:
    job, outcome = ran(traces=made, policies="lru,mq", capacities="50", warm_up=0.25)
    (verdict,) = job.verdicts(outcome).values()
    assert verdict.warm_up == 0.25
    assert "warm the cache up and do not count" in verdict.doubt


def test_10_measured_requests_do_not_race(made: str) -> None:
    """Side by side or not: each replay has a cache of its own."""
    asked = {"traces": made, "policies": "lru,fifo,lfu", "capacities": "30,60"}
    one, two = (ran(**asked, jobs=jobs)[1] for jobs in (1, 4))
    assert one.requests.keys() == two.requests.keys()
    for plan, found in one.requests.items():
        assert np.array_equal(found.hit_tokens, two.requests[plan].hit_tokens)


def test_11_lfu_counts_uses() -> None:
    """A block that was used often stays, where lru would evict it."""
    chains = [[1]] * 5 + [[2], [3], [4], [1]]
    hits = {policy: replay(rows(chains, tail=0), policy, 2, "trace") for policy in ("lru", "lfu")}
    assert hits["lfu"]["request_hit_tokens"][-1] == BLOCK
    assert hits["lru"]["request_hit_tokens"][-1] == 0


def test_12_owners_are_no_uses() -> None:
    """Four owners of one allocation are one use; three allocations in turn are three."""
    cache = CacheConfig(capacity=3, block_size=1)
    kv = KVCacheManager(Config(cache=cache, eviction=EvictionConfig(policy="lfu")))

    def served(token: int, forks: int = 0) -> int:
        grant = kv.allocate(Request(np.array([token, token], np.uint32)))
        kv.commit(grant.seq, 1)
        for seq in [*kv.fork(grant.seq, forks), grant.seq] if forks else [grant.seq]:
            kv.release(seq)
        return int(grant.cached_tokens)

    for token, forks in ((1, 3), (2, 0), (2, 0), (2, 0), (3, 0)):
        served(token, forks)
    assert (served(2), served(1)) == (1, 0)


def test_14_a_rate_is_not_alone(made: str) -> None:
    """Mean, median and 99th percentile of the first token; replicates widen the interval."""
    asked = {"traces": made, "policies": "lru,fifo", "capacities": "60", "modes": "timed"}
    job, outcome = ran(**asked, arrival_seeds=[0, 1, 2])
    cell = next(iter(outcome.cells.values()))
    assert cell.mean_ttft_seconds is not None
    assert cell.metrics["ttft_seconds_p50"] <= cell.metrics["ttft_seconds_p99"]  # type: ignore[operator]
    assert cell.metrics["compute_saved_position"] is not None
    (verdict,) = job.verdicts(outcome).values()
    assert "3 arrival seeds" in verdict.doubt
    (text,) = job.outputs(outcome)
    of_one = [line for line in text.splitlines() if line.endswith(" (arrival seed 0 alone)")]
    assert [line.split(":")[0].split(",")[0] for line in of_one] == [
        "At 60 blocks",
        "Why prompt tokens were computed",
    ]


def test_15_ghosts_follow_the_capacity() -> None:
    """arc, whose memory of what is gone is as long as the cache, in caches of a few blocks."""
    chains = [[1], [2], [1], [3], [4], [5], [1], [2], [6], [1], [7], [2], [1]] * 9
    for capacity in (1, 2, 3):
        got = replay(rows(chains), "arc", capacity, "trace")
        assert got["hit_tokens"] == BLOCK * arc_hits([chain[0] for chain in chains], capacity)


def test_16_and_17_no_more_is_hit_than_there_is() -> None:
    """A prompt of 40 tokens has two full blocks of 16 and a tail of 8."""
    chains, whole = [[1, 2, 3]] * 3, 40
    trace = replay(rows(chains, tail=8), "lru", 9, "trace")
    engine = replay(rows(chains, tail=8), "lru", 9, "engine")
    assert trace["request_hit_tokens"].tolist() == [0, whole, whole]
    assert engine["request_hit_tokens"].tolist() == [0, 32, 32]


def test_18_ids_may_cover_the_tail_or_not() -> None:
    floor = [{"timestamp": 0, "input_length": 40, "output_length": 1, "block_size": BLOCK}]
    both = [
        replay(text([floor[0] | {"hash_ids": ids}] * 2), "lru", 9) for ids in ([1, 2], [1, 2, 3])
    ]
    assert both[0]["hit_tokens"] == both[1]["hit_tokens"] == 32


def test_20_blocks_of_running_requests_stay() -> None:
    """By the log of a timed replay: what is evicted has no owner."""
    data = text(lines(np.random.default_rng(3), 60))
    trace = _core.Trace.parse(data, "t", None).retimed(np.arange(len(data.splitlines())) * 2)
    got = _core.replay(trace, "mru", 60, "timed", log=True)
    owners: dict[int, int] = {}
    kinds = got["events"]["kind"].tolist()
    for kind, block in zip(kinds, got["events"]["block"].tolist(), strict=True):
        if kind in (1, 2):
            owners[block] = owners.get(block, 0) + 1
        elif kind == 6:
            owners[block] -= 1
        elif kind == 5:
            assert owners.get(block, 0) == 0
    assert got["evictions"] > 0


def test_21_partial_blocks_push_nothing_out() -> None:
    """Two prompts of two full blocks and a tail fit a cache of four blocks."""
    chains = [[1, 2, 3], [4, 5, 6]] * 3
    got = replay(rows(chains, tail=8), "lru", 4)
    assert got["evictions"] == 0
    assert got["request_hit_tokens"].tolist() == [0, 0, 32, 32, 32, 32]


def test_23_options_are_part_of_the_result(made: str) -> None:
    _, outcome = ran(traces=made, policies="s3-fifo:small_percent=1,s3-fifo", capacities="50")
    found = {plan.label: plan.identity("b")["options"] for plan in outcome.cells if plan.asked}
    assert found["s3-fifo:small_percent=1"] == {"small_percent": 1}
    assert found["s3-fifo"] != {}


def test_24_arrivals_count_by_the_clock(made: str) -> None:
    _, outcome = ran(traces=made, policies="lru", capacities="60", modes="timed", loads=[1.0, 50.0])
    slow, fast = (
        cell.metrics["ttft_seconds_p50"]
        for load in (1.0, 50.0)
        for plan, cell in outcome.cells.items()
        if (plan.label, plan.source.load) == ("lru", load)
    )
    assert slow is not None
    assert fast is not None
    assert fast >= slow


@pytest.mark.parametrize("mode", ["trace", "engine", "timed"])
def test_25_compulsory_misses_are_told_apart(made: str, mode: str) -> None:
    """The reasons add up to all that missed, for every policy and size."""
    _, outcome = ran(traces=made, policies="lru,fifo", capacities="20,60,500", modes=mode)
    found = [cell for cell in outcome.cells.values() if cell.misses is not None]
    assert found
    for cell in found:
        assert cell.misses is not None
        assert sum(cell.misses.values()) == cell.input_tokens - cell.hit_tokens
        assert all(cell.misses[name] >= 0 for name in ("cold", "granularity"))
        if mode != "timed":
            assert min(cell.misses.values()) >= 0
            assert cell.misses["pinned"] == 0
        if cell.policy == "opt":
            assert cell.misses["policy"] == 0


def test_26_where_all_fits_nothing_is_better(made: str) -> None:
    job, outcome = ran(traces=made, policies="lru,fifo,mq", capacities="100000")
    (verdict,) = job.verdicts(outcome).values()
    assert not verdict.better
    assert "lru would do of lru, fifo and mq: none hits more" in verdict.said
    assert "opt hits no more than lru" in verdict.said


def test_27_the_distance_to_the_optimum_is_told(made: str) -> None:
    _, outcome = ran(traces=made, policies="mq", capacities="50")
    found = cells(outcome)
    gap = found["opt", 50].hit_tokens - found["lru", 50].hit_tokens
    assert found["mq", 50].gap_closed == (
        (found["mq", 50].hit_tokens - found["lru", 50].hit_tokens) / gap
    )


def test_28_one_prompt_again_and_again_is_told(tmp_path: Path) -> None:
    for chains, told in (([[1, 2, 3]] * 9, True), ([[1, at] for at in range(9)], False)):
        (tmp_path / "t").write_bytes(rows(chains))
        remarks = info(str(tmp_path / "t"), ReadOptions()).remarks
        assert any("8 of 9 prompts" in remark for remark in remarks) == told


def test_29_made_prefixes_are_no_traffic(tmp_path: Path, bench: Command) -> None:
    made = tmp_path / "made.jsonl"
    lengths = tmp_path / "lengths.csv"
    lengths.write_text("timestamp,prompt_tokens,completion_tokens\n0,900,5\n1,900,5\n")
    invoked = CliRunner().invoke(main, ["trace", "synth", str(lengths), "-o", str(made)])
    assert invoked.exit_code == 0, invoked.output
    done = bench("run", "--trace", made, "--policy", "lru", "--capacity", "50")
    assert "not recorded: prefixes made up" in done.stderr


def test_30_it_says_when_lru_wins() -> None:
    from .test_verdict import judged
    from .test_verdict import rows as hits

    assert judged(hits({8: {"lru": 300, "lfu": 100, "opt": 400}})).said.startswith("lru wins of ")


def test_31_no_capacity_is_left_out(made: str) -> None:
    """Those beyond the working set as well, and one of a single block."""
    sizes = ["1", "60", "10000000"]
    _, outcome = ran(traces=made, policies="lru", capacities=sizes)
    assert {size for label, size in cells(outcome) if label == "lru"} == {1, 60, 10_000_000}


def test_32_a_trace_without_sessions_is_said_to_be() -> None:
    from .test_verdict import judged
    from .test_verdict import rows as hits

    doubt = judged(hits({8: {"lru": 300, "lfu": 100, "opt": 400}})).doubt
    assert "requests (the trace names no sessions: where its requests belong together, " in doubt


def test_32_sessions_that_no_row_names_are_told_by_prompts(tmp_path: Path, made: str) -> None:
    """As many as rows would name, and the same intervals."""
    nameless = [json.loads(line) for line in Path(made).read_text().splitlines()]
    for row in nameless:
        del row["session_id"]
    (tmp_path / "nameless").write_bytes(text(nameless))
    asked: dict[str, Any] = {"policies": "lru,mq", "capacities": "60", "formats": "json"}
    found: list[Verdict] = []
    for path in (made, str(tmp_path / "nameless")):
        job, outcome = ran(traces=path, **asked)
        found += job.verdicts(outcome).values()
    assert "resamplings of 60 sessions, no warm-up" in found[0].doubt
    told = "resamplings of 60 sessions, told by prompts (the trace names none), no warm-up"
    assert told in found[1].doubt
    first, second = (one.comparisons[0] for one in found)
    assert (first.low, first.high) == (second.low, second.high)


# --- of newer rivals ------------------------------------------------------------------------------


def test_a1_policies_that_evict_the_same_are_named(made: str) -> None:
    _, outcome = ran(traces=made, policies="lru,slru:protected_uses=1,mru,priority,session,ttl",
                     capacities="40,60")  # fmt: skip
    told = " ".join(remarks(outcome.cells, outcome.requests))
    assert "lru and slru:protected_uses=1 evicted the same blocks throughout" in told
    assert "lru and mru" not in told
    assert "The trace has no priorities: priority had none to go by." in told
    assert "session had none" not in told  # it names sessions


def test_a2_the_load_is_stated(made: str) -> None:
    job, outcome = ran(traces=made, capacities="60", policies="lru", modes="timed", loads=[2.0])
    assert "timed mode, load 2" in table(job, outcome)
    assert {cell.load for cell in outcome.cells.values()} == {2.0}


def test_a3_what_is_never_served_is_counted() -> None:
    got = replay(rows([[1, 2, 3, 4, 5], [1]]), "lru", 3, "timed")
    assert got["rejected"] == 1
    assert np.isnan(got["request_ttft_seconds"][0])


def test_a4_a_small_cache_is_no_panic(made: str) -> None:
    _, outcome = ran(traces=made, policies="all", capacities="1,2,3")
    assert all(cell.hit_tokens >= 0 for cell in outcome.cells.values())


def test_a5_block_size_is_told_and_can_be_tried(made: str) -> None:
    """Larger blocks find less; the smaller ones are the same trace."""
    _, outcome = ran(traces=made, policies="infinite", block_factors=[1, 2, 4])
    rates = [
        cell.token_hit_rate for plan, cell in outcome.cells.items() if plan.label == "infinite"
    ]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > rates[-1]


def test_a6_packed_files_and_integer_sessions_are_read(tmp_path: Path) -> None:
    path = tmp_path / "made.jsonl.gz"
    path.write_bytes(gzip.compress(text(lines(np.random.default_rng(3), 30))))
    _, outcome = ran(traces=str(path), policies="lru", capacities="20")
    source = next(iter(outcome.cells)).source
    assert (source.facts.session >= 0).any()


def test_a7_facts_that_are_there_are_not_missed(tmp_path: Path) -> None:
    """A trace with types has classes: workload goes by them."""
    chains = [[1], [2], [3], [1], [4], [2], [5]] * 6
    typed = [json.loads(line) | {"type": "chat" if at % 2 else "file"}
             for at, line in enumerate(rows(chains).splitlines())]  # fmt: skip
    (tmp_path / "t").write_bytes(text(typed))
    (tmp_path / "u").write_bytes(rows(chains))
    for name, told in (("t", False), ("u", True)):
        _, outcome = ran(traces=str(tmp_path / name), policies="workload", capacities="3")
        said = " ".join(remarks(outcome.cells, outcome.requests))
        assert ("The trace has no classes of requests" in said) == told


def test_33_weightings_are_named_apart(made: str) -> None:
    """Tokens over tokens, not the mean of ratios; the last half beside the whole."""
    _, outcome = ran(traces=made, policies="lru", capacities="60")
    cell = cells(outcome)["lru", 60]
    assert cell.token_hit_rate == cell.hit_tokens / cell.input_tokens
    assert cell.mean_request_hit_rate != cell.token_hit_rate
    assert cell.hit_tokens_last_half < cell.hit_tokens
    told = json.loads(render.json([cell]))["cells"][0]
    assert told == msgspec.to_builtins(cell)


def test_the_page_names_every_test() -> None:
    page = PAGE.read_text()
    for name in [name for name in globals() if name.startswith("test_") and name[5].isdigit()]:
        for number in [part for part in name.split("_") if part.isdigit()]:
            assert f"| {int(number)} |" in page, number


def test_bare_command_is_one_screen(bench: Command) -> None:
    """Of any width of terminal; see also the contract."""
    done = bench("--help")
    assert "on one screen" in " ".join(done.stdout.split())
