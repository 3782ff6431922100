"""The same trace as strangers keep it: other names, packings, encodings and kinds of table."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from kvframe.bench.traces import ReadOptions, Source, read
from kvframe.errors import ConfigError, TraceError

from .conftest import FORMS, lines, row

ROWS = [row(0, 1_300, [1, 2, 3]), row(3_000, 1_536, [1, 2, 4])]


def zipped(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside/trace.jsonl", data)
    return file.getvalue()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.compress,
    "zip": zipped,
    "crlf": lambda data: data.replace(b"\n", b"\r\n"),
    "bom": lambda data: b"\xef\xbb\xbf" + data,
    "no last line end": lambda data: data.rstrip(b"\n"),
    "blank lines": lambda data: b"\n\n" + data + b"\n",
}


def without(key: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in one.items() if name != key} for one in ROWS]


def named(**names: str) -> list[dict[str, Any]]:
    return [{names.get(name, name): value for name, value in one.items()} for one in ROWS]


def changed(**values: Any) -> list[dict[str, Any]]:
    return [one | {name: of(one) for name, of in values.items()} for one in ROWS]


CSV = "timestamp,input_length,output_length,hash_ids\n"
EQUAL: dict[str, bytes] = {
    "keys in another order": lines(*[dict(reversed(one.items())) for one in ROWS]),
    "other keys besides": lines(*[{"model": "m", "x": {"y": [1]}} | one for one in ROWS]),
    "other names": lines(
        *named(timestamp="ts", input_length="prompt_tokens", hash_ids="block_hashes")
    ),
    "camel case": lines(
        *named(input_length="inputLength", output_length="outputLength", hash_ids="hashIds")
    ),
    "no answers": lines(*without("output_length")),
    "no times": lines(*without("timestamp")),
    "times as texts": lines(*changed(timestamp=lambda one: str(one["timestamp"]))),
    "times as dates": lines(
        *changed(timestamp=lambda one: f"2024-05-10T00:00:0{one['timestamp'] // 1000}Z")
    ),
    "lengths as floats": lines(*changed(input_length=lambda one: float(one["input_length"]))),
    "ids as floats": lines(*changed(hash_ids=lambda one: [float(i) for i in one["hash_ids"]])),
    "ids as hashes": lines(*changed(hash_ids=lambda one: [f"{i:032x}" for i in one["hash_ids"]])),
    "ids of 128 bits": lines(*changed(hash_ids=lambda one: [2**100 + i for i in one["hash_ids"]])),
    "negative ids": lines(*changed(hash_ids=lambda one: [-i for i in one["hash_ids"]])),
    "one list": json.dumps(ROWS).encode(),
    "an indented list": json.dumps(ROWS, indent=2).encode(),
    "objects over many lines": "\n".join(json.dumps(one, indent=1) for one in ROWS).encode(),
    "CSV with lists": f'{CSV}0,1300,1,"[1, 2, 3]"\n3000,1536,1,"[1, 2, 4]"\n'.encode(),
    "CSV with spaces": f"{CSV}0,1300,1,1 2 3\n3000,1536,1,1 2 4\n".encode(),
    "Vidur's CSV": b"arrived_at,num_prefill_tokens,num_decode_tokens,block_hash_ids,block_size,"
    b'session_id\n0.0,1300,1,"[1, 2, 3]",512,\n3.0,1536,1,"[1, 2, 4]",512,\n',
}


def read_as(path: Path, data: bytes, **options: Any) -> Source:
    path.write_bytes(data)
    return read(str(path), ReadOptions(**options))


def facts(source: Source) -> tuple[object, ...]:
    trace = source.trace
    chains = [trace.request(at)[4] for at in range(trace.requests)]
    return source.form, trace.block_size, trace.columns()["input_tokens"].tolist(), chains


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("name", ["aiperf_multi.jsonl", "bailian.jsonl", "libcachesim.csv"])
def test_packings_and_line_ends_change_nothing(tmp_path: Path, packing: str, name: str) -> None:
    data = (FORMS / name).read_bytes()
    found = read_as(tmp_path / "file.xyz", PACKED[packing](data))
    assert facts(found) == facts(read(str(FORMS / name), ReadOptions()))


@pytest.mark.parametrize("variant", EQUAL)
def test_the_same_requests(tmp_path: Path, variant: str) -> None:
    found = read_as(tmp_path / "t.dat", EQUAL[variant])
    assert facts(found) == ("mooncake", 512, [1_300, 1_536], [[0, 1, 2], [0, 1, 3]])
    times = found.trace.columns()["timestamp_ms"]
    assert times[1] - times[0] == (1_000 if variant == "no times" else 3_000)
    assert ("one second apart" in "".join(found.remarks)) == (variant == "no times")


REFUSED = {
    b"": "no requests: the file is empty",
    b"\n \n": "no requests: only blank lines",
    b"[]\n": "no requests: JSON without objects",
    b'{"timestamp": NaN, "input_length": 5, "hash_ids": []}\n': "t:1: not JSON",
    b'{"timestamp": 0, "input_length": 1300, "hash_ids": [1, 2': "t:1: not JSON",
    lines(*without("input_length")): "t:1: .*no input_length",
    b"timestamp,input_length,hash_ids\n5\n": "t:2: 1 columns: the first row names 3",
    lines(*ROWS)[:-20]: "t:2: truncated JSON",
    lines(*ROWS).decode().encode("utf-16"): "is text in UTF-16: write it as UTF-8",
    b"<!DOCTYPE html><html>404</html>": "is a web page",
    b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n": "Git LFS pointer",
    gzip.compress(lines(*ROWS))[:-9]: "the file is truncated",
    bytes(range(256)) * 4: "binary data of no form that is known",
    (0x6C63736C6C6D0002).to_bytes(8, "little") + bytes(9_000): "lcsllm of version 2",
    lines(
        {"schema": "dynamo.request.trace.v1", "event_type": "request_end", "request": {"a": 1}}
    ): "no requests: requests without hashes .* are left out",
}


@pytest.mark.parametrize("data", REFUSED, ids=[*REFUSED.values()])
def test_what_it_is_not(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(TraceError, match=REFUSED[data]):
        read_as(tmp_path / "t", data)


def test_a_folder_of_objects_over_any_lines(tmp_path: Path) -> None:
    call = {"t": 0.0, "in": 130, "out": 5, "hash_ids": [1, 2]}
    folder = tmp_path / "sessions"
    folder.mkdir()
    for name, indent in (("a", None), ("b", 1)):
        session = {"id": name, "block_size": 64, "requests": [call]}
        (folder / f"{name}.json").write_text(json.dumps(session, indent=indent))
    assert facts(read(str(folder), ReadOptions()))[:3] == ("weka", 64, [130, 130])


def test_a_conversation_without_messages_is_passed_over(tmp_path: Path, tokenizer: Path) -> None:
    talks = [{"id": "a", "conversations": []},
             {"id": "b", "conversations": [{"from": "human", "value": "hi " * 20}]}]  # fmt: skip
    found = read_as(tmp_path / "t", lines(*talks), tokenizer=str(tokenizer))
    assert (found.form, found.trace.requests) == ("chat", 1)


def turns(count: int, **also: Any) -> dict[str, Any]:
    """A row with a history of so many questions, all but the last answered."""
    said = [{"role": ("user", "assistant")[at % 2], "content": "hi"} for at in range(2 * count - 1)]
    return {"timestamp": 10 * count, "messages": said} | also


def test_a_growing_history_with_counts_is_a_request_a_row(tmp_path: Path, tokenizer: Path) -> None:
    rows = [turns(n, session_id="a", completion_tokens=7) for n in (1, 2, 3)]
    found = read_as(tmp_path / "t", lines(*rows), tokenizer=str(tokenizer))
    columns = found.trace.columns()
    assert (found.form, columns["output_tokens"].tolist()) == ("openai", [7, 7, 7])
    assert columns["session"].tolist() == [0, 0, 0]


def test_rows_that_became_more_requests_are_told(tmp_path: Path, tokenizer: Path) -> None:
    rows = [turns(n, id="a") for n in (1, 2, 3)]
    found = read_as(tmp_path / "t", lines(*rows), tokenizer=str(tokenizer))
    assert (found.form, found.trace.requests) == ("chat", 6)
    assert "3 rows became 6 requests, one for each answer; --trace-format openai" in " ".join(
        found.remarks
    )
    read = read_as(tmp_path / "t", lines(*rows), tokenizer=str(tokenizer), form="openai")
    assert read.trace.requests == 3
    assert "--trace-format" not in " ".join(read.remarks)


def test_sessions_in_metadata_and_tools(tmp_path: Path, tokenizer: Path) -> None:
    named = {"metadata": {"session_id": "a"}}
    rows = [turns(1, usage={}, **named), {"timestamp": 11, "body": turns(1, **named)}]
    found = read_as(tmp_path / "t", lines(*rows), tokenizer=str(tokenizer)).trace.columns()
    assert found["session"].tolist() == [0, 0]
    tools = [{"type": "function", "function": {"name": "weather"}}]
    tooled = [turns(n, usage={}, tools=tools) for n in (1, 2)]
    more = read_as(tmp_path / "t", lines(*tooled), tokenizer=str(tokenizer)).trace.columns()
    assert more["input_tokens"][0] > found["input_tokens"][0] + 10


@pytest.mark.parametrize("name", ["nosuch.json", "./nosuch", "/nosuch/folder"])
def test_a_tokenizer_that_is_a_path_is_not_sought_on_the_hub(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"^--tokenizer {name}: no such file or folder$"):
        read_as(tmp_path / "t", lines(turns(1)), tokenizer=name)


def test_seconds_since_1970_are_no_milliseconds(tmp_path: Path) -> None:
    rows = [one | {"timestamp": 1_715_299_200 + at} for at, one in enumerate(ROWS)]
    found = read_as(tmp_path / "t", lines(*rows))
    assert "look like seconds since 1970" in "".join(found.remarks)
    assert not read_as(tmp_path / "t", lines(*rows), time_unit="s").remarks


def chat(name: int, parent: int, at: float) -> dict[str, Any]:
    return row(at, 32, [1, 2], chat_id=name, parent_chat_id=parent)


@pytest.mark.parametrize("also", [{}, {"output_length": 1.0}])
def test_sorted_by_the_core_and_row_by_row(tmp_path: Path, also: dict[str, Any]) -> None:
    """Bailian's rows, natively and, with a float, not; a parent may stand below its chat."""
    rows = [
        one | also for one in (chat(1, 0, 2.5), chat(0, -1, 0.5), chat(2, 1, 9), chat(7, -1, 1))
    ]
    with pytest.raises(TraceError, match=r"t:2: .*--sort"):
        read_as(tmp_path / "t", lines(*rows))
    trace = read_as(tmp_path / "t", lines(*rows), sort=True).trace
    columns = trace.columns()
    assert columns["timestamp_ms"].tolist() == [500, 1_000, 2_500, 9_000]
    assert columns["session"].tolist() == [0, 1, 0, 0]


def test_a_binary_form_is_sorted_too(tmp_path: Path) -> None:
    from kvframe.cli import main

    (tmp_path / "t").write_bytes(lines(*ROWS))
    packed = tmp_path / "t.lcsllm"
    with pytest.raises(SystemExit):
        main(["trace", "convert", str(tmp_path / "t"), "-o", str(packed)])
    data = bytearray(packed.read_bytes())
    request, following = 8_192, 8_192 + 48 + 3 * 16
    data[request + 16 : request + 24], data[following + 16 : following + 24] = (
        data[following + 16 : following + 24],
        data[request + 16 : request + 24],
    )
    with pytest.raises(TraceError, match="--sort"):
        read_as(packed, bytes(data))
    trace = read_as(packed, bytes(data), sort=True).trace
    assert trace.columns()["input_tokens"].tolist() == [1_536, 1_300]


def test_the_tenant_of_a_log_is_kept(tmp_path: Path, tokenizer: Path) -> None:
    """As the class of its requests: a tenant before a user, from the row, its metadata, the request
    or the request's metadata.
    """
    marks: dict[str, Any] = {"usage": {}}
    rows = [
        turns(1, user="a", **marks),
        turns(2, metadata={"tenant_id": 7}, user="b", **marks),
        {"timestamp": 30, "body": turns(3, user="a")},
        {"timestamp": 40, "body": turns(4, metadata={"tenant": "c"})},
        turns(5, user={"id": "d"}, **marks),
    ]
    trace = read_as(tmp_path / "t", lines(*rows), tokenizer=str(tokenizer)).trace
    assert trace.classes == ["a", "7", "c"]
    assert trace.class_numbers().tolist() == [1, 2, 1, 3, 0]
