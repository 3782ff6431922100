"""Values as people write them: ids, times, orders, block sizes; and what is wrong with a row."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from kvframe.bench.traces import ReadOptions, Source, read
from kvframe.errors import ConfigError, TraceError

from .conftest import lines, row


@pytest.fixture
def made(tmp_path: Path) -> Any:
    """Reads bytes, or rows, as a trace."""

    def make(*rows: object, **options: Any) -> Source:
        data = rows[0] if isinstance(rows[0], bytes) else lines(*rows)
        (tmp_path / "t").write_bytes(data)
        return read(str(tmp_path / "t"), ReadOptions(**options))

    return make


def told(source: Source) -> str:
    return "; ".join(source.remarks)


def test_negative_and_64_bit_ids(made: Any) -> None:
    ids = [-1, 2**63 - 1, -(2**63)]
    trace = made(row(0, 1536, ids), row(1, 1536, [-1, 5, 6])).trace
    assert trace.request(1)[4] == [0, 3, 4]
    assert made(row(0, 512, [2**64 - 1]), row(1, 512, [0])).trace.requests == 2
    with pytest.raises(TraceError, match=r"t:2: .*negative in some rows and 2\^63 or more"):
        made(row(0, 512, [-1]), row(1, 512, [2**64 - 1]))
    assert made(row(0, 512, [2**64]), row(1, 512, [2**64])).trace.request(1)[4] == [0]
    many = [row(at, 512, [at]) for at in range(100)]  # the core reads them; it sees the last
    with pytest.raises(TraceError, match=r"t:101: hash_ids\[0\] = .*-9223372036854775808 and"):
        made(*many, row(100, 512, [2**64]))


def test_ids_that_are_texts(made: Any) -> None:
    rows = [
        {"timestamp": at, "seq_len": 600, "chunk_size": 256, "chunk_hashes": ["0xa", last]}
        for at, last in enumerate(["0xb", "0xc", "0xb"])
    ]
    source = made(*rows)
    assert (source.form, source.trace.block_size) == ("lmcache-hashes", 256)
    assert [source.trace.request(at)[4] for at in range(3)] == [[0, 1], [0, 2], [0, 1]]


def test_the_block_size_is_what_the_numbers_of_ids_say(made: Any) -> None:
    source = made(row(0, 100, range(7)), row(1, 640, range(40)))
    assert source.trace.block_size == 16
    assert "blocks are read as 16 tokens" in told(source)
    assert made(row(0, 1100, [1, 2, 3])).trace.block_size == 512
    with pytest.raises(TraceError, match=r"t:2: hash_ids has 5 ids, but input_length 1100"):
        made(row(0, 1100, [1, 2, 3]), row(1, 1100, range(5)))


@pytest.mark.parametrize(("unit", "wanted"), [("s", 2_000), ("ms", 2), ("us", 0), ("ns", 0)])
def test_the_unit_of_times(made: Any, unit: str, wanted: int) -> None:
    trace = made(row(2, 512, [1]), time_unit=unit).trace
    assert trace.request(0)[0] == wanted
    trace = made(row(2_000_000, 512, [1]), time_unit="us").trace
    assert trace.request(0)[0] == 2_000


def test_a_trace_of_seconds_where_hours_were_meant(made: Any) -> None:
    rows = [row(at, 51_200, range(100)) for at in range(60)]
    assert "come within 0.059 s; if the times are not milliseconds" in told(made(*rows))
    assert "come within" not in told(made(*rows, time_unit="s"))
    assert "come at the same time" in told(made(row(5, 512, [1]), row(5, 512, [1])))


def test_a_block_size_that_gives_no_blocks(made: Any) -> None:
    short = [row(1_000 * at, 100, []) for at in range(3)]
    assert "no prompt fills a block of 512 tokens" in told(made(*short))
    assert "2 of 3 prompts fill no block" in told(made(*short[:2], row(9_000, 1024, [1, 2])))


def test_ids_of_single_blocks_are_chained_and_that_is_said(made: Any) -> None:
    source = made(row(0, 1024, [16, 32]), row(1, 1024, [48, 32]))
    assert source.trace.request(1)[4] == [2, 3]
    assert "ids are of single blocks" in told(source)
    assert "single blocks" not in told(made(row(0, 1024, [16, 32]), row(1, 1024, [16, 48])))


def test_rows_out_of_order_name_the_option(made: Any) -> None:
    rows = [row(9, 512, [1]), row(3, 512, [2]), row(5, 512, [3])]
    with pytest.raises(TraceError, match=r"t:2: timestamp 3 .*--sort"):
        made(*rows)
    trace = made(*rows, sort=True).trace
    assert trace.columns()["timestamp_ms"].tolist() == [3, 5, 9]


def test_a_form_that_is_named_wins_and_a_wrong_one_is_refused(made: Any) -> None:
    rows = [row(at, 32, [1, 2], chat_id=at, parent_chat_id=-1) for at in (0, 1)]
    assert made(*rows).trace.request(1)[0] == 1_000
    source = made(*rows, form="mooncake", time_unit="ms")
    assert (source.form, source.trace.request(1)[0]) == ("mooncake", 1)
    with pytest.raises(ConfigError, match="--trace-format monncake; did you mean mooncake"):
        made(*rows, form="monncake")
    with pytest.raises(TraceError, match=r"t:1: no row of .*WEKA.*: no 'requests'"):
        made(*rows, form="weka")


def test_freeinference_sessions_are_put_in_order(made: Any) -> None:
    def session(name: str, start: int, *steps: tuple[int, list[int]]) -> dict[str, object]:
        calls = [
            {
                "step": at,
                "start_ms": when,
                "provider_tokens": {"prompt": 16 * len(ids) + 3, "completion": 9, "cached": 0},
                "block_ids": ids,
            }
            for at, (when, ids) in enumerate(steps)
        ]
        return {"session_id": name, "harness": "cli", "start_ms": start, "requests": calls}

    source = made(
        session("a", 10_000, (10_000, [1, 2]), (50_000, [1, 2, 3])),
        session("b", 20_000, (20_000, [1, 9])),
    )
    assert (source.form, source.trace.block_size) == ("freeinference", 16)
    columns = source.trace.columns()
    assert columns["timestamp_ms"].tolist() == [10_000, 20_000, 50_000]
    assert columns["session"].tolist() == [0, 1, 0]
    assert source.trace.classes == ["cli"]


def test_steps_go_on_from_as_much_as_is_not_new(made: Any) -> None:
    def step(prompt: int, new: int, answer: int, gap: float) -> dict[str, object]:
        return {"input": prompt, "new": new, "output": answer, "gap": gap, "kind": "tool"}

    source = made(
        {"id": "a", "steps": [step(40, 40, 20, 9.0), step(70, 14, 8, 2.5), step(50, 30, 1, 1.0)]},
        {"id": "b", "steps": [step(40, 40, 1, 0.0)]},
    )
    assert (source.form, source.trace.block_size) == ("steps", 16)
    assert any("a gap counts from the end" in remark for remark in source.remarks)
    own = "every session counts its times from its own start"
    assert any(own in remark for remark in source.remarks)
    alone = made({"id": "a", "steps": [step(40, 40, 20, 9.0), step(70, 14, 8, 2.5)]})
    assert not any(own in remark for remark in alone.remarks)
    rows = [source.trace.request(at) for at in range(4)]
    # The gap of a first step says nothing.
    assert [(time, tokens) for time, tokens, *_ in rows] == [
        (0, 40),
        (0, 40),
        (2_500, 70),
        (3_500, 50),
    ]
    first, other, second, third = (chain for *_, chain in rows)
    # 56 tokens go on: three blocks, of which the answer filled the third. Then 20: one block.
    assert (len(first), len(second), len(third)) == (2, 4, 3)
    assert second[:2] == first
    assert third[0] == first[0]
    assert set(third[1:]).isdisjoint(second)
    assert set(other).isdisjoint(first)


def test_weka_ids_hold_within_a_session(made: Any) -> None:
    call = {"t": 0.0, "type": "n", "in": 130, "out": 1, "hash_ids": [1, 2]}
    inside = {"t": 7.5, "type": "subagent", "agent_id": "x", "requests": [call | {"t": 0.5}]}
    one = {"id": "one", "block_size": 64, "hash_id_scope": "local", "requests": [call, inside]}
    source = made(one, one | {"id": "two"})
    trace = source.trace
    assert trace.columns()["timestamp_ms"].tolist() == [0, 0, 8_000, 8_000]
    assert trace.columns()["session"].tolist() == [0, 1, 2, 3]
    chains = [trace.request(at)[4] for at in range(4)]
    assert chains == [[0, 1], [2, 3], [0, 1], [2, 3]]
    assert "all start at once" in told(source)


def test_dynamo_records_are_put_in_order_of_arrival(made: Any) -> None:
    def ended(at: int, received: int, ids: list[int], **more: object) -> dict[str, object]:
        replay = {
            "trace_block_size": 64,
            "input_length": 64 * len(ids),
            "input_sequence_hashes": ids,
        }
        request = {"request_received_ms": received, "output_tokens": 3, "replay": replay}
        event = {"schema": "dynamo.request.trace.v1", "event_type": "request_end"}
        return event | {"event_time_unix_ms": at, "request": request} | more

    source = made(
        ended(9_000, 5_000, [2**63 + 1], agent_context={"session_id": "s"}),
        {"schema": "dynamo.request.trace.v1", "event_type": "tool_end", "event_time_unix_ms": 1},
        {"event": ended(9_500, 1_000, [2**63 + 1, 7])},
    )
    assert source.trace.columns()["timestamp_ms"].tolist() == [1_000, 5_000]
    assert source.trace.columns()["session"].tolist() == [-1, 0]


def test_flat_traces_of_libcachesim(made: Any, tmp_path: Path) -> None:
    records = [(1, 10, 3), (1, 11, 4), (2, 10, -1), (2, 11, -1)]
    data = b"".join(struct.pack("<IQIq", at, key, 1, after) for at, key, after in records)
    source = made(gzip.compress(data))
    assert (source.form, source.trace.requests) == ("oracle-general", 4)
    assert "an access is read as a prompt of one block" in told(source)
    assert [source.trace.request(at)[4] for at in range(4)] == [[0], [1], [0], [1]]
    named = made(b"time,obj,size\n1,a,5\n2,b,5\n3,a,5\n")
    assert [named.trace.request(at)[4] for at in range(3)] == [[0], [1], [0]]
    with pytest.raises(TraceError, match=r"t:5: the file ends inside a record"):
        made(data + b"\1\2\3", form="oracle-general")


def test_lcsllm_is_checked(made: Any) -> None:
    magic = (0x6C63736C6C6D0001).to_bytes(8, "little")
    with pytest.raises(TraceError, match="lcsllm of version 7: this kvframe reads version 1"):
        made(magic + (7).to_bytes(8, "little") + bytes(8176))
    with pytest.raises(TraceError, match="does not end with the magic number"):
        made(magic + (1).to_bytes(8, "little") + bytes(8176))
    with pytest.raises(TraceError, match="truncated"):
        made(magic + (1).to_bytes(8, "little") + bytes(100))


def test_a_gateways_table(made: Any, tokenizer: Path) -> None:
    asked = [{"role": "user", "content": "hello hello"}]
    body = json.dumps({"model": "m", "messages": asked}).replace('"', '""')
    answer = json.dumps({"usage": {"completion_tokens": 4}}).replace('"', '""')
    text = f'timestamp,request_json,response_json\n2026-01-01T00:00:00Z,"{body}","{answer}"\n'
    source = made(text.encode(), tokenizer=str(tokenizer), block_size=2)
    assert source.form == "gateway"
    assert source.trace.columns()["output_tokens"].tolist() == [4]


def test_a_conversation_is_a_request_for_each_answer(made: Any, tokenizer: Path) -> None:
    turns = [("user", "hi"), ("assistant", "hello"), ("user", "What"), ("assistant", "Sure")]
    talk = [{"role": role, "content": text} for role, text in turns]
    source = made({"conversation": talk}, tokenizer=str(tokenizer), block_size=1)
    first, second = source.trace.request(0), source.trace.request(1)
    assert (first[2], second[2], first[3], second[3]) == (1, 1, 0, 0)
    assert second[4][: len(first[4])] == first[4]
    assert second[0] - first[0] == 10_000
    assert "conversations follow one another" in told(source)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"token_ids": [-1]}, "t:2: no row of prompts as token ids: token_ids[0] = -1: must"),
        ({"token_ids": [1, 2**40]}, "token_ids[1] = 1099511627776: must be 0 to 2^32 - 1"),
        ({"token_ids": [1, 2**64]}, "token_ids[1] = 18446744073709551616: must be 0 to 2^32 - 1"),
        ({"token_ids": [1, 2.5]}, "token_ids = [1, 2.5]: must be a list of integers"),
        ({"token_ids": []}, "t:2: no row of prompts as token ids: token_ids = []: must be a list"),
        ({"x": 1}, "t:2: no row of prompts as token ids"),
        ({"token_ids": [1], "timestamp": "noon"}, "timestamp = 'noon': must be a number"),
        ({"token_ids": [1], "timestamp": -5}, "--sort"),
        ([1], "t:2: "),
    ],
)
def test_a_wrong_record_names_its_line(made: Any, bad: object, words: str) -> None:
    with pytest.raises(TraceError) as refusal:
        made({"token_ids": [1, 2], "timestamp": 3}, bad)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"input_length": "x"}, "input_length = 'x': must be a whole number of tokens"),
        ({"output_length": 1.5}, "output_length = 1.5: must be a whole number"),
        ({"isl": -1, "input_length": None}, "isl = -1: must be a whole number"),
        ({"timestamp": "x"}, "timestamp = 'x': must be a number, or a date"),
        ({"hash_ids": [1, 2.5]}, "hash_ids[1] = 2.5: must be an integer, a text or bytes"),
        ({"hash_ids": None, "block_hashes": [[]]}, "block_hashes[0] = []: must be"),
    ],
)
def test_a_wrong_value_is_named_with_its_key(made: Any, bad: Any, words: str) -> None:
    with pytest.raises(TraceError) as refusal:
        made({**row(0, 1024, [1, 2]), **bad})
    assert f"t:1: no row of Mooncake's JSONL: {words}" in str(refusal.value)


def test_token_ids_that_are_none_are_of_that_form_still(made: Any) -> None:
    with pytest.raises(TraceError, match="token_ids = 'hello': must be a list of integers"):
        made({"token_ids": "hello"})


def test_a_misspelt_time_is_named(made: Any) -> None:
    bad = row(0, 512, [1])
    bad["timestmp"] = bad.pop("timestamp")
    assert "'timestmp' may be a time: it is read where it is called timestamp" in told(made(bad))
