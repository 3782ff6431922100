"""Blocks out of numbers, bytes and sequences."""

from __future__ import annotations

from typing import Any

import pytest

from kvframe.config import CacheConfig, Config, GroupConfig, ModelConfig, SequenceCapacity
from kvframe.config.sizes import near_bytes, parse_bytes, rounded
from kvframe.errors import ConfigError
from kvframe.pages import PageShape

LLAMA_8B = ModelConfig(layers=32, kv_heads=8, head_dim=128)
TOKEN_BYTES = 2 * 32 * 8 * 128 * 2


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1 B", 1),
        ("40 GiB", 40 * 2**30),
        ("40GB", 40 * 10**9),
        (" 1.5  kib ", 1536),
        ("0.1 kB", 100),
        ("9007199254740993 B", 9007199254740993),
        ("40", None),
        ("GiB", None),
        ("-1 GiB", None),
        ("40 G", None),
        ("40 Gb", None),  # bits, as it is written
        ("40 Gib", None),
        ("40 gb", 40 * 10**9),
        ("1e3 B", None),
        ("", None),
    ],
)
def test_sizes(text: str, size: int | None) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("40 Gb", "; did you mean 40 GB?"),
        ("1.5Gib", "; did you mean 1.5 GiB?"),
        ("40 G", "; did you mean 40 GB?"),
        ("40", ""),
        ("many GiB", ""),
    ],
)
def test_the_unit_that_was_meant(text: str, told: str) -> None:
    assert near_bytes(text) == told


@pytest.mark.parametrize(
    ("size", "text"),
    [(512, "0.50 KiB"), (1024, "1.00 KiB"), (40 * 2**30, "40.00 GiB"), (2**61, "2,048.00 PiB")],
)
def test_bytes_in_words(size: int, text: str) -> None:
    assert rounded(size) == text


def test_bytes_become_whole_blocks() -> None:
    config = Config(cache=CacheConfig(capacity="40 GiB"), model=LLAMA_8B)
    resolved = config.resolve()
    assert resolved.block_bytes == 16 * TOKEN_BYTES
    assert resolved.capacity_blocks == 40 * 2**30 // (16 * TOKEN_BYTES)
    short = Config(cache=CacheConfig(capacity=f"{32 * TOKEN_BYTES - 1} B"), model=LLAMA_8B)
    assert short.resolve().capacity_blocks == 1


@pytest.mark.parametrize(
    ("dtype", "size"), [("bfloat16", 2), ("float16", 2), ("float32", 4), ("fp8", 1), ("int8", 1)]
)
def test_dtypes(dtype: str, size: int) -> None:
    resolved = Config.load(
        env={},
        cache={"block_size": 1, "capacity": 1},
        model={"layers": 3, "kv_heads": 5, "head_dim": 7, "dtype": dtype},
    ).resolve()
    assert resolved.block_bytes == 2 * 3 * 5 * 7 * size


DEEPSEEK = {"layers": 61, "latent_dim": 512 + 64}


@pytest.mark.scenario("F25")
def test_a_latent_is_kept_once() -> None:
    resolved = Config.load(
        env={}, cache={"block_size": 64, "capacity": "10 GiB"}, model=DEEPSEEK
    ).resolve()
    assert resolved.block_bytes == 61 * 576 * 2 * 64
    assert resolved.capacity_blocks == 2_387


@pytest.mark.scenario("F25")
@pytest.mark.parametrize(
    ("model", "size"),
    [
        (DEEPSEEK, 61 * 576 * 2),
        (DEEPSEEK | {"dtype": "fp8"}, 61 * 576),
        # vLLM's fp8_ds_mla: 512 values of one byte, 4 scales of 4 bytes, 64 values of 2 bytes.
        ({"layers": 61, "latent_dim": 512, "dtype": "fp8", "extra_bytes": 16 + 128}, 61 * 656),
        # A scale of 4 bytes for each head's key and value.
        (
            {"layers": 2, "kv_heads": 8, "head_dim": 128, "dtype": "int8", "extra_bytes": 64},
            2 * (2 * 8 * 128 + 64),
        ),
    ],
)
def test_bytes_of_a_token(model: dict[str, Any], size: int) -> None:
    resolved = Config.load(env={}, cache={"block_size": 1}, model=model).resolve()
    assert resolved.block_bytes == size
    shape = PageShape.of_model(resolved.config.model, 16)
    assert (shape.page_bytes, shape.parts) == (16 * size, 1 if "latent_dim" in model else 2)


@pytest.mark.scenario("F25")
@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"layers": 1}, "model.kv_heads: missing; a model needs kv_heads and head_dim, or latent"),
        ({"layers": 1, "kv_heads": 1}, "model.head_dim: missing; a model needs"),
        (DEEPSEEK | {"kv_heads": 1}, "model.kv_heads = 1: goes without latent_dim"),
        (DEEPSEEK | {"head_dim": 8}, "model.head_dim = 8: goes without latent_dim"),
        ({"layers": 1, "latent_dim": 0}, "model.latent_dim = 0: must be between 1 and"),
        (DEEPSEEK | {"extra_bytes": -1}, "model.extra_bytes = -1: must be between 0 and"),
    ],
)
def test_shapes_that_no_model_has(model: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.load(env={}, model=model).resolve()
    assert message in str(caught.value)


@pytest.mark.scenario("F25")
def test_hybrids_count_latents_windows_and_states() -> None:
    groups: list[dict[str, Any]] = [
        {"name": "full", "layers": 20},
        {"name": "window", "kind": "sliding_window", "window": 64, "layers": 41},
        {"name": "state", "kind": "state", "page_bytes": 1_000, "layers": 1},
    ]
    model = {"layers": 62, "latent_dim": 576}
    resolved = Config.load(env={}, model=model, groups=groups).resolve()
    assert resolved.page_bytes == (16 * 20 * 1_152, 16 * 41 * 1_152, 1_000)
    del groups[2]["page_bytes"]
    with pytest.raises(ConfigError, match=r"groups\[2\].page_bytes: missing; \[model\] says"):
        Config.load(env={}, model=model, groups=groups).resolve()


def test_extra_bytes_lie_with_each_head() -> None:
    model = ModelConfig(layers=1, kv_heads=8, head_dim=4, dtype="int8", extra_bytes=24)
    with pytest.raises(ConfigError, match=r"model.extra_bytes = 24: must be a multiple of 16"):
        PageShape.of_model(model, 16)


def test_without_a_model_the_bytes_of_a_block_are_unknown() -> None:
    assert Config().resolve().block_bytes is None


def test_groups_share_the_layers_of_one_pool() -> None:
    groups = [
        GroupConfig(name="full"),
        GroupConfig(name="window", kind="sliding_window", window=1024),
    ]
    resolved = Config(cache=CacheConfig(capacity="1 GiB"), model=LLAMA_8B, groups=groups).resolve()
    assert resolved.block_bytes == 16 * TOKEN_BYTES // 2
    assert resolved.capacity_blocks == 2**30 // (8 * TOKEN_BYTES)


@pytest.mark.parametrize(
    ("seq_len", "requests", "null_block", "blocks"),
    [(16, 1, False, 1), (17, 1, False, 2), (100, 3, False, 21), (100, 3, True, 22)],
)
def test_sequences_round_up(seq_len: int, requests: int, null_block: bool, blocks: int) -> None:
    capacity = SequenceCapacity(max_seq_len=seq_len, max_requests=requests)
    config = Config(cache=CacheConfig(capacity=capacity, null_block=null_block))
    assert config.resolve().capacity_blocks == blocks


def test_every_group_keeps_every_sequence() -> None:
    capacity = SequenceCapacity(max_seq_len=100, max_requests=3)
    groups = [GroupConfig(name="a"), GroupConfig(name="b")]
    assert (
        Config(cache=CacheConfig(capacity=capacity), groups=groups).resolve().capacity_blocks == 42
    )


@pytest.mark.parametrize("blocks", [1, 2**32 - 1])
def test_the_limits_themselves_are_fine(blocks: int) -> None:
    assert Config(cache=CacheConfig(capacity=blocks)).resolve().capacity_blocks == blocks
