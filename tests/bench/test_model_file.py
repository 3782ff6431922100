"""A model in a file: what its layers keep, read and compute, and its steps, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvframe.bench.server.cards import parse_card
from kvframe.bench.server.layered import ALL
from kvframe.bench.server.model import Model, read_model
from kvframe.bench.server.parallel import ALONE, Parallel, parse_parallel
from kvframe.bench.server.shape import parse_server_shape
from kvframe.cli import main
from kvframe.errors import ConfigError

HEAD = """hidden_dim = 16
[[weights]]
precision = "bf16"
active_params = 1000
resident_params = 1000
"""
FULL = """[[layers]]
kind = "attention"
count = 2
heads = 4
head_dim = 4
kv_heads = 2
kv_precision = "bf16"
"""
WINDOW = FULL + "window = 10\n"
LINEAR = '[[layers]]\nkind = "linear"\ncount = 3\nstate_bytes = 100\n'
LATENT = """[[layers]]
kind = "mla"
count = 2
latent_dim = 6
rope_dim = 2
kv_precision = "fp8"
heads = 4
qk_head_dim = 5
v_head_dim = 3
"""
SPARSE = (
    LATENT
    + """window = 10
[layers.history]
compress_ratio = 4
index_topk = 5
indexer = { heads = 2, head_dim = 8, kv_precision = "fp8", precision = "fp8" }
"""
)
FACTORS = "roofline:weights=1,kv=1,compute=1,attention=1,host_us=1000000"
SLOW = "h100:bandwidth=1000,flops=1e6,flops_fp8=2e6,flops_fp4=4e6,memory=100kB"
"""So slow that every byte and operation shows beside the second of the host."""


def model(folder: Path, text: str) -> Model:
    path = folder / "model.toml"
    path.write_text(text)
    return read_model(str(path))


def serve(folder: Path, text: str, prompt: int, answer: int, *asked: str) -> Result:
    """One request, or several that begin alike where `asked` names another trace."""
    model(folder, text)
    row = {
        "timestamp": 0,
        "input_length": prompt,
        "output_length": answer,
        "hash_ids": [*range(-(-prompt // 10))],
    }
    (folder / "t.jsonl").write_text(json.dumps(row))
    words = ["bench", "serve", "--policy", "lru"]
    words += ["--trace", str(folder / "t.jsonl")] * ("--trace" not in asked)
    words += ["--block-size", "10", "--card", SLOW, "--profile", FACTORS, "--format", "json"]
    words += ["--model-shape", str(folder / "model.toml"), "--max-num-seqs", "4", *asked]
    return CliRunner().invoke(main, words)


def cell(done: Result) -> dict[str, Any]:
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)["cells"][0]
    return found


def steps(folder: Path, text: str, prompt: int, *asked: str) -> tuple[float, float]:
    """Seconds of a step of a prompt, and of the step of a token of its answer after it."""
    found = cell(serve(folder, text, prompt, 2, *asked))
    return found["ttft_mean"], found["e2e_mean"] - found["ttft_mean"]


# Weights: 1,000 parameters of 2 bytes at 1,000 B/s; 2 operations each at 1e6 a second are hidden.
WEIGHTS = 2.0


def test_full_attention_reads_and_keeps_every_token(tmp_path: Path) -> None:
    made = model(tmp_path, HEAD + FULL)
    # 2 layers of 2 x 2 heads x 4 numbers of 2 bytes.
    assert (made.token_bytes, made.layers, made.heads) == (64, 2, 4)
    assert made.sequence_on_card(1) == 0
    first, second = steps(tmp_path, HEAD + FULL, 20)
    # 20 tokens of 64 bytes take longer than 210 pairs of 2 x 4 x 4 x 4 operations.
    assert first == pytest.approx(1 + WEIGHTS + 20 * 64 / 1000)
    assert second == pytest.approx(1 + WEIGHTS + 21 * 64 / 1000)


def test_pairs_of_a_prompt_count_where_they_take_longer(tmp_path: Path) -> None:
    card = "h100:bandwidth=1e9,flops=1e6,memory=1MB"
    first, second = steps(tmp_path, HEAD + FULL, 20, "--card", card)
    # 2,000 operations a token; 2 layers x 4 x 4 heads x 4 = 128 a pair, of 210 and of 21 pairs.
    assert first == pytest.approx(1 + 20 * 2000 / 1e6 + 210 * 128 / 1e6)
    assert second == pytest.approx(1 + 2000 / 1e6 + 21 * 128 / 1e6)


def test_keys_that_are_values_too_are_half(tmp_path: Path) -> None:
    text = HEAD + FULL + "kv_shared = true\n"
    assert model(tmp_path, text).token_bytes == 32
    assert steps(tmp_path, text, 20)[1] == pytest.approx(1 + WEIGHTS + 21 * 32 / 1000)


def test_a_window_is_read_and_held_by_each_sequence(tmp_path: Path) -> None:
    made = model(tmp_path, HEAD + FULL + WINDOW)
    # The full layers alone keep a token for good; a sequence holds 10 tokens of 64 bytes besides.
    assert (made.token_bytes, made.sequence_on_card(1)) == (64, 640)
    first, second = steps(tmp_path, HEAD + FULL + WINDOW, 20)
    assert first == pytest.approx(1 + WEIGHTS + (20 + 10) * 64 / 1000)
    assert second == pytest.approx(1 + WEIGHTS + (21 + 10) * 64 / 1000)
    # 90,000 bytes, less 2,000 of weights and 4 x 640, in blocks of 10 x 64.
    assert cell(serve(tmp_path, HEAD + FULL + WINDOW, 20, 1))["capacity_blocks"] == 85_440 // 640


def test_a_capacity_in_bytes_is_of_what_tokens_keep_for_good(tmp_path: Path) -> None:
    # 6,400 bytes in blocks of 10 tokens of 8 bytes, and of 10 of 64.
    for text, blocks in ((SPARSE, 80), (FULL + LINEAR, 10)):
        found = cell(serve(tmp_path, HEAD + text, 20, 1, "--capacity", "6400B"))
        assert found["capacity_blocks"] == blocks


def test_windows_alone_take_blocks_as_they_are_written(tmp_path: Path) -> None:
    made = model(tmp_path, HEAD + WINDOW)
    assert (made.token_bytes, made.sequence_on_card(1)) == (64, 0)


def test_a_state_is_read_and_held_whatever_the_length(tmp_path: Path) -> None:
    made = model(tmp_path, HEAD + FULL + LINEAR)
    assert (made.token_bytes, made.layers, made.sequence_on_card(1)) == (64, 5, 300)
    first, second = steps(tmp_path, HEAD + FULL + LINEAR, 20)
    assert first == pytest.approx(1 + WEIGHTS + 20 * 64 / 1000 + 0.3)
    assert second == pytest.approx(1 + WEIGHTS + 21 * 64 / 1000 + 0.3)
    # 90,000 bytes, less 2,000 of weights and 4 x 300, in blocks of 10 x 64.
    assert cell(serve(tmp_path, HEAD + FULL + LINEAR, 20, 1))["capacity_blocks"] == 86_800 // 640


def test_latents_are_read_once_for_all_heads(tmp_path: Path) -> None:
    made = model(tmp_path, HEAD + LATENT)
    # 2 layers of 6 + 2 numbers of a byte.
    assert (made.token_bytes, made.heads) == (16, 4)
    assert steps(tmp_path, HEAD + LATENT, 20)[1] == pytest.approx(1 + WEIGHTS + 21 * 16 / 1000)
    card = "h100:bandwidth=1e9,flops=1e6,memory=1MB"
    first, second = steps(tmp_path, HEAD + LATENT, 20, "--card", card)
    # A pair: of prompts 2 x 4 heads x (5 + 3), of answers 2 x 4 x (2 x 6 + 2), in 2 layers each.
    assert first == pytest.approx(1 + 20 * 2000 / 1e6 + 210 * 2 * 64 / 1e6)
    assert second == pytest.approx(1 + 2000 / 1e6 + 21 * 2 * 112 / 1e6)


def test_without_heads_a_pair_of_latents_is_as_wide_as_the_model(tmp_path: Path) -> None:
    text = HEAD + LATENT.split("heads")[0]
    card = "h100:bandwidth=1e9,flops=1e6,memory=1MB"
    first, second = steps(tmp_path, text, 20, "--card", card)
    assert first == pytest.approx(1 + 20 * 2000 / 1e6 + 210 * 2 * 4 * 16 / 1e6)
    assert second == pytest.approx(1 + 2000 / 1e6 + 21 * 2 * 4 * 16 / 1e6)


def test_an_indexer_scores_a_history_of_which_few_are_read(tmp_path: Path) -> None:
    made = model(tmp_path, HEAD + SPARSE)
    # Of a token: a fourth of 8 bytes and of the indexer's 8, in 2 layers; windows of 10 x 8 x 2.
    assert (made.token_bytes, made.sequence_on_card(1)) == (8, 160)
    first, second = steps(tmp_path, HEAD + SPARSE, 40)
    # The last 10 tokens, 5 of 10 entries, and a fourth of 8 bytes of each of 40 or 41 tokens.
    assert first == pytest.approx(1 + WEIGHTS + 2 * (10 + 5) * 8 / 1000 + 2 * 40 * 2 / 1000)
    assert second == pytest.approx(1 + WEIGHTS + 2 * (10 + 5) * 8 / 1000 + 2 * 41 * 2 / 1000)


def test_scores_are_computed_in_their_own_format(tmp_path: Path) -> None:
    card = "h100:bandwidth=1e9,flops=1e6,flops_fp8=2e6,memory=1MB"
    first, second = steps(tmp_path, HEAD + SPARSE, 40, "--card", card)
    # 41 tokens attend to the last 10 and to 5 of 10 entries: 112 operations a pair, 2 layers.
    # The indexer: 2 x 2 heads x 8 for each of 10 entries, at twice the rate.
    assert second == pytest.approx(1 + 2000 / 1e6 + 2 * 15 * 112 / 1e6 + 2 * 10 * 32 / 2e6)
    # Of 40 tokens: 1 + ... + 10 and 30 x 10 pairs nearby; entries 3 x 0 + 4 x (1 + 2 + 3 + 4) and
    # 21 x 5; scored 3 x 0 + 4 x (1 + ... + 9) + 10.
    pairs, scores = 55 + 300 + 40 + 105, 180 + 10
    assert first == pytest.approx(
        1 + 40 * 2000 / 1e6 + 2 * pairs * 64 / 1e6 + 2 * scores * 32 / 2e6
    )


def test_attention_is_computed_in_its_own_format(tmp_path: Path) -> None:
    card = "h100:bandwidth=1e9,flops=1e6,flops_fp8=2e6,memory=1MB"
    text = 'attention_precision = "fp8"\n' + HEAD + FULL
    assert steps(tmp_path, text, 20, "--card", card)[0] == pytest.approx(
        1 + 20 * 2000 / 1e6 + 210 * 128 / 2e6
    )


STREAMS = """hidden_dim = 16
[[weights]]
precision = "fp4"
active_params = 500
resident_params = 1700
routing = { routed_experts = 8, experts_per_tok = 2, moe_layers = 1 }
[[weights]]
precision = "fp8"
active_params = 300
resident_params = 400
"""


def test_each_format_is_read_and_computed_by_itself(tmp_path: Path) -> None:
    made = model(tmp_path, STREAMS + FULL)
    # (1,700 - 500) / (8 - 2) parameters an expert; 500 - 2 x 200 that all tokens share.
    assert (made.weights[0].expert_params, made.weights[0].shared_params) == (200, 100)
    assert (made.params, made.weights_on_card(1, 1)) == (2100, 1700 / 2 + 400)
    assert (made.moe_layers, made.sent_experts) == (1, 2 * 1 / 2)
    second = steps(tmp_path, STREAMS + FULL, 20)[1]
    # One token makes 2 draws of 8: 8 (1 - (7/8)^2) experts of 200 / 2 bytes, beside 100 / 2 of all,
    # then 300 of the other format, of which the step reads no more.
    experts = 8 * (1 - (7 / 8) ** 2)
    weights = (50 + experts * 100) / 1000 + 300 / 1000
    assert second == pytest.approx(1 + weights + 21 * 64 / 1000)


def test_a_batch_reads_the_experts_that_its_tokens_go_to(tmp_path: Path) -> None:
    first = steps(tmp_path, STREAMS + FULL, 20)[0]
    experts = 8 * (1 - (7 / 8) ** 40)
    assert first == pytest.approx(1 + (50 + experts * 100) / 1000 + 0.3 + 20 * 64 / 1000)
    card = "h100:bandwidth=1e9,flops_fp8=2e6,flops_fp4=4e6,memory=1MB"
    fast = steps(tmp_path, STREAMS + FULL, 20, "--card", card)[0]
    # Products alone: 2 x 500 operations a token in one format, 2 x 300 in the other.
    assert fast == pytest.approx(1 + 20 * 1000 / 4e6 + 20 * 600 / 2e6, rel=1e-4)


def test_cards_of_a_replica_share_each_kind_as_they_can(tmp_path: Path) -> None:
    made = model(tmp_path, STREAMS + FULL + LATENT + LINEAR)
    # Heads of KV, a latent for all, states; experts over 2 of 4 cards, the rest over all.
    assert made.block_on_card(10, 4) == 10 * (64 / 2 + 16)
    assert made.sequence_on_card(4) == 300 / 4
    assert made.weights_on_card(4, 2) == (100 / 4 + 1600 / 2) / 2 + 400 / 4
    over = parse_parallel("tp=4,ep=2,link=128B/s,latency=1s", made)
    # 7 layers sum twice, and 1 sends its tokens there and back.
    assert over.exchanges(made) == 2 * 7 + 2
    # 16 numbers of 2 bytes: 2 x 3/4 of them in each sum, a half of 2 copies of a card's quarter.
    sums, sent = 7 * 2 * 2 * 3 / 4, 2 * 2 * 1 / 2 / 4
    assert over.token_seconds(made) == pytest.approx((sums + sent) * 32 / 128)
    assert Parallel(tp=1, dp=2).held(made, 5) == 3 * 300


def test_wider_numbers_take_longer_between_cards(tmp_path: Path) -> None:
    two = model(tmp_path, HEAD + FULL)
    four = model(tmp_path, "activation_bytes = 4\n" + HEAD + FULL)
    over = Parallel(tp=2, link=128.0)
    assert over.token_seconds(two) == 2 * 2 * 16 * 2 / 128
    assert over.token_seconds(four) == 2 * over.token_seconds(two)


def test_a_model_said_in_two_ways_takes_the_same_time(tmp_path: Path) -> None:
    shape = "layers=2,kv_heads=2,head_dim=4,params=1000,heads=4,hidden=16"
    path = str(tmp_path / "model.toml")
    of_file = cell(serve(tmp_path, HEAD + FULL, 200, 30))
    named = cell(serve(tmp_path, HEAD + FULL, 200, 30, "--model-shape", shape))
    assert read_model(path).token_bytes == parse_server_shape(shape).token_bytes
    for name in ("capacity_blocks", "itl_p50", "itl_p99"):
        assert of_file[name] == pytest.approx(named[name], rel=1e-12), name


def test_a_tensor_parallel_step_by_hand(tmp_path: Path) -> None:
    asked = ("--parallel", "tp=2,link=128B/s,latency=1s")
    second = steps(tmp_path, HEAD + FULL + LINEAR, 20, *asked)[1]
    # 5 layers wait twice; half of weights, of KV and of states; 2 x 5 sums of 32 bytes.
    read = (2000 / 2 + 21 * 64 / 2 + 300 / 2) / 1000
    assert second == pytest.approx(1 + 10 * 1.0 + read + 10 * 32 / 128)


def test_a_prefix_that_all_share_is_read_once(tmp_path: Path) -> None:
    model(tmp_path, HEAD + FULL)
    rows = [
        {"timestamp": 0, "input_length": 40, "output_length": 2, "hash_ids": [1, 2, 3, last]}
        for last in (4, 5, 6)
    ]
    text = "\n".join(map(json.dumps, rows))
    (tmp_path / "alike.jsonl").write_text(text)
    asked = ("--trace", str(tmp_path / "alike.jsonl"))
    shape = "layers=2,kv_heads=2,head_dim=4,params=1000,heads=4,hidden=16"
    for more in ((), ("--model-shape", shape)):
        found = [
            cell(serve(tmp_path, HEAD + FULL, 9, 9, *asked, *more, *flag))
            for flag in ((), ("--cascade-attention",))
        ]
        usual, cascade = (one["e2e_mean"] - one["ttft_mean"] for one in found)
        # Three attend to 41 tokens of 64 bytes, of which 30 are the same.
        assert usual == pytest.approx(1 + WEIGHTS + 3 * 41 * 64 / 1000)
        assert cascade == pytest.approx(1 + WEIGHTS + (30 + 3 * 11) * 64 / 1000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD, "layers: missing; it must be"),
        ("layers = []\n" + HEAD, "layers = []: must have a row at least: [[layers]]"),
        (HEAD + LINEAR, "must have a row that keeps KV, of attention or mla"),
        (HEAD + FULL.replace("attention", "atention"), "did you mean attention"),
        (HEAD + FULL.replace("count = 2\n", ""), "layers[0].count: missing"),
        (HEAD + FULL.replace("heads = 4", "heads = 0"), "layers[0].heads = 0: must be"),
        (HEAD + FULL + "windw = 4\n", "did you mean layers[0].window?"),
        (HEAD + FULL.replace("bf16", "bf17"), 'kv_precision = "bf17": must be'),
        (HEAD + FULL + FULL + "window = -1\n", "layers[1].window = -1: must be"),
        (HEAD + LATENT.replace("v_head_dim = 3\n", ""), "layers[0].v_head_dim: missing; all of"),
        (HEAD + SPARSE.replace("ratio = 4", "ratio = 0"), "layers[0].history.compress_ratio = 0"),
        (HEAD + SPARSE.replace("head_dim = 8", "head_dim = 0"), "history.indexer.head_dim = 0"),
        (HEAD + LATENT.replace("= 6", "= 0").replace("= 2\nkv", "= 0\nkv"), "must be above 0, or"),
        (HEAD + LINEAR.replace("100", "0"), "layers[0].state_bytes = 0"),
        (
            HEAD.replace("active_params = 1000", "active_params = 1001") + FULL,
            "must be at least active",
        ),
        (
            STREAMS.replace("experts = 8", "experts = 1") + FULL,
            "must be at least experts_per_tok = 2",
        ),
        (STREAMS.replace("layers = 1", "layers = 3") + FULL, "must be at most the 2 layers"),
        ("hidden_dim = 1\nhidden_dim = 2", "Cannot overwrite a value"),
        (
            HEAD.replace("16\n", '16\nattention_precision = "int8"\n', 1) + FULL,
            "attention_precision",
        ),
        (HEAD.replace("16\n", "16\nactivation_bytes = 0\n", 1) + FULL, "activation_bytes = 0"),
    ],
)
def test_what_no_model_can_be_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        model(tmp_path, text)
    assert message in str(refused.value)
    assert str(refused.value).startswith(f"--model-shape {tmp_path / 'model.toml'}: ")


def test_a_format_that_the_card_does_not_compute_in_is_refused(tmp_path: Path) -> None:
    done = serve(tmp_path, STREAMS + FULL, 9, 1, "--card", "a100")
    assert done.exit_code == 2
    assert "--card a100: flops_fp4 is missing" in done.stderr
    assert "a100:flops_fp4=N" in done.stderr
    assert parse_card("h100").rate("fp4") is None
    assert parse_card("h100:flops=8,flops_fp16=6").rate("fp32") == 3


def test_windows_that_leave_no_room_are_refused(tmp_path: Path) -> None:
    done = serve(tmp_path, HEAD + FULL + WINDOW, 9, 1, "--max-num-seqs", "200")
    assert done.exit_code == 2
    assert "125.00 KiB for windows and states of 200 sequences: lower --max-num-seqs" in done.stderr


def test_groups_of_a_configuration_count_windows_themselves(tmp_path: Path) -> None:
    (tmp_path / "kvframe.toml").write_text(
        "[cache]\nblock_size = 10\ncapacity = 20\n"
        '[[groups]]\nname = "all"\n'
        '[[groups]]\nname = "near"\nkind = "sliding_window"\nwindow = 10\n'
    )
    asked = ("--max-num-seqs", "200", "--config", str(tmp_path / "kvframe.toml"))
    done = serve(tmp_path, HEAD + FULL + WINDOW, 9, 1, *asked)
    assert cell(done)["capacity_blocks"] == 20
    assert "for the windows and states" not in done.stdout
    held = serve(tmp_path, HEAD + FULL + WINDOW, 9, 1)
    assert "2.50 KiB are for the windows and states of --max-num-seqs 4 sequences." in held.stdout


def test_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--model-shape no\.toml: No such file"):
        read_model("no.toml")


@pytest.mark.parametrize("profile", ["fixed", "h200-8b"])
def test_a_measured_profile_knows_no_cascade(tmp_path: Path, profile: str) -> None:
    done = serve(tmp_path, HEAD + FULL, 9, 1, "--profile", profile, "--cascade-attention")
    assert done.exit_code == 2
    assert f"--cascade-attention: --profile {profile} was measured without" in done.stderr


def test_no_limit_is_what_the_core_takes_for_none() -> None:
    assert ALL == 2**32 - 1
    assert ALONE.cards == 1
