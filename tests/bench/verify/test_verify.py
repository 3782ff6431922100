"""``kvframe bench verify``: real engines beside what is predicted, limits, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kvframe.bench.verify.compare import Row, missed, parse_limits, text
from kvframe.bench.verify.engine import find
from kvframe.bench.verify.job import Verification
from kvframe.bench.verify.predict import Felt, pace, predicted, trace_of
from kvframe.bench.verify.recording import record_all
from kvframe.bench.verify.scrape import scraped
from kvframe.bench.verify.workload import chats, spread
from kvframe.calibrate import Profile
from kvframe.cli import main
from kvframe.errors import ConfigError, UsageError
from tests.bench.verify.scripted import Scripted

SCRAPE = """\
# HELP vllm:prefix_cache_queries_total tokens
vllm:prefix_cache_queries_total{engine="0",model_name="a, b"} 600.0
vllm:prefix_cache_queries_total{engine="1",model_name="a, b"} 400.0
vllm:prefix_cache_hits_total{engine="0",model_name="a, b"} 250.0 1700000000
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1"} 2.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5"} 8.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} 10.0
vllm:time_to_first_token_seconds_count{engine="0"} 10.0
vllm:time_to_first_token_seconds_sum{engine="0"} 4.0
"""


def run(*asked: str) -> Result:
    return CliRunner().invoke(main, ["bench", "verify", *asked])


@pytest.mark.parametrize("policy", ["lru", "slru", "s3-fifo"])
def test_the_example_finds_to_the_token_what_is_simulated(policy: str) -> None:
    policies = [policy, *(["lru"] if policy != "lru" else [])]
    told = Verification("example", find("example"), policies, [0.8], capacity=40, count=10)
    *_, rows = told.rounds(1)
    for row in rows:
        assert (row.requests, row.equal) == (30, 30)
        assert row.hit is not None
        assert row.hit_predicted == pytest.approx(row.hit, abs=0.05)
    assert rows[0].recorded_equal == 30


def test_blocks_of_one_step_are_told_in_one_order() -> None:
    """`s3-fifo` evicts by it: the example told last of a request that ended."""
    make = find("example")
    terms = Profile(fixed=300, tokens=(25,), sequence=90, kv_token=0, pair=0, host=0, knots=())
    engines = [make(policy, None) for policy in ("lru", "s3-fifo")]
    lru, sizes = engines[0], engines[0].kv
    served = record_all(engines, spread(chats(24, lru), 0.288, seed=51), pace(terms))
    source = trace_of(served[0], sizes.block_size)
    simulated = predicted(source, "s3-fifo", lru, sizes.counts().total, terms)
    assert Felt.of(served[1]).cached.tolist() == simulated.cached.tolist()


def test_a_run_that_is_out_of_time_compares_what_it_has() -> None:
    told = Verification("mine", Scripted, ["lru", "slru"], [0.5], count=4)
    assert list(told.rounds(1, seconds=-1)) == [[]]
    *_, rows = told.rounds(1)
    assert [row.policy for row in rows] == ["lru", "slru"]


def test_the_command_prints_a_table_saves_what_it_recorded_and_fits_it(tmp_path: Path) -> None:
    mine = "tests.bench.verify.scripted:Scripted"
    asked = ("--engine", mine, "--load", "0.5", "--repeat", "1", "--chats", "12")
    done = run(*asked, "--limit", "order=0,hit=1,ttft_p50=25,ttft_p95=25", "--save", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert "s3-fifo" in done.stdout
    profile, steps = tmp_path / "again.toml", next(tmp_path.glob("*.steps.csv"))
    fit = ("calibrate", "--from-log", str(steps), "-o", str(profile))
    assert CliRunner().invoke(main, fit).exit_code == 0
    trace = next(tmp_path.glob("*.jsonl"))
    told = ["--trace", str(trace), "--profile", str(profile), "--capacity", "64", "--closed-loop"]
    served = CliRunner().invoke(main, ["bench", "serve", *told, "--policy", "lru"])
    assert "36 requests" in served.output


def test_json_has_errors_and_a_limit_that_is_missed_exits_with_1() -> None:
    mine = "tests.bench.verify.scripted:Scripted"
    asked = ("--engine", mine, "--load", "0.5", "--repeat", "1", "--chats", "4", "--quiet")
    done = run(*asked, "--limit", "ttft_p50=0", "--format", "json")
    told = json.loads(done.stdout)
    assert (done.exit_code, len(told["rows"])) == (1, 3)
    assert told["missed"] == done.stderr.splitlines() != []
    assert set(told["rows"][0]["errors"]) == {"order", "hit", "ttft_mean", "ttft_p50", "ttft_p95"}


def test_errors_are_points_and_per_cent() -> None:
    row = Row(
        where="here", policy="lru", load=1.0, requests=9, recorded_equal=8, hit=0.5,
        hit_predicted=0.52, hit_paced=0.5, hit_paced_predicted=0.5, ttft_p50=2.0,
        ttft_p50_predicted=1.5,
    )  # fmt: skip
    assert row.errors() == pytest.approx({"order": 0.0, "hit": 2.0, "ttft_p50": -25.0})
    said = missed([row], {"order": 0.1, "hit": 1.0, "ttft_p50": 15.0, "ttft_p95": 1.0})
    assert said == [
        "here, lru, load 1: 8 of 9 requests find in the recorded order what they found",
        "here, lru, load 1: hit is +2.00 points off, limit 1",
        "here, lru, load 1: ttft_p50 is -25.00 % off, limit 15",
    ]
    assert missed([row], {"hit": 2.1}) == []
    assert "-25%" in text([row])


def test_a_scrape_is_counts_of_all_engines_and_quantiles_within_buckets() -> None:
    told = scraped(SCRAPE, "m.txt")
    assert told == pytest.approx((10, 0.25, 0.4, 0.1 + 0.4 * 3 / 6, 0.5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("hits_total", "hit_total"), "no vllm:prefix_cache_hits_total"),
        (("250.0", "many"), "m.txt:4: no sample"),
        (('_count{engine="0"} 10.0', '_count{engine="0"} 0'), "counts no requests yet"),
    ],
)
def test_a_scrape_that_is_none_is_refused(change: tuple[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        scraped(SCRAPE.replace(*change), "m.txt")


def test_a_simulation_beside_a_scrape(tmp_path: Path) -> None:
    trace, saved, page = tmp_path / "t.jsonl", tmp_path / "p.json", tmp_path / "m.txt"
    row = '{{"timestamp": {}, "input_length": 600, "output_length": 4, "hash_ids": [1, {}]}}\n'
    trace.write_text("".join(row.format(at * 1_000, at + 2) for at in range(10)))
    asked = ["bench", "serve", "--trace", str(trace), "--policy", "lru", "--format", "json"]
    saved.write_text(CliRunner().invoke(main, asked).stdout)
    page.write_text(SCRAPE)
    done = run("--metrics", str(page), "--predicted", str(saved), "--limit", "hit=1")
    assert (done.exit_code, "25.00%" in done.stdout) == (1, True)
    assert "hit is +51.80 points off, limit 1" in done.stderr
    page.write_text(SCRAPE.replace('count{engine="0"} 10.0', 'count{engine="0"} 11.0'))
    done = run("--metrics", str(page), "--predicted", str(saved))
    assert (done.exit_code, "counts 11 requests, but" in done.stderr) == (2, True)
    saved.write_text("{}")
    done = run("--metrics", str(page), "--predicted", str(saved))
    assert (done.exit_code, "not of `kvframe bench serve" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ((), "name one of --engine and --metrics"),
        (("--engine", "exampel"), "--engine exampel: must be example, transformers or MODULE:"),
        (("--engine", "exampel"), "did you mean example"),
        (("--engine", "nowhere:engine"), "--engine nowhere:engine: No module named"),
        (("--engine", "json:engine"), "--engine json:engine: module 'json' has no attribute"),
        (("--engine", "example", "--load", "0"), "--load 0.0: must be a positive number"),
        (("--engine", "example", "--load", "x"), "--load x: must be a positive number"),
        (("--engine", "example", "--limit", "hits=1"), "no hits: order, hit, "),
        (("--engine", "example", "--limit", "hit=-1"), "hit = -1: must be a number, 0 or more"),
        (("--engine", "example", "--format", "yaml"), "--format yaml"),
        (("--engine", "example", "--predicted", __file__), "--predicted: only with --metrics"),
        (("--metrics", __file__), "--metrics: needs --predicted FILE.json"),
    ],
)
def test_what_cannot_be_verified_is_refused(asked: tuple[str, ...], message: str) -> None:
    done = run(*asked)
    assert (done.exit_code, message in done.stderr) == (2, True), done.stderr


def test_limits_are_read_from_several_options() -> None:
    assert parse_limits(["hit=1", "order=0.1,ttft_mean=5"]) == {
        "hit": 1.0, "order": 0.1, "ttft_mean": 5.0,
    }  # fmt: skip
    with pytest.raises(ConfigError, match="did you mean ttft_p95"):
        parse_limits(["ttft_p5=1"])
