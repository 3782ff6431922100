"""KV events as vLLM and SGLang send them: maps and arrays fill an index alike."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest

from kvframe import MMItem, RouterIndex, UsageError
from kvframe.wire import apply, decode

STORED = ["block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium"]

REAL = {
    "vLLM 0.33 map": (
        "93cb3ff800000000000091de0008a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391cf"
        "1122334455667788b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739401020304aa626c6f"
        "636b5f73697a6504a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c000"
    ),
    "array": (
        "93cb3ff8000000000000919aab426c6f636b53746f72656491cf1122334455667788c0940102030404c0a3475055"
        "c0c0c000"
    ),
}
"""Bytes from the struct definitions of these engines: one block of the tokens 1 to 4."""


def events() -> list[dict[str, Any]]:
    """A stream: three blocks, a child, an adapter's, a salted one, a copy on the host, removals."""
    tokens = list(range(100))

    def stored(hashes: list[int], parent: int | None, start: int, **more: Any) -> dict[str, Any]:
        ids = tokens[start : start + 4 * len(hashes)] if more.pop("tokens", True) else []
        base = dict(zip(STORED, [hashes, parent, ids, 4, None, "GPU"], strict=True))
        return {"type": "BlockStored", **base, **more}

    return [
        stored([1, 2, 3], None, 0),
        stored([-4], 3, 12),
        stored([11], None, 0, lora_name="L"),
        stored([12], None, 0, extra_keys=[["dynamo-cache-salt:s"]]),
        stored([1, 2], None, 0, medium="CPU", tokens=False),
        {"type": "BlockRemoved", "block_hashes": [-4], "medium": "GPU"},
    ]


def as_array(event: dict[str, Any]) -> list[Any]:
    if event["type"] != "BlockStored":
        return list(event.values())
    return [event.get(name) for name in ("type", *STORED, "lora_name", "extra_keys")]


def filled(stream: list[Any]) -> RouterIndex:
    index = RouterIndex(block_size=4)
    index.add_worker(7)
    for event in stream:
        apply(index, 7, msgspec.msgpack.encode([1.5, [event], 0]))
    return index


@pytest.mark.scenario("T43")
def test_maps_and_arrays_make_the_same_index() -> None:
    maps = filled(events())
    arrays = filled([as_array(event) for event in events()])
    prompt = list(range(20))
    for index in (maps, arrays):
        assert index.match_tokens(prompt)[7] == (3, 3, 3, 3)
        assert index.match_tokens(prompt, lora_name="L")[7].gpu == 1
        assert index.match_tokens(prompt, cache_salt="s")[7].gpu == 1
        assert index.match_tokens(prompt, cache_salt="t") == {}
        index.removed(7, [1, 2, 3], medium="GPU")
        assert index.match_tokens(prompt)[7] == (0, 2, 2, 2)
    assert maps.counts() == arrays.counts()
    cleared = msgspec.msgpack.encode([1.5, [["AllBlocksCleared"]], 0])
    apply(maps, 7, cleared)
    assert maps.match_tokens(prompt) == {}


@pytest.mark.scenario("T43")
@pytest.mark.parametrize("form", REAL)
def test_bytes_of_real_engines_are_read(form: str) -> None:
    index = RouterIndex(block_size=4)
    index.add_worker(0)
    batch = apply(index, 0, bytes.fromhex(REAL[form]))
    assert (batch.time, batch.rank, batch.unknown) == (1.5, 0, 0)
    assert index.match_tokens([1, 2, 3, 4, 5])[0].gpu == 1


def test_what_cannot_be_read_is_told_and_what_is_not_known_left_out() -> None:
    index = RouterIndex(block_size=4)
    for payload in (b"", b"\xc1", msgspec.msgpack.encode({"a": 1}), msgspec.msgpack.encode([1, 2])):
        with pytest.raises(UsageError):
            decode(payload)
    batch = decode(msgspec.msgpack.encode([1, [["Later", 1], {"type": "?"}, 3], None]))
    assert (batch.events, batch.unknown, batch.rank) == ([], 3, 0)
    with pytest.raises(UsageError, match=r"BlockStored: .*block_hashes"):
        apply(index, 0, msgspec.msgpack.encode([1, [{"type": "BlockStored"}]]))


@pytest.mark.scenario("T43")
@pytest.mark.parametrize(
    "event",
    [
        {"type": ["BlockStored"]},
        {"type": {}},
        [["BlockStored"]],
        [],
        "BlockStored",
        {"type": "BlockStored", "block_hashes": None},
        {"type": "BlockStored", "block_hashes": [None]},
        {"type": "BlockStored", "block_hashes": [1], "token_ids": [[1], [1, 2]]},
        {"type": "BlockStored", "block_hashes": [1], "medium": 5},
        {"type": "BlockStored", "block_hashes": [1], "lora_name": 5},
        {"type": "BlockStored", "block_hashes": [1], "extra_keys": {"a": 1}},
        {"type": "BlockStored", "block_hashes": [1], "extra_keys": [5]},
    ],
)
def test_what_no_engine_sends_is_left_out_or_refused(event: Any) -> None:
    """Bytes come from elsewhere: whatever they are, one typed error or none."""
    index = RouterIndex(block_size=4)
    index.add_worker(7)
    with contextlib.suppress(UsageError):
        apply(index, 7, msgspec.msgpack.encode([1.5, [event], 0]))
    assert len(index) == 0


@pytest.mark.parametrize("payload", [b"", b"\x91" * 100_000, b"\x93\xcb", b"\xc0"])
def test_a_batch_that_cannot_be_read(payload: bytes) -> None:
    with pytest.raises(UsageError, match="cannot be read") as caught:
        decode(payload)
    assert len(str(caught.value)) < 250


def stored(index: RouterIndex, hashes: list[int], parent: int | None = None, **more: Any) -> None:
    """Tells of blocks of the tokens 0, 1, 2, ... from a sender without keywords of its own."""
    start = 0 if parent is None else 4
    ids = list(range(start, start + 4 * len(hashes)))
    base = dict(zip(STORED, [hashes, parent, ids, 4, None, "GPU"], strict=True))
    tell(index, {"type": "BlockStored", **base, **more})


def tell(index: RouterIndex, *told: dict[str, Any]) -> None:
    apply(index, 7, msgspec.msgpack.encode([1.5, told, 0]))


@pytest.mark.scenario("VT20", "VT19")
@pytest.mark.parametrize("whole", ["full_attention", "mla_attention", "FullAttention"])
def test_a_window_drops_no_block_that_full_attention_has(whole: str) -> None:
    """In vLLM groups have numbers, and kinds where blocks are stored (Dynamo #8751)."""
    index = RouterIndex(block_size=4)
    index.add_worker(7)
    kinds = {0: "sliding_window", 1: whole, 2: "mamba"}
    for group, kind in kinds.items():
        stored(index, [1, 2], group_idx=group, kv_cache_spec_kind=kind)
    for group in (0, 2):
        tell(index, {"type": "BlockRemoved", "block_hashes": [1, 2], "group_idx": group})
    assert index.match_tokens(range(9))[7].gpu == 2
    tell(index, {"type": "BlockRemoved", "block_hashes": [2], "group_idx": 1})
    assert index.match_tokens(range(9))[7].gpu == 1


@pytest.mark.scenario("VT20")
def test_without_kinds_the_first_group_counts() -> None:
    index = RouterIndex(block_size=4)
    index.add_worker(7)
    array = ["BlockStored", [1, 2], None, list(range(8)), 4, None, "GPU", None, None]
    for group in (0, 1):
        apply(index, 7, msgspec.msgpack.encode([1.5, [[*array, group]], 0]))
    apply(index, 7, msgspec.msgpack.encode([1.5, [["BlockRemoved", [1, 2], "GPU", 1]], 0]))
    assert index.match_tokens(range(9))[7].gpu == 2
    apply(index, 7, msgspec.msgpack.encode([1.5, [["BlockRemoved", [1, 2], "GPU", 0]], 0]))
    assert index.match_tokens(range(9)) == {}


@pytest.mark.scenario("V18", "T29", "V16")
def test_a_bare_salt_and_a_numbered_adapter_set_tenants_apart() -> None:
    """In vLLM the salt comes behind the adapter's name; earlier ones give the adapter's number."""
    index = RouterIndex(block_size=4)
    index.add_worker(7)
    stored(index, [1], extra_keys=[["s"]])
    stored(index, [2], extra_keys=[["L", ["image", 0], "t"]], lora_name="L")
    stored(index, [3], extra_keys=[["M"]], lora_name="M")
    stored(index, [4], lora_id=5)
    prompt = range(5)
    assert index.match_tokens(prompt) == {}
    assert index.match_tokens(prompt, cache_salt="L", lora_name="L") == {}
    stored(index, [5], cache_salt="u", extra_keys=[["dynamo-cache-salt:u"]])
    stored(index, [6], lora_id=6, extra_keys=[[6]])
    for salt, adapter in (("s", None), (None, "M"), (None, "5"), ("u", None), (None, "6")):
        assert index.match_tokens(prompt, cache_salt=salt, lora_name=adapter)[7].gpu == 1
    image = MMItem(0, 1, b"image")
    assert index.match_tokens(prompt, cache_salt="t", lora_name="L", mm_items=[image])[7].gpu == 1
    assert index.match_tokens(prompt, cache_salt="t", lora_name="L") == {}


@pytest.mark.scenario("VT10", "MK-B16")
def test_images_of_the_same_placeholders_are_told_apart() -> None:
    """The tokens of two images are the same; vLLM's events say which it is, block by block."""
    index = RouterIndex(block_size=4)
    index.add_worker(7)
    ids = [1, 2, *[99] * 7, 3, 4, 5]

    def tell_of(hashes: list[int], image: str, **more: Any) -> None:
        keys: list[Any] = [[[image, 2]], [[image, -2]], [[image, -6]]]
        for key in keys:
            key[:0] = [more["lora_name"]] if more else []
        stored(index, hashes, token_ids=ids, extra_keys=keys, **more)

    tell_of([1, 2, 3], "cat")
    cat, dog = (MMItem(2, 9, image) for image in (b"cat", b"dog"))
    assert index.match_tokens(ids, mm_items=[cat])[7].gpu == 3
    assert index.match_tokens(ids, mm_items=[dog]) == index.match_tokens(ids) == {}
    assert index.match_tokens(ids, mm_items=[MMItem(1, 9, b"cat")]) == {}
    tell_of([11, 12, 13], "dog", lora_name="L")
    assert index.match_tokens(ids, mm_items=[dog], lora_name="L")[7].gpu == 3
    assert index.match_tokens(ids, mm_items=[dog]) == {}
    # The text before an image is shared, and a block behind it has no keys of its own.
    stored(index, [21, 22, 23], token_ids=ids, extra_keys=[None, [["cat", 1]], None])
    later = MMItem(5, 7, b"cat")
    assert index.match_tokens(ids, mm_items=[later])[7].gpu == 3
    assert index.match_tokens(ids)[7].gpu == 1
    assert index.match_tokens(ids, mm_items=[later, MMItem(9, 10, b"dog")])[7].gpu == 2
    # Two in a block, and one that ends where the next block begins.
    stored(index, [31], token_ids=ids[:4], extra_keys=[[["a", 0], ["b", 2]]])
    both = [MMItem(2, 4, b"b"), MMItem(0, 2, b"a")]
    assert index.match_tokens(ids, mm_items=both)[7].gpu == 1


@pytest.mark.scenario("VT10", "MK-B16")
@pytest.mark.parametrize(
    "keys",
    [
        [["image"], None],  # before vLLM 0.15: bare, as a salt would be
        [None, ["image"]],
        [None, [b"digest of embeddings"]],
        [None, [["image", 0, "of later versions"]]],
        [None, [{"image": 1}]],
        [None, ["L", "image"]],
        [None, 5],
        [None],
        [None] * 3,
        {"0": ["image"]},
        "image",
        7,
    ],
)
def test_what_else_sets_blocks_apart_is_a_miss(keys: Any) -> None:
    index = RouterIndex(block_size=4)
    index.add_worker(7)
    with contextlib.suppress(UsageError):
        stored(index, [1, 2], extra_keys=keys)
    assert index.match_tokens(range(9)).get(7, (0,))[0] <= 1


@pytest.mark.scenario("V15")
@pytest.mark.parametrize("size", [2, 8])
def test_blocks_of_another_size_are_counted_and_not_placed(size: int) -> None:
    index = RouterIndex(block_size=4)
    index.add_worker(7)
    ids = list(range(2 * size))
    stored(index, [1, 2], token_ids=ids, block_size=size)
    stored(index, [1, 2], token_ids=[], block_size=size, medium="CPU")
    assert (index.match_tokens(ids), len(index)) == ({}, 0)
    assert index.counts().unplaced == 4
    assert index.stored(7, [1], None, [0, 1, 2, 3], block_size=4) == 1


@pytest.mark.scenario("F22")
def test_the_ranks_of_a_worker_do_not_clear_each_other() -> None:
    index = RouterIndex(block_size=4)
    index.add_worker(7)
    block = ["BlockStored", [1], None, [1, 2, 3, 4], 4, None, "GPU"]

    def tell_of(rank: int | None, *events: Any) -> None:
        apply(index, 7, msgspec.msgpack.encode([1.5, events, rank]))

    tell_of(0, block)
    tell_of(1, block)
    prompt = [1, 2, 3, 4, 5]
    assert list(index.match_tokens(prompt, ranks=True)) == [(7, 0), (7, 1)]
    tell_of(1, ["AllBlocksCleared"])
    assert list(index.match_tokens(prompt, ranks=True)) == [(7, 0)]
    tell_of(2, ["BlockRemoved", [1], "GPU"])
    assert index.match_tokens(prompt)[7].gpu == 1
    tell_of(None, ["AllBlocksCleared"])
    assert index.match_tokens(prompt) == {}
    for rank in (-1, 1 << 16):
        with pytest.raises(UsageError, match="a batch of rank"):
            tell_of(rank, block)


@pytest.mark.scenario("F22")
@pytest.mark.parametrize("medium", ["paper", "NVME", "", 5, ["GPU"], {}])
def test_no_event_is_lost_for_its_medium(medium: Any) -> None:
    index = RouterIndex(block_size=4)
    index.add_worker(7)
    event = {"type": "BlockStored", "block_hashes": [1], "token_ids": [1, 2, 3, 4]}
    tell(index, {**event, "medium": medium})
    reach = index.match_tokens([1, 2, 3, 4, 5])[7]
    assert reach == ((0, 0, 0, 1) if medium else (1, 1, 1, 1))
    assert index.counts().unknown_medium == bool(medium)
    tell(index, {"type": "BlockRemoved", "block_hashes": [1], "medium": medium})
    assert index.match_tokens([1, 2, 3, 4, 5]) == {}


def test_one_wrong_event_costs_the_others_nothing() -> None:
    index = RouterIndex(block_size=4)
    index.add_worker(7)
    stored(index, [1, 2])
    with pytest.raises(UsageError, match=r"BlockRemoved: .*block_hashes"):
        tell(
            index,
            {"type": "BlockRemoved", "block_hashes": ["one"], "medium": "GPU"},
            {"type": "BlockRemoved", "block_hashes": [2], "medium": "GPU"},
        )
    assert index.match_tokens(range(9))[7].gpu == 1
    stored(index, [3], 1, locality="REMOTE")
    assert index.match_tokens(range(9))[7].gpu == 1
