"""Every file of ``forms``: recognised, and read or refused with the right sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvframe.bench.traces import ReadOptions, Source, read
from kvframe.errors import TraceError
from kvframe.traces.forms import FORMS as READERS
from kvframe.traces.forms.hashes import SESSION
from kvframe.traces.reader import Given, TraceReader
from kvframe.traces.values import TIMES

from .conftest import FORMS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "traces.md"

READ = {
    # file: form, requests, prompt tokens, block size, sessions
    "aiperf_multi.jsonl": ("aiperf", 2, 3_000, 512, 1),
    "bailian.jsonl": ("bailian", 40, 16_413, 16, 25),
    "dynamo_agentic.jsonl": ("aiperf", 2, 1_700, 512, 1),
    "dynamo_trace_v1.jsonl": ("dynamo", 1, 640, 64, 0),
    "libcachesim.csv": ("libcachesim-csv", 3, 3, 1, 0),
    "tok.jsonl": ("tokens", 1, 8, 16, 0),
    "steps.jsonl": ("steps", 4, 412, 16, 2),
    "weka.json": ("weka", 3, 33_739, 64, 1),
}
TEXT = {
    # file: form, requests
    "lmsys.jsonl": ("chat", 1),
    "openai_batch.jsonl": ("openai", 1),
    "sharegpt.json": ("chat", 2),
    "vllm_custom.jsonl": ("prompts", 2),
    "wildchat.jsonl": ("chat", 1),
}
LENGTHS = {
    "azure2023.csv": ("azure", 2),
    "azure2024.csv": ("azure", 1),
    "burstgpt.csv": ("burstgpt", 2),
    "copilot2026.jsonl.gz": ("copilot", 1),
    "lmcache.log": ("lmcache-log", 1),
}


def found(name: str, tokenizer: Path | None = None) -> Source:
    return read(str(FORMS / name), ReadOptions(tokenizer=str(tokenizer) if tokenizer else None))


def counts(source: Source) -> tuple[str, int, int, int, int]:
    trace = source.trace
    sessions = int(trace.columns()["session"].max()) + 1
    return source.form, trace.requests, trace.input_tokens, trace.block_size, sessions


def test_every_file_is_here() -> None:
    files = {path.name for path in FORMS.iterdir()} - {"README.md"}
    assert files == READ.keys() | TEXT.keys() | LENGTHS.keys()


@pytest.mark.parametrize("name", READ)
def test_a_file_with_prefixes_is_read(name: str) -> None:
    assert counts(found(name)) == READ[name]


@pytest.mark.parametrize("name", TEXT)
def test_text_needs_a_tokenizer(name: str, tokenizer: Path) -> None:
    with pytest.raises(TraceError, match=r"seems to be .*: text, .*--tokenizer FILE"):
        found(name)
    source = found(name, tokenizer)
    assert (source.form, source.trace.requests) == TEXT[name]
    assert source.trace.block_size == 16


@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_alone_are_refused(name: str) -> None:
    with pytest.raises(TraceError, match=r"seems to be .*: lengths and times, but no prefixes"):
        found(name)


def test_the_page_lists_every_form_with_what_it_needs() -> None:
    section = PAGE.read_text().partition("## Forms")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]*) \| ([^|]+) \|$", section, re.M)
    said = {"prefixes": "refused", "tokens": "tokenizer", "requests": "refused", "": "read"}
    assert [row[0] for row in rows] == [reader.name for reader in READERS]
    for (name, _, _, outcome), reader in zip(rows, READERS, strict=True):
        assert said[reader.lacks] in outcome, name


def test_the_page_has_the_names_of_times_and_sessions() -> None:
    rows = dict(re.findall(r"^\| (time|session) \| (.*) \|$", PAGE.read_text(), re.M))
    assert tuple(re.findall("`(.*?)`", rows["time"])) == TIMES
    assert tuple(re.findall("`(.*?)`", rows["session"].partition(";")[0])) == SESSION


def test_multi_turn_rows_come_by_time() -> None:
    trace = found("aiperf_multi.jsonl").trace
    assert [trace.request(at)[0] for at in range(2)] == [0, 500]
    assert trace.request(0)[4][:2] == trace.request(1)[4][:2]
    trace = found("dynamo_agentic.jsonl").trace
    assert [trace.request(at)[0] for at in range(2)] == [0, 1_201]


def test_a_chat_is_of_its_parents_session(tmp_path: Path) -> None:
    import json

    row = {"timestamp": 0.5, "input_length": 32, "output_length": 1, "hash_ids": [1, 2]}
    chats = [(5, -1), (6, 5), (7, -1), (8, 6)]
    text = "".join(
        json.dumps(row | {"chat_id": chat, "parent_chat_id": parent}) + "\n"
        for chat, parent in chats
    )
    (tmp_path / "t").write_text(text)
    trace = read(str(tmp_path / "t"), ReadOptions()).trace
    assert trace.columns()["session"].tolist() == [0, 0, 1, 0]
    assert trace.columns()["timestamp_ms"].tolist() == [500] * 4


@pytest.mark.parametrize(
    "reader", [one for one in READERS if one.native or one.lacks == "requests"]
)
def test_a_form_without_rows_refuses_by_name(reader: TraceReader) -> None:
    with pytest.raises(TraceError, match=rf"file: .*{re.escape(reader.title)}: "):
        reader.rows([], Given("file"))
