"""Blocks and bytes."""

import math
from pathlib import Path
from typing import Any

import pytest

from kvframe import _core
from kvframe.bench.capacity import SHIPPED, parse_all, parse_shape
from kvframe.bench.curve import spaced
from kvframe.bench.job import Job, Request
from kvframe.config.schema import MAX_BLOCKS
from kvframe.errors import ConfigError

from .conftest import Command
from .made import ran, text, write

SHAPE = "layers=32,kv_heads=8,head_dim=128"
# 2 x 32 x 8 x 128 x 2 bytes = 128 KiB a token.


def blocks(text: str, shape: str | None = None, block_size: int = 16) -> int:
    (capacity,) = parse_all([text], shape)
    return capacity.blocks(block_size)


@pytest.mark.parametrize(
    ("text", "expected"), [("1", 1), ("32_000", 32_000), (str(MAX_BLOCKS), MAX_BLOCKS)]
)
def test_numbers_are_blocks(text: str, expected: int) -> None:
    assert blocks(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2 MiB", 1), ("40 GiB", 20_480), ("40GiB", 20_480), ("1.5 gib", 768), ("2 GB", 953)],
)
def test_bytes_are_divided_by_a_blocks_bytes(text: str, expected: int) -> None:
    assert blocks(text, SHAPE) == expected


def test_dtype_counts() -> None:
    assert blocks("1 GiB", SHAPE + ",dtype=fp8") == 2 * blocks("1 GiB", SHAPE)


@pytest.mark.parametrize("text", ["0", "-1", str(MAX_BLOCKS + 1), "1e3", "8k", "GiB", "1 GiB"])
def test_refused_without_a_shape(text: str) -> None:
    with pytest.raises(ConfigError, match="--capacity"):
        blocks(text)


def test_a_dtype_may_be_short() -> None:
    assert parse_shape(SHAPE + ",dtype=fp16") == parse_shape(SHAPE + ",dtype=float16")


@pytest.mark.parametrize("text", ["1 MiB", "900000 TiB", "1 parsec"])
def test_refused_with_a_shape(text: str) -> None:
    with pytest.raises(ConfigError, match="--capacity"):
        blocks(text, SHAPE)


@pytest.mark.parametrize(
    "shape",
    ["", "layers", "layers=0,kv_heads=1,head_dim=1", "layers=x,kv_heads=1,head_dim=1",
     "layers=1,kv_heads=1", SHAPE + ",dtype=bf32", SHAPE + ",heads=2"],
)  # fmt: skip
def test_bad_shapes_are_named(shape: str) -> None:
    with pytest.raises(ConfigError, match="--model-shape"):
        blocks("1 GiB", shape)


@pytest.mark.parametrize(("form", "beside"), [("table", False), ("json", True), ("csv", True)])
def test_a_configurations_capacity_is_said_in_the_traces_blocks(
    bench: Command, small: Path, tmp_path: Path, form: str, beside: bool
) -> None:
    Path(tmp_path, "own.toml").write_text("[cache]\nblock_size = 16\ncapacity = 100\n")
    done = bench("run", "--trace", small, "--config", "own.toml", "--format", form)
    assert done.returncode == 0, done.stderr
    told = "own.toml: 100 blocks of 16 tokens are 3 of the 512 that the trace has."
    assert (told in done.stderr, told in done.stdout) == (beside, not beside)


def test_without_a_capacity_sizes_are_shares_of_what_is_there(tmp_path: Path) -> None:
    """Of a shipped trace they are those of its tables."""
    made = str(write(tmp_path / "made.jsonl", 200))
    job, outcome = ran(traces=made, policies="lru", formats="json")
    distinct = job.plans[0].source.trace.prepare("engine")["unique_blocks"]
    profile = _core.TraceProfile.of(job.plans[0].source.trace, "engine")
    longest = profile.facts()["longest"]
    shares = [math.ceil(share * distinct) for share in (0.01, 0.03, 0.1, 0.3)]
    assert shares[0] < longest < shares[1]
    assert [plan.capacity for plan in job.plans] == [longest, *shares[1:]]
    assert spaced(profile)[0] == longest
    assert (
        f"{made}: no --capacity, so 1%, 3%, 10%, 30% of its {distinct:,} distinct blocks, but at "
        f"least the {longest} of its largest request."
    ) in job.doubts
    (table,) = Job(Request(traces=[made])).outputs(outcome)
    assert "no --capacity, so 1%, 3%, 10%, 30% of its" in table
    shipped = Job(Request(traces=["synthetic"], policies=["lru"], formats=["json"]))
    assert [str(plan.capacity) for plan in shipped.plans] == list(SHIPPED)
    assert not any("no --capacity" in doubt for doubt in shipped.doubts)


@pytest.mark.parametrize(
    ("mode", "taken", "fate"),
    [("engine", [3, 5], "cached as far as there is room"),
     ("trace", [4, 6], "cached as far as there is room"),
     ("timed", [4, 8], "rejected")],
)  # fmt: skip
def test_requests_larger_than_a_capacity_are_counted(
    tmp_path: Path, mode: str, taken: list[int], fate: str
) -> None:
    rows = [
        {"timestamp": 0, "input_length": 16 * full + 1, "output_length": answer,
         "hash_ids": list(range(full + 1)), "block_size": 16}
        for full, answer in ((3, 15), (5, 40))
    ]  # fmt: skip
    Path(tmp_path, "made.jsonl").write_bytes(text(rows))
    asked: dict[str, Any] = {
        "traces": [str(tmp_path / "made.jsonl")],
        "policies": ["lru"],
        "formats": ["json"],
    }
    small, middle = taken[0] - 1, taken[0]
    sizes = [str(size) for size in (middle, small, 100)]
    job = Job(Request(**asked, capacities=sizes, modes=[mode]))
    told = (
        f"2 requests are larger than {small} blocks, 1 request is larger than {middle} blocks, the "
        f"largest {taken[1]}; they are {fate}."
    )
    assert [doubt for doubt in job.doubts if "larger than" in doubt] == [
        f"{tmp_path / 'made.jsonl'}, {mode} mode: {told}"
    ]
    room = Job(Request(**asked, capacities=["100"], modes=[mode]))
    assert not any("larger than" in doubt for doubt in room.doubts)


def test_tune_takes_a_share_as_well(tmp_path: Path, bench: Command) -> None:
    write(tmp_path / "made.jsonl", 60)
    asked = ("tune", "slru", "--option", "protected_uses=3")
    done = bench(*asked, "--trace", "made.jsonl")
    assert "note: made.jsonl: no --capacity, so 10% of its " in done.stderr
    assert "conversation: engine mode, 4,000 blocks" in bench(*asked).stdout
