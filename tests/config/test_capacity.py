"""Blocks out of numbers, bytes and sequences."""

from __future__ import annotations

import pytest

from kvframe.config import CacheConfig, Config, GroupConfig, ModelConfig, SequenceCapacity
from kvframe.config.sizes import parse_bytes, rounded

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
        ("1e3 B", None),
        ("", None),
    ],
)
def test_sizes(text: str, size: int | None) -> None:
    assert parse_bytes(text) == size


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
