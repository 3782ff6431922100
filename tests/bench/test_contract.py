"""What other programs script against: cells, names, numbers, forms."""

import csv
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvframe import Registry
from kvframe.bench.metrics import BUILTIN
from kvframe.bench.policies import expand
from kvframe.bench.traces import shipped

from .conftest import SMALL, Command, rows

Cells = Callable[..., list[dict[str, Any]]]

CONTRACT = {
    "trace", "policy", "mode", "block_size", "capacity_blocks", "requests", "input_tokens",
    "hit_tokens", "input_tokens_last_half", "hit_tokens_last_half", "token_hit_rate",
    "after_gap_hit_tokens", "evictions", "block_accesses", "seconds", "prepare_seconds",
}  # fmt: skip
EXTRA = {
    "block_hit_rate", "mean_request_hit_rate", "gap_closed", "admission", "admission_dropped",
    "prefix", "rejected", "mean_ttft_seconds", "p95_ttft_seconds", "load", "arrival_seed",
    "metrics", "misses", "tiers", "tier_hit_tokens",
}  # fmt: skip


def test_conversation_hits_the_published_integers(cells: Cells) -> None:
    got = cells(
        "--trace", "conversation", "--policy", "lru,opt-forced", "--capacity", "1000,8000",
        "--mode", "trace,engine",
    )  # fmt: skip
    tokens = {(c["mode"], c["policy"], c["capacity_blocks"]): c["hit_tokens"] for c in got}
    assert tokens["trace", "lru", 1000] == 6_575_459
    assert tokens["trace", "lru", 8000] == 26_284_453
    assert tokens["engine", "lru", 1000] == 6_650_880
    assert tokens["engine", "lru", 8000] == 27_354_112
    assert tokens["engine", "opt-forced", 1000] == 26_468_352
    assert tokens["engine", "opt-forced", 8000] == 53_965_824
    for cell in got:
        assert cell["requests"] == 12_031
        assert cell["input_tokens"] == 144_793_823
        assert cell["input_tokens_last_half"] == 67_915_607
        assert cell["block_accesses"] == {"trace": 288_500, "engine": 276_491}[cell["mode"]]
    half = {(c["mode"], c["policy"], c["capacity_blocks"]): c["hit_tokens_last_half"] for c in got}
    assert half["trace", "lru", 1000] == 3_173_822


def test_json_holds_the_contract_and_the_cells_asked_for(cells: Cells, small: Path) -> None:
    got = cells("--trace", small, "--policy", "lru", "--capacity", "2", "--capacity", "3")
    assert [(c["policy"], c["capacity_blocks"]) for c in got] == [("lru", 2), ("lru", 3)]
    for cell in got:
        assert set(cell) == CONTRACT | EXTRA
        assert cell["trace"] == str(small)
        assert cell["mode"] == "engine"
        assert cell["seconds"] > 0
        assert cell["prepare_seconds"] >= 0
        assert cell["token_hit_rate"] == cell["hit_tokens"] / cell["input_tokens"]
        assert cell["gap_closed"] is None


def test_the_two_modes_differ_in_their_length_rules(cells: Cells, small: Path) -> None:
    got = {c["mode"]: c for c in cells("--trace", small, "--policy", "lru", "--capacity", "9",
                                       "--mode", "trace,engine")}  # fmt: skip
    # trace: 1,024 shared by the second request, all 1,100 of the fourth.
    assert got["trace"]["hit_tokens"] == 1024 + 1100
    assert got["trace"]["block_accesses"] == 10
    # engine: partial tails are no blocks.
    assert got["engine"]["hit_tokens"] == 1024 + 1024
    assert got["engine"]["block_accesses"] == 7
    assert got["engine"]["hit_tokens_last_half"] == 1024
    assert got["engine"]["input_tokens_last_half"] == 512 + 1100


def test_a_comma_list_means_the_same_as_repeating(cells: Cells, small: Path) -> None:
    listed = cells("--trace", small, "--policy", "lru,opt", "--capacity", "2,3", "--mode",
                   "trace,engine")  # fmt: skip
    repeated = cells(
        "--trace", small, "--policy", "lru", "--policy", "opt", "--capacity", "2", "--capacity",
        "3", "--mode", "trace", "--mode", "engine",
    )  # fmt: skip
    timings = ("seconds", "prepare_seconds")
    for cell in listed + repeated:
        for key in timings:
            del cell[key]
    assert listed == repeated
    assert len(listed) == 8


def test_all_is_every_installed_policy_once(cells: Cells, small: Path) -> None:
    got = [c["policy"] for c in cells("--trace", small, "--policy", "fifo,all", "--capacity", "2")]
    installed = [row.name for row in Registry().list() if row.kind == "eviction"]
    assert got[0] == "fifo"
    assert sorted(got) == sorted(installed)


def test_all_goes_on_without_what_is_broken(install: Callable[..., object]) -> None:
    install("good", "broken_import")
    names, broken = expand(["all"], Registry())
    assert {"lru", "opt"} <= set(names)
    # The import of one fails; what the others make is no policy.
    assert [why.partition(":")[0] for why in broken] == [
        "broken (kvframe-broken-import 0.3) is broken",
        "good (kvframe-good 1.2.0)",
        "steady (kvframe-good 1.2.0)",
    ]


def test_infinite_comes_once_a_trace_and_mode(cells: Cells, small: Path) -> None:
    got = cells("--trace", small, "--policy", "infinite,lru", "--capacity", "1,2,3", "--mode",
                "trace,engine")  # fmt: skip
    bounds = [c for c in got if c["policy"] == "infinite"]
    assert [(c["mode"], c["capacity_blocks"]) for c in bounds] == [
        ("trace", None),
        ("engine", None),
    ]
    assert len(got) == 8


def test_gap_closed_is_zero_for_lru_and_one_for_opt(cells: Cells) -> None:
    got = cells("--policy", "lru,lfu,opt", "--capacity", "4000")
    lru, lfu, opt = got
    assert (lru["gap_closed"], opt["gap_closed"]) == (0.0, 1.0)
    gap = opt["hit_tokens"] - lru["hit_tokens"]
    assert lfu["gap_closed"] == (lfu["hit_tokens"] - lru["hit_tokens"]) / gap


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_stdin_equals_the_file(cells: Cells, small: Path, pack: Callable[[bytes], bytes]) -> None:
    asked = ("--policy", "lru", "--capacity", "3", "--mode", "trace")
    (piped,) = cells("--trace", "-", *asked, stdin=pack(SMALL))
    (read,) = cells("--trace", small, *asked)
    assert piped["hit_tokens"] == read["hit_tokens"] > 0
    assert piped["trace"] == "<stdin>"


def test_block_size_is_the_rows_then_the_options_then_512(cells: Cells) -> None:
    asked = ("--trace", "-", "--policy", "lru", "--capacity", "9")
    silent, telling = rows([(64, [1])] * 2), rows([(64, [1, 2, 3, 4])] * 2, block_size=16)
    (given,) = cells(*asked, "--block-size", "64", stdin=silent)
    (own,) = cells(*asked, "--block-size", "64", stdin=telling)
    (default,) = cells(*asked, stdin=silent)
    assert [c["block_size"] for c in (given, own, default)] == [64, 16, 512]


def test_bytes_become_blocks_by_the_models_shape(cells: Cells, small: Path) -> None:
    # 2 x 2 layers x 1 head x 8 values x 2 bytes x 512 tokens = 32 KiB a block.
    (cell,) = cells("--trace", small, "--policy", "lru", "--capacity", "100 KiB", "--model-shape",
                    "layers=2,kv_heads=1,head_dim=8,dtype=bfloat16")  # fmt: skip
    assert cell["capacity_blocks"] == 3


def test_policy_options_reach_the_core(cells: Cells) -> None:
    one, two, many = cells(
        "--policy", "slru:protected_uses=1,slru,slru:protected_uses=9", "--capacity", "4000"
    )
    assert one["policy"] == "slru:protected_uses=1"
    (lru,) = cells("--policy", "lru", "--capacity", "4000")
    # Protected from its first use: all blocks are, and recency alone decides.
    assert one["hit_tokens"] == lru["hit_tokens"]
    assert len({one["hit_tokens"], two["hit_tokens"], many["hit_tokens"]}) == 3


def test_csv_holds_the_same_cells(bench: Command, small: Path) -> None:
    done = bench("run", "--trace", small, "--policy", "lru,infinite", "--capacity", "2", "--format",
                 "csv")  # fmt: skip
    lru, bound = csv.DictReader(io.StringIO(done.stdout))
    metrics = {one.name for one in BUILTIN}
    assert set(lru) == (CONTRACT | EXTRA | metrics) - {"metrics", "misses", "tier_hit_tokens"}
    assert (lru["capacity_blocks"], bound["capacity_blocks"]) == ("2", "")


def test_table_and_markdown_show_the_references_unasked(bench: Command, small: Path) -> None:
    for form in ("table", "md"):
        done = bench("run", "--trace", small, "--policy", "fifo", "--capacity", "2", "--format",
                     form)  # fmt: skip
        text = done.stdout
        for word in ("fifo", "lru", "opt", "infinite", "engine mode", "blocks of 512 tokens",
                     "Token-weighted", "Block-weighted", "Request mean", "evictions", "after-gap",
                     "M block accesses/s"):  # fmt: skip
            assert word in text, (form, word)
        assert "engine mode: lru would do of fifo and lru: " in text.splitlines()[-1]


def test_every_shipped_trace_is_found_by_name(cells: Cells) -> None:
    assert shipped() == ["agent", "conversation", "synthetic"]
    got = cells("--trace", "agent,synthetic", "--policy", "lru", "--capacity", "2000")
    assert [c["trace"] for c in got] == ["agent", "synthetic"]
    assert got[0]["hit_tokens"] == 315_028_992
