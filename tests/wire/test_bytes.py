"""What is encoded is what real engines send, byte by byte."""

from __future__ import annotations

import msgspec
import pytest

from kvframe import UsageError
from kvframe.wire import AllBlocksCleared, BlockRemoved, BlockStored, Event, decode, encode
from kvframe.wire.events import MAX_BYTES, MAX_EVENTS, Form

HASH = 0x1122334455667788
STORED = BlockStored([HASH], None, [1, 2, 3, 4], 4, None, "GPU", None)
REMOVED = BlockRemoved([HASH], "GPU")
HEAD = "93cb3ff800000000000091"

GOLDEN: list[tuple[Event, Form, str]] = [
    (
        STORED,
        "map",
        "88a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391cf1122334455667788b1706172"
        "656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739401020304aa626c6f636b5f73697a6504a76c6f"
        "72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c000",
    ),
    (
        REMOVED,
        "map",
        "83a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391cf1122334455667788a66d65"
        "6469756da347505500",
    ),
    (AllBlocksCleared(), "map", "81a474797065b0416c6c426c6f636b73436c656172656400"),
    (
        STORED,
        "array",
        "9aab426c6f636b53746f72656491cf1122334455667788c0940102030404c0a3475055c0c0c000",
    ),
    (REMOVED, "array", "94ac426c6f636b52656d6f76656491cf1122334455667788a3475055c000"),
    (AllBlocksCleared(), "array", "91b0416c6c426c6f636b73436c656172656400"),
]
"""Written by the struct definitions of vLLM 0.33 and, as arrays, of the versions before 0.23."""


@pytest.mark.parametrize(("event", "form", "body"), GOLDEN)
def test_bytes_are_those_of_vllm(event: Event, form: Form, body: str) -> None:
    # msgspec may write the head of a map whose defaults are left out as map 16: the same map.
    told = encode([event], time=1.5, form=form).hex().replace("de0008", "88", 1)
    assert told == HEAD + body
    batch = decode(bytes.fromhex(HEAD + body))
    assert (batch.time, batch.rank, len(batch.events), batch.unknown) == (1.5, 0, 1, 0)


def test_all_fields_come_back() -> None:
    event = BlockStored([1, 2], 7, [1, 2, 3, 4], 2, None, "CPU", "L", [["L", ["cat", -1]], None])
    event.group_idx, event.kv_cache_spec_kind, event.cache_salt = 1, "full_attention", "s"
    (read,) = decode(encode([event], rank=3)).events
    assert read[:5] == ([1, 2], 7, [1, 2, 3, 4], 2, "CPU")
    assert read[5:] == ("L", None, [["L", ["cat", -1]], None], 1, "full_attention", None, "s")
    (array,) = decode(encode([event], form="array")).events
    assert array[:9] == read[:9]


def test_what_cannot_be_encoded_is_refused() -> None:
    with pytest.raises(UsageError, match="form = 'list': must be map or array"):
        encode([], form="list")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="cannot be encoded"):
        encode([BlockRemoved([1 << 64], "GPU")])
    with pytest.raises(UsageError, match=r"must be of kvframe\.wire"):
        encode(["cleared"], form="array")  # type: ignore[list-item]


def test_a_message_is_bounded_in_size_number_and_depth() -> None:
    with pytest.raises(UsageError, match=f"must be at most {MAX_BYTES}"):
        decode(bytes(MAX_BYTES + 1))
    many = msgspec.msgpack.encode([1.5, [0] * (MAX_EVENTS + 1), 0])
    with pytest.raises(UsageError, match="length <= 65536"):
        decode(many)
    deep = msgspec.Raw(b"\x91" * 100_000 + b"\xc0")
    stored = {"type": "BlockStored", "block_hashes": [1], "extra_keys": deep}
    wide = {**stored, "extra_keys": msgspec.Raw(b"\xdd\x00\x50\x00\x00" + b"\x90" * 0x500000)}
    good = {"type": "AllBlocksCleared"}
    with pytest.raises(UsageError, match="recursion"):
        decode(msgspec.msgpack.encode([1.5, [stored, good], 0]))
    batch = decode(msgspec.msgpack.encode([1.5, [wide, good], 0]))
    assert [type(event).__name__ for event in batch.events] == ["Cleared"]
    assert "at most 4194304 bytes" in batch.wrong[0]
