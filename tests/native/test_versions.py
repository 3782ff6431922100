"""Tables of other versions, other sizes and no sense are refused by name; the two sides agree."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from kvframe import AbiError, KVCacheManager, PolicyError
from kvframe.native import ACCESS, COLUMNS, NONE, NativePolicy

from . import helpers
from .helpers import capsule, functions, manager, of, table

SIZE = 128
WORDS = SIZE // 4
MAGIC, VERSION, BYTES, WANTS, WINDOW, RESERVED = 0, 1, 2, 3, 4, 7
INITIAL, CREATE, VICTIM, SCORE = 8, 10, 28, 30
HERE = "test (kvframe-test 3.2.1): "


def copied(symbol: str, **changes: int) -> Any:
    """A table of lru.c with other words; kept by whoever holds it."""
    words = (ctypes.c_uint32 * WORDS).from_buffer_copy(ctypes.string_at(table(symbol), SIZE))
    for name, value in changes.items():
        words[globals()[name.upper()]] = value
    return words


def made(words: Any, name: str = "kvframe.eviction.v1") -> KVCacheManager:
    return manager(lambda: NativePolicy(capsule(ctypes.addressof(words), name)))


def test_python_c_and_rust_agree() -> None:
    layout = (ctypes.c_uint32 * 9).in_dll(helpers.compiled(), "layout")
    size, config, use, wants, initial, create, victim, score, columns = layout
    assert (size, config) == (SIZE, 24)
    assert use == ACCESS.itemsize
    assert (wants, initial, create) == (4 * WANTS, 4 * INITIAL, 4 * CREATE)
    assert (victim, score) == (4 * VICTIM, 4 * SCORE)
    assert columns == len(COLUMNS)
    assert made(copied("order")).options()["policy"] == "test"


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"version": 2}, f"ABI 2.0 ({SIZE} bytes)"),
        ({"version": 0}, f"ABI 0.0 ({SIZE} bytes)"),
        ({"version": 1 | 3 << 16}, f"ABI 1.3 ({SIZE} bytes)"),
        ({"bytes": SIZE - 8}, f"ABI 1.0 ({SIZE - 8} bytes)"),
        ({"bytes": SIZE + 8}, f"ABI 1.0 ({SIZE + 8} bytes)"),
        ({"bytes": 0}, "ABI 1.0 (0 bytes)"),
        ({"magic": 0xDEADBEEF}, "no table: magic 0xdeadbeef, not 0x4546564b"),
    ],
)
def test_another_version_is_refused_by_name(changes: dict[str, int], found: str) -> None:
    before = helpers.compiled().states()
    needed = f"ABI 1.0 ({SIZE} bytes)"
    with pytest.raises(AbiError) as caught:
        made(copied("order", **changes))
    error = caught.value
    assert str(error).startswith(f"{HERE}it brings {found}; this kvframe needs {needed}")
    assert (error.plugin, error.version) == ("test", "3.2.1")
    assert (error.found, error.needed) == (found, needed)
    assert helpers.compiled().states() == before


@pytest.mark.parametrize("name", ["kvframe.eviction.v0", "kvframe.eviction.v2", "numpy.array"])
def test_a_capsule_of_another_name_is_not_looked_into(name: str) -> None:
    with pytest.raises(AbiError) as caught:
        manager(lambda: NativePolicy(capsule(1, name)))  # where nobody may read
    assert caught.value.found == f'a capsule named "{name}"'
    assert '"kvframe.eviction.v1", ABI 1.0' in caught.value.needed


@pytest.mark.parametrize("abi", [(2, 0), (1, 1), (0, 9)])
def test_functions_say_their_version(abi: tuple[int, int]) -> None:
    named = functions(victim=lambda *_: NONE)
    with pytest.raises(AbiError) as caught:
        manager(lambda: NativePolicy.of_functions(named, abi=abi))
    assert caught.value.found == f"ABI {abi[0]}.{abi[1]} ({SIZE} bytes)"


@pytest.mark.parametrize(
    ("symbol", "changes", "what"),
    [
        ("order", {"victim": 0, "score": 0}, "neither victim nor score"),
        ("order", {"wants": 1 << 3}, "wants columns, which only score gets"),
        ("order", {"wants": 1 << 17}, "has no insert"),
        ("order", {"wants": 1 << 12}, "bits 0x1000 mean nothing"),
        ("order", {"reserved": 1}, "reserved = 1"),
        ("order", {"window": 64}, "a window, which only score has"),
        ("order", {"initial": 64}, "an initial state of 0 bytes"),
    ],
)
def test_a_table_without_sense_is_refused(symbol: str, changes: dict[str, int], what: str) -> None:
    words = copied(symbol, **changes)
    if changes.get("victim") == 0:
        words[VICTIM + 1] = words[SCORE + 1] = 0
    with pytest.raises(PolicyError, match=what) as caught:
        made(words)
    assert str(caught.value).startswith(HERE)
    assert not isinstance(caught.value, AbiError)


def nothing(*_: object) -> int:
    return 0


@pytest.mark.parametrize(
    ("bodies", "more", "what"),
    [
        ({"victim": nothing, "score": nothing}, {}, "both victim and score"),
        ({"hit": nothing}, {}, "neither victim nor score"),
        ({"score": nothing, "on_evictable": nothing}, {}, "score and on_evictable"),
        ({"victim": nothing, "create": nothing}, {"state": b"x"}, "create and state_bytes"),
        ({"victim": nothing, "destroy": nothing}, {}, "destroy without create"),
        ({"score": nothing}, {"wants": ["las_use"]}, 'no column or fact is called "las_use"'),
    ],
)
def test_functions_without_sense_are_refused(
    bodies: dict[str, Any], more: dict[str, Any], what: str
) -> None:
    with pytest.raises(PolicyError, match=what):
        manager(lambda: of(bodies, **more))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"abi": "1.0"}, r"abi = '1.0': must be \(major, minor\), as \(1, 0\)"),
        ({"abi": (1,)}, r"abi = \(1,\): must be"),
        ({"abi": (1, 2**16)}, r"abi = \(1, 65536\): must be"),
        ({"wants": "uses"}, "wants = 'uses': must be a sequence of names"),
        ({"wants": ["usse"]}, 'no column or fact is called "usse"; did you mean uses?'),
        ({"wants": [3]}, "no column or fact is called 3; there are block, "),
        ({"window": -1}, "window = -1: must be an integer between 0 and 4294967295"),
        ({"window": "all"}, "window = 'all': must be an integer"),
        ({"block_bytes": 2**40}, "block_bytes = 1099511627776: must be an integer"),
        ({"state": 3}, "state = 3: must be bytes or an array"),
        ({"options": ["a"]}, r"options = \['a'\]: must be numbers"),
        ({"options": 3}, "options = 3: must be numbers"),
    ],
)
def test_what_a_policy_asks_for_is_refused_by_name(given: dict[str, Any], told: str) -> None:
    with pytest.raises(PolicyError, match=f"^(wants: )?{told}"):
        NativePolicy.of_functions({"victim": 1}, **{"abi": (1, 0), **given})
    with pytest.raises(PolicyError, match="functions = None: must be a mapping of names"):
        NativePolicy.of_functions(None, abi=(1, 0))  # type: ignore[arg-type]


@pytest.mark.parametrize("address", [0, -1, 2**64, None, "0x10", True])
def test_what_is_no_address_is_refused(address: Any) -> None:
    with pytest.raises(PolicyError, match="must be a function's address"):
        NativePolicy.of_functions({"victim": address}, abi=(1, 0))


def test_a_function_nobody_knows_is_refused() -> None:
    with pytest.raises(PolicyError, match="no function is called 'evict'; there are create, "):
        NativePolicy.of_functions({"evict": 1}, abi=(1, 0))


def test_null_and_crooked_tables_are_refused() -> None:
    words = copied("order")
    with pytest.raises(PolicyError, match="a table cannot be at 0x"):
        manager(lambda: NativePolicy(capsule(ctypes.addressof(words) + 1)))


@pytest.mark.parametrize("given", [None, 7, b"kvframe.eviction.v1"])
def test_what_is_no_capsule_is_refused(given: object) -> None:
    with pytest.raises(PolicyError, match="needs a PyCapsule, not a"):
        NativePolicy(given)


def test_make_and_way_must_agree() -> None:
    with pytest.raises(PolicyError, match=r"gave a dict, not a kvframe\.native\.NativePolicy"):
        manager(dict)
    with pytest.raises(PolicyError, match="gave a NativePolicy, not a kvframe"):
        manager(lambda: of({"victim": nothing}), way="batched")


def test_a_window_says_nothing_to_a_policy_with_an_order() -> None:
    kv = manager(lambda: of({"victim": nothing}), window=64)
    assert kv.options()["window"] is None
