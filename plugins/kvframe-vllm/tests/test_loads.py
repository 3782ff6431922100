"""Loads that are made of a trace. vLLM is not needed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from kvframe_vllm.replay.loads import BLOCK, LONGEST, REQUESTS, of_trace

from kvframe.errors import TraceError


def test_prompts_share_what_a_traces_requests_share(tmp_path: Path) -> None:
    rows = [[1, 2, 3], [1, 2, 4], [], [*range(1, 400)]]
    lines = [
        {"timestamp": at, "input_length": 512 * len(ids), "output_length": 1, "hash_ids": ids}
        for at, ids in enumerate(rows)
    ]
    trace = tmp_path / "mine.jsonl"
    trace.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    first, second, long = of_trace(str(trace))()
    assert [len(first), len(second)] == [3 * BLOCK, 3 * BLOCK]
    assert first[: 2 * BLOCK] == second[: 2 * BLOCK]
    assert first[2 * BLOCK :] != second[2 * BLOCK :]
    assert len(long) == LONGEST // BLOCK * BLOCK
    assert long[: 3 * BLOCK] == first


def test_a_larger_load_goes_on_where_the_smaller_one_ends() -> None:
    load = of_trace("conversation")
    small, large = load(), load(2)
    assert (len(small), len(large)) == (REQUESTS, 2 * REQUESTS)
    assert large[:REQUESTS] == small


def test_a_trace_that_is_not_there_is_refused() -> None:
    with pytest.raises(TraceError, match=r"nowhere.jsonl: no such file"):
        of_trace("nowhere.jsonl")()
