"""Logs of gateways: what their times are in, which requests failed, what a time is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvframe.bench.traces import ReadOptions, Source, read

from .conftest import Command, lines, row

EPOCH = 1_796_000_003.749
TOKENS = list(range(32))


def made(tmp_path: Path, *rows: Any, **how: Any) -> Source:
    (tmp_path / "log.jsonl").write_bytes(lines(*rows))
    return read(str(tmp_path / "log.jsonl"), ReadOptions(**how))


def span_ms(source: Source) -> int:
    times = source.trace.columns()["timestamp_ms"]
    return int(times[-1] - times[0])


def tokens(at: float, **more: Any) -> dict[str, Any]:
    return {"ts": at, "prompt_token_ids": TOKENS} | more


def asked(at: float, **more: Any) -> dict[str, Any]:
    request = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 512}
    return {"ts": at, "request": request, "response": {"usage": {"completion_tokens": 3}}} | more


def prompt(at: float) -> dict[str, Any]:
    return {"ts": at, "prompt": "hi"}


def hashes(at: float) -> dict[str, Any]:
    return row(at, 512, [1])


@pytest.mark.parametrize("one", [tokens, hashes, asked, prompt])
@pytest.mark.parametrize("unit", [1, 1_000, 1_000_000])
def test_times_since_1970_are_what_they_look_like(
    tmp_path: Path, tokenizer: Path, one: Any, unit: int
) -> None:
    rows = [one(round(at * unit, 3)) for at in (EPOCH, EPOCH + 60)]
    found = made(tmp_path, *rows, tokenizer=str(tokenizer))
    assert span_ms(found) == 60_000
    told = "since 1970, and are read so; if they are" in " ".join(found.remarks)
    usual = 1_000 if one in (tokens, hashes) else 1
    assert told == (unit != usual)


def test_remarks_are_no_figures(tmp_path: Path, kvframe: Command) -> None:
    made(tmp_path, tokens(EPOCH), tokens(EPOCH + 60))
    done = kvframe("trace", "info", tmp_path / "log.jsonl")
    assert "note: times such as" in done.stderr
    assert "note: " not in done.stdout
    curve = kvframe("bench", "curve", "--trace", tmp_path / "log.jsonl", "--capacity", "2")
    assert "note: times such as" in curve.stderr
    assert "note: " not in curve.stdout


def test_a_unit_that_is_given_and_times_from_zero_are_no_guess(tmp_path: Path) -> None:
    given = made(tmp_path, tokens(EPOCH), tokens(EPOCH + 60), time_unit="ms")
    assert span_ms(given) == 60
    zero = made(tmp_path, tokens(0), tokens(2_600_000))
    assert span_ms(zero) == 2_600_000
    assert not [one for one in (*given.remarks, *zero.remarks) if "1970" in one]


@pytest.mark.parametrize(
    "failed",
    [
        {"status": 429},
        {"status": "failure"},
        {"status_code": "503"},
        {"error": {"message": "rate limit"}},
        {"response": {"status_code": 500, "body": {}}},
        {"response": {"error": {"code": 429}}},
    ],
)
def test_failed_requests_are_left_out_and_counted(
    tmp_path: Path, tokenizer: Path, failed: dict[str, Any]
) -> None:
    for one in (tokens, asked):
        rows = [one(EPOCH, status=200, error=None), one(EPOCH + 1, **failed), one(EPOCH + 2)]
        found = made(tmp_path, *rows, tokenizer=str(tokenizer))
        assert found.trace.requests == 2
        assert any(told.startswith("failed requests") for told in found.remarks)
    whole = made(tmp_path, asked(EPOCH), tokenizer=str(tokenizer))
    assert not any("failed" in told for told in whole.remarks)


def test_litellms_name_of_a_time(tmp_path: Path) -> None:
    rows = [{"startTime": f"2026-11-30T04:35:0{n}Z", "token_ids": TOKENS} for n in (1, 4)]
    assert span_ms(made(tmp_path, *rows)) == 3_000


def test_fields_that_may_be_times_are_named(tmp_path: Path) -> None:
    rows = [{"begun": "2026-11-30T04:35:01Z", "at": EPOCH, "n": 7, "token_ids": TOKENS}] * 2
    found = made(tmp_path, *rows)
    assert span_ms(found) == 1_000
    assert any(told.startswith("'begun', 'at' may be a time: ") for told in found.remarks)
