"""``kvframe bench reuse``: three ways to reuse the same prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvframe.cli import main


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["bench", "reuse", *map(str, arguments)])


def rows(*arguments: object) -> dict[tuple[int, str], dict[str, Any]]:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return {(row["block_size"], row["reuse"]): row for row in json.loads(done.stdout)}


def write(folder: Path, *prompts: list[int]) -> Path:
    file = folder / "prompts.jsonl"
    file.write_text("".join(json.dumps({"token_ids": prompt}) + "\n" for prompt in prompts))
    return file


def test_what_a_hit_inside_a_block_saves(tmp_path: Path) -> None:
    shared = list(range(22))
    file = write(tmp_path, [*shared, *range(100, 120)], [*shared, *range(200, 220)])
    found = rows("--tokens", file, "--block-size", 8, "--capacity", 800)
    hits = {way: (row["hit_tokens"], row["copied_tokens"]) for way, row in found.items()}
    assert hits == {(8, "blocks"): (16, 0), (8, "copies"): (22, 6), (1, "tokens"): (22, 0)}
    assert {row["input_tokens"] for row in found.values()} == {84}
    text = run("--tokens", file, "--block-size", 8, "--token-bytes", 1_000).stdout
    assert "0.2619" in text
    assert "1 kB" in text


def test_copies_find_what_single_tokens_find_where_room_is_ample() -> None:
    found = rows("--tokens", "branches", "--capacity", 10_000_000, "--block-size", 16)
    blocks, copies, tokens = (
        found[key]["hit_tokens"] for key in ((16, "blocks"), (16, "copies"), (1, "tokens"))
    )
    assert blocks < copies <= tokens
    assert tokens - copies < (tokens - blocks) / 10


@pytest.mark.parametrize(
    "line", ["", "{", "[1]", '{"token_ids": []}', '{"token_ids": [-1]}', '{"token_ids": [[1]]}']
)
def test_a_line_that_is_no_prompt_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text(f'{{"token_ids": [1]}}\n{line}\n')
    done = run("--tokens", file)
    if not line:
        assert done.exit_code == 0
        return
    assert done.exit_code != 0
    assert f"{file}:2: must be" in (done.output + str(done.exception))


def test_a_log_from_elsewhere_is_read(tmp_path: Path) -> None:
    """A byte order mark, another line end, and a text with a separator of lines inside."""
    file = tmp_path / "prompts.jsonl"
    row = '{"prompt": "a\u2028b", "token_ids": [1, 2, 3]}\r\n'
    file.write_bytes(("\ufeff" + row + row).encode())
    found = rows("--tokens", file, "--block-size", 2)
    assert (found[2, "blocks"]["requests"], found[2, "blocks"]["hit_tokens"]) == (2, 2)


@pytest.mark.parametrize(
    ("data", "told"), [(b"", "holds no prompt"), (b"\n", "holds no prompt"), (b"[" * 10**5, ":1: ")]
)
def test_a_file_without_prompts_is_named(tmp_path: Path, data: bytes, told: str) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_bytes(data)
    done = run("--tokens", file)
    assert done.exit_code != 0
    assert told in (done.output + str(done.exception))


def test_no_such_workload_or_room(tmp_path: Path) -> None:
    done = run("--tokens", "few-shots")
    assert "few-shots: No such file" in (done.output + str(done.exception))
    done = run("--tokens", write(tmp_path, [1]), "--capacity", 8, "--block-size", 16)
    assert "--block-size 16: a capacity of 8 tokens" in (done.output + str(done.exception))
