"""Replicas of several cards, drafted answers, and prompts that other servers compute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvframe.bench.server.cards import Card
from kvframe.bench.server.fleet import parse_routing
from kvframe.bench.server.parallel import Parallel, parse_parallel
from kvframe.bench.server.shape import parse_server_shape
from kvframe.cli import main
from kvframe.errors import ConfigError

SMALL = "layers=2,kv_heads=2,head_dim=4,params=1000,heads=4,hidden=16"
MIXTURE = f"{SMALL},expert_params=800,experts=8,experts_used=2"


def serve(*asked: str) -> Result:
    return CliRunner().invoke(main, ["bench", "serve", "--policy", "lru", *asked])


def trace(folder: Path, *rows: tuple[int, int, int]) -> str:
    path = folder / "t.jsonl"
    lines = [
        json.dumps({"timestamp": at, "input_length": n, "output_length": answer, "hash_ids": [1]})
        for at, n, answer in rows
    ]
    path.write_text("\n".join(lines))
    return str(path)


def told(*asked: str) -> dict[str, Any]:
    done = serve(*asked, "--format", "json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_tensor_parallel_ranks_split_weights_heads_and_kv_and_sum_twice_a_layer() -> None:
    shape = parse_server_shape(SMALL)
    two = parse_parallel("tp=2,link=128B/s,latency=1s", shape)
    assert (two.cards, shape.kv_ranks(two.tp), two.exchanges(shape)) == (2, 2, 2 * 2)
    assert two.weights(shape) == 1000 / 2 * 2
    # Two sums a layer of 16 numbers of 2 bytes: a ring of two sends each half twice.
    assert two.token_seconds(shape) == 2 * 2 * 16 * 2 / 128
    # 9,000 bytes beside 1,000 of weights; of a block of 10 tokens of 64 bytes a card holds half.
    card = Card("small", memory=10_000, bandwidth=1e6, flops=1e6)
    assert two.blocks_on(card, shape, 10) == 8_000 // 320
    assert shape.kv_ranks(4) == 2
    assert Parallel(tp=2, dp=3).blocks_on(card, shape, 10) == 3 * (8_000 // 320)


def test_experts_are_spread_and_tokens_sent_to_them_and_back() -> None:
    shape = parse_server_shape(MIXTURE)
    assert shape.active_params == 200 + 800 * 2 / 8
    spread = parse_parallel("dp=4,ep=4,link=128B/s", shape)
    assert spread.weights(shape) == (200 + 800 / 4) * 2
    assert spread.exchanges(shape) == 2 * 2
    # Of two experts a token, three in four are on another card; each card has a quarter of them.
    assert spread.token_seconds(shape) == pytest.approx(2 * 2 * 2 * 3 / 4 / 4 * 16 * 2 / 128)
    assert parse_parallel("tp=4", shape).weights(shape) == 1000 / 4 * 2


def test_a_step_of_two_cards_by_hand(tmp_path: Path) -> None:
    asked: tuple[str, ...] = ("--trace", trace(tmp_path, (0, 1, 1)), "--model-shape", SMALL)
    asked += ("--capacity", "4")
    asked += ("--card", "h100:bandwidth=1e6,flops=1e6")
    asked += ("--profile", "roofline:weights=1,kv=1,compute=1,attention=1,host_us=1000000")
    alone = told(*asked)["cells"][0]["ttft_mean"]
    # The host, 2,000 bytes of weights or 2,000 operations, one pair of 4 x 2 x 4 x 4 operations.
    assert alone == pytest.approx(1 + 0.002 + 128e-6)
    two = told(*asked, "--parallel", "tp=2,link=128B/s,latency=1s")["cells"][0]["ttft_mean"]
    assert two == pytest.approx(1 + 4 * 1.0 + 0.001 + 64e-6 + 1.0)


def test_drafts_that_are_right_shorten_answers(tmp_path: Path) -> None:
    asked = ("--trace", trace(tmp_path, (0, 400, 31)), "--capacity", "4")
    plain = told(*asked)["cells"][0]
    drafted = told(*asked, "--speculate", "tokens=2,accept=1")["cells"][0]
    # One step for the first token, then one or three tokens a step.
    assert (plain["steps"], drafted["steps"]) == (31, 11)
    assert (drafted["decode_tokens"], drafted["wrong_drafts"]) == (30, 0)
    wrong = told(*asked, "--speculate", "tokens=2,accept=0,cost=0.5")["cells"][0]
    assert (wrong["steps"], wrong["decode_tokens"], wrong["wrong_drafts"]) == (31, 30, 28 * 2 + 1)
    assert wrong["itl_p50"] == pytest.approx(2 * plain["itl_p50"], rel=0.02)


def test_prompts_that_others_compute_come_over_a_link(tmp_path: Path) -> None:
    asked: tuple[str, ...] = ("--trace", trace(tmp_path, (0, 400, 3), (9_000, 400, 1)))
    asked += ("--capacity", "4")
    asked += ("--model-shape", "layers=1,kv_heads=1,head_dim=1,params=1e6,dtype=bf16")
    found = told(*asked, "--disaggregate", "prefill=1,link=1600B/s,latency=1s")
    cell = found["cells"][0]
    # 4 bytes a token; the second request ends with its first token.
    assert (cell["prefill_replicas"], cell["replicas"], cell["handed_bytes"]) == (1, 1, 1600)
    assert cell["itl_p99"] == pytest.approx(1 + 1, abs=0.01)
    parts = [(part["part"], part["requests"]) for part in found["by_replica"]]
    assert parts == [("prompts 0", 2), ("0", 1)]
    assert "1 for prompts and 1 for answers by round-robin of 4 blocks" in found["verdicts"][0]


def test_who_goes_on_with_a_prompt_is_chosen_by_name(tmp_path: Path) -> None:
    asked: tuple[str, ...] = ("--trace", trace(tmp_path, (0, 400, 3), (1, 400, 3)))
    asked += ("--capacity", "4", "--replicas", "2", "--disaggregate", "prefill=1,link=1GB/s")
    bytes_over = {
        name: told(*asked, "--decode-routing", name)["cells"][0]["handed_bytes"]
        for name in ("round-robin", "prefix:queue=0")
    }
    # The second prompt goes where the first is, and but for its last token is there.
    assert bytes_over["prefix:queue=0"] <= bytes_over["round-robin"]


def test_a_prompt_that_is_not_cut_waits_for_a_step(tmp_path: Path) -> None:
    asked: tuple[str, ...] = ("--trace", trace(tmp_path, (0, 400, 3), (0, 300, 1)))
    asked += ("--capacity", "9", "--max-num-batched-tokens", "512")
    cut = told(*asked)["cells"][0]
    whole = told(*asked, "--no-chunked-prefill")["cells"][0]
    assert (cut["steps"], whole["steps"]) == (3, 3)
    assert whole["ttft_mean"] < cut["ttft_mean"]


def test_the_label_of_a_routing_says_what_differs() -> None:
    for text in ("prefix", "prefix:queue=0,max_load_ratio=1.5", "kv-aware:load=8", "session"):
        assert parse_routing(text).label == text
    assert parse_routing("prefix:queue=1").label == "prefix"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("--parallel tp=0", "tp = 0: must be a whole number from 1 to 4096"),
        ("--parallel tp=3", "tp = 3: must divide the 32 heads"),
        (
            "--parallel tpp=2",
            "no key tpp: tp, dp, ep, link, latency, in_network_reduction, gpus_per_node, ",
        ),
        ("--parallel tp=4,ep=3", "ep = 3: must divide tp x dp = 4"),
        ("--parallel tp=4,ep=4", "--model-shape has no expert_params"),
        ("--parallel tp=2,link=9", "link = 9: must be bytes a second, such as 50GB/s"),
        ("--parallel tp=2 --profile h200-8b", "--parallel goes with roofline"),
        (
            f"--model-shape {SMALL},expert_params=2000",
            "expert_params = 2000: must be at",
        ),
        ("--speculate tokens=2", "accept is missing"),
        ("--speculate tokens=2,acept=1", "no key acept: tokens, accept, cost, policy, cooldown, "),
        ("--speculate tokens=0,accept=1", "tokens = 0: must be a whole number from 1 to 64"),
        ("--speculate tokens=1,accept=2", "accept = 2: must be a number from 0 to 1"),
        (
            "--speculate tokens=1,accept=1 --profile fixed",
            "says nothing of steps that verify",
        ),
        ("--disaggregate link=9GB/s", "prefill = : must be a number from 1 to 63"),
        ("--disaggregate prefil=1", "no key prefil: prefill, link, latency; did you mean prefill"),
        ("--disaggregate prefill=60 --replicas 5", "with 60 that compute prompts, at most 64"),
        ("--disaggregate prefill=1 --profile fixed", "has no steps"),
        ("--decode-routing kv-aware", "there are no servers that only decode"),
        (
            "--disaggregate prefill=1 --replicas 2 --decode-routing kv-awar",
            "--decode-routing kv-awar: must be round-robin, least-loaded, prefix, session, kv-awa",
        ),
        ("--routing prefix:max_load=2", "no option max_load: prefix has queue, max_load_ratio"),
        ("--routing kv-aware:queue=2", "no option queue: prefix has queue, max_load_ratio; kv-"),
        ("--routing prefix:max_load_ratio=0", "max_load_ratio: must be above 0"),
        ("--routing kv-aware:load=x", "load: must be 0 or more"),
        (
            "--no-chunked-prefill --long-prefill-token-threshold 9",
            "--long-prefill-token-threshold 9 and --no-chunked-prefill",
        ),
        ("--no-chunked-prefill --profile fixed", "--no-chunked-prefill: the server of --profile"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, asked: str, message: str) -> None:
    done = serve("--trace", trace(tmp_path, (0, 8, 2)), *asked.split())
    assert (done.exit_code, message in done.stderr) == (2, True), done.stderr


def test_a_card_too_small_for_its_share_of_the_weights_is_refused() -> None:
    with pytest.raises(ConfigError, match="leaves no block"):
        Parallel(tp=2).blocks_on(Card("tiny", 1_000, 1.0, 1.0), parse_server_shape(SMALL), 10)
