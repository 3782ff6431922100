"""``kvframe bench answer``: a public task's form, and figures that the bench has too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kvframe.bench.answer import configured
from kvframe.cli import main
from kvframe.errors import ConfigError

from .made import ran

S3_FIFO = {
    "block_size": 512,
    "cache_capacity_blocks": 4_000,
    "policy": "S3FIFO",
    "s3fifo": {"small_ratio": 0.1, "max_freq": 3},
}


def asked(folder: Path, config: object) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    return folder / "config.json"


def answered(folder: Path, config: object, trace: str, *more: str) -> dict[str, Any]:
    out = folder / "report.json"
    done = CliRunner().invoke(
        main, ["bench", "answer", str(asked(folder, config)), trace, "-o", str(out), *more]
    )
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_the_whole_report(tmp_path: Path) -> None:
    """Two blocks of 16 tokens: the second prompt hits one, the third what is left of the first."""
    rows = [
        {"timestamp": at, "input_length": length, "output_length": 1, "hash_ids": ids}
        for at, (length, ids) in enumerate([(32, [1, 2]), (30, [1, 3]), (16, [1])])
    ]
    trace = tmp_path / "trace.jsonl"
    trace.write_text("\n".join(map(json.dumps, rows)))
    config = {"block_size": 16, "cache_capacity_blocks": 2, "policy": "LRU"}
    assert answered(tmp_path, config, str(trace)) == {
        "total_requests": 3,
        "total_prompt_tokens": 78,
        "total_hit_tokens": 32,
        "overall_hit_rate": 32 / 78,
        "final_cache_blocks": 2,
        "per_request": [
            {"idx": 0, "prompt_tokens": 32, "hit_tokens": 0},
            {"idx": 1, "prompt_tokens": 30, "hit_tokens": 16},
            {"idx": 2, "prompt_tokens": 16, "hit_tokens": 16},
        ],
    }


@pytest.mark.parametrize("mode", ["trace", "engine"])
def test_figures_are_those_of_a_cell(tmp_path: Path, mode: str) -> None:
    report = answered(tmp_path, S3_FIFO, "conversation", "--mode", mode)
    _, outcome = ran(policies="s3-fifo", capacities="4000", modes=mode)
    (cell,) = [cell for cell in outcome.cells.values() if cell.policy == "s3-fifo"]
    assert report["total_hit_tokens"] == cell.hit_tokens
    assert report["overall_hit_rate"] == cell.token_hit_rate
    hits = [row["hit_tokens"] for row in report["per_request"]]
    assert (len(hits), sum(hits)) == (12_031, cell.hit_tokens)
    assert report["final_cache_blocks"] == 4_000


def test_options_of_others_are_named_as_here(tmp_path: Path) -> None:
    assert configured(asked(tmp_path, S3_FIFO)).policy == "s3-fifo:small_percent=10"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"policy": "LRU"}, "cache_capacity_blocks"),
        ({"cache_capacity_blocks": 0}, "cache_capacity_blocks"),
        ([], "object"),
        (S3_FIFO | {"s3fifo": {"max_freq": 7}}, "s3-fifo.max_freq = 7: must be 3 here"),
        (S3_FIFO | {"s3fifo": {"large": 1}}, "s3-fifo.large: no such option; s3-fifo has small_"),
        (S3_FIFO | {"s3fifo": {"small_ratio": 0.123}}, "must be whole per cents"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, config: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        configured(asked(tmp_path, config))
