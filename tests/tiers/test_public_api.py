"""`Tiers` stands on public members of the manager and of requests: any caller could write it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from kvframe import CacheConfig, Config, KVCacheManager, Request
from kvframe.tiers import Tiers

PACKAGE = Path(__file__).parents[2] / "python" / "kvframe" / "tiers"
OWN = ("self", "cls")
"""Private attributes are read of these alone, and of objects that the same file defines."""
OF_TUPLES = ("_asdict", "_replace")
"""Public members of every named tuple."""


def privates(source: str) -> list[str]:
    """``LINE: text`` of each private attribute that is read of another file's object."""
    tree = ast.parse(source)
    defined = {
        target.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in ast.walk(node)
        if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store)
    } | {
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    return [
        f"{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in OWN)
        and node.attr not in defined
        and node.attr not in OF_TUPLES
    ]


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_no_private_attribute_of_another_object_is_used(path: Path) -> None:
    assert privates(path.read_text()) == []


def test_the_check_finds_private_parts_of_a_manager() -> None:
    assert privates("self._kv._core.allocate(1)") == ["1: self._kv._core"]
    assert privates("kv._prompts") == ["1: kv._prompts"]
    assert privates("self._kv.lookup(1)") == []


def test_no_file_of_tiers_imports_what_the_manager_is_made_of() -> None:
    for path in PACKAGE.glob("*.py"):
        source = path.read_text()
        assert "kvframe.prompts" not in source, path.name
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module == "kvframe._core":
                # The core of a tier's own index and gate; a manager's core is not among them.
                assert {name.name for name in node.names} <= {
                    "TierPages",
                    "TierGate",
                    "PageUses",
                }, path.name


def test_tiers_have_no_base_class() -> None:
    assert Tiers.__bases__ == (object,)


def test_what_tiers_ask_of_a_manager_is_there_for_every_caller() -> None:
    kv = KVCacheManager(Config(cache=CacheConfig(block_size=4, capacity=16, weight_version="one")))
    names = {"tenant": "whose", "cache_salt": "tenant", "lora_name": "adapter"}
    request = Request(range(9), session=7, **names)
    assert kv.inspect.stored_request(request) is request
    assert kv.inspect.origin(request) == ("tenant", "adapter", 7, "whose", 0)
    seq = kv.allocate(request).seq
    assert kv.inspect.origin(seq) == ("tenant", "adapter", 7, "whose", 0)
    assert kv.blocks.sequence_keys(seq).shape == (0, 2)
    kv.commit(seq, 9)
    keys = kv.blocks.hash_blocks(request)
    assert keys.shape == (2, 2)
    assert (kv.blocks.sequence_keys(seq) == keys).all()
    assert (kv.blocks.sequence_keys(seq, 4) == keys[:1]).all()
    table = kv.block_table(seq)
    blocks, named = kv.blocks.prefix_of(int(table[1]))
    assert blocks.tolist() == table[:2].tolist()
    assert (named == keys).all()
    assert [len(none) for none in kv.blocks.prefix_of(int(table[2]))] == [0, 0]
    assert (kv.inspect.weight_version, kv.inspect.is_current(seq)) == ("one", True)
    kv.set_weight_version("two")
    assert (kv.inspect.weight_version, kv.inspect.is_current(seq)) == ("two", False)
