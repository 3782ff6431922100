"""What a page's name says, what lies beside the pages of an engine, and what its counters say."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from kvframe.cli import main
from kvframe.tiers.object_keys import FORMAT, Space, parse

from .helpers import Engine, Shelf, below, host, text

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "tiers.md"

WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no checksum": {"checksum": "none"},
    "zstd": {"compression": "zstd"},
    "zlib": {"compression": "zlib"},
    "fp8": {"quantise": "fp8"},
    "fp8, zstd": {"quantise": "fp8", "compression": "zstd"},
    "fp8, zlib, no checksum": {"quantise": "fp8", "compression": "zlib", "checksum": "none"},
}


def engine(objects: dict[str, bytes], store: str = "shared", **way: Any) -> Engine:
    return Engine([host(16), below(64, store, **way)], stores=[Shelf(objects=objects)], blocks=24)


@pytest.mark.scenario("F15")
@pytest.mark.parametrize("store", ["shelf", "shared"])
@pytest.mark.parametrize("pair", [*itertools.permutations(WAYS, 2)], ids=" then ".join)
def test_engines_that_keep_pages_in_other_ways_leave_each_others_alone(
    pair: tuple[str, str], store: str
) -> None:
    objects: dict[str, bytes] = {}
    engine(objects, store, **WAYS[pair[0]]).run(text(1, 17))
    before = dict(objects)
    other = engine(objects, store, **WAYS[pair[1]])
    assert other.run(text(1, 17)).external_tokens == 0
    other.settle()
    told = other.tiers.stats()["below"]
    rows = ("recovered", "foreign", "other_spaces", "old_format", "corrupt", "missing", "orphans")
    assert [told[row] for row in rows] == [0, 4, 4, 0, 0, 0, 0]
    assert before.items() <= objects.items()
    first = engine(objects, store, **WAYS[pair[0]])
    ahead = first.tiers.prefetch(text(1, 17))
    first.settle()
    assert (ahead.loaded, first.tiers.stats()["below"]["corrupt"]) == (4, 0)


@pytest.mark.scenario("F15")
def test_every_field_of_a_space_is_in_its_names() -> None:
    given: dict[str, Any] = {
        "model": "m",
        "fingerprint": "f",
        "dtype": "float16",
        "block_size": 32,
        "parts": ((1, 2, 3, 4),),
        "hash": "blake3",
        "rank": 1,
        "ranks": 2,
        "salt": "s",
        "codec": "fp8",
        "checksum": "none",
    }
    assert sorted(given) == sorted(Space.__struct_fields__)
    names = {Space(**{field: value}).name((1, 2), 0) for field, value in given.items()}
    assert len(names | {Space().name((1, 2), 0)}) == len(given) + 1
    assert all(name.startswith(f"kv{FORMAT}-") for name in names)
    named = parse(Space().name((1, 2), 7))
    assert named is not None
    assert (named.key, named.part, named.format) == ((1, 2), 7, FORMAT)
    assert named.name == Space().name((1, 2), 7)


def older(objects: dict[str, bytes], dropped: int = 0) -> dict[str, bytes]:
    """The same pages as an earlier format had them."""
    pages = list(objects.items())[dropped:]
    return {name.replace("kv2-", "kv1-"): data.replace(b"KVF2", b"KVF1") for name, data in pages}


@pytest.mark.scenario("F15")
@pytest.mark.parametrize("store", ["shelf", "shared", "disk"])
def test_pages_of_an_older_format_are_misses_and_counted(store: str, tmp_path: Path) -> None:
    objects: dict[str, bytes] = {}
    way: dict[str, Any] = {}
    if store == "disk":
        way = {"options": {"path": str(tmp_path / "pages"), "fsync": False}}
    made = engine(objects, store, **way)
    made.run(text(1, 17))
    made.tiers.close()
    if store == "disk":
        for path in sorted((tmp_path / "pages").glob("??/*.kv")):
            path.with_name(path.name.replace("kv2-", "kv1-")).write_bytes(b"KVF1" + bytes(100))
            path.unlink()
    else:
        old = older(objects)
        objects.clear()
        objects.update(old)
    again = engine(objects, store, **way)
    assert again.run(text(1, 17)).external_tokens == 0
    told = again.tiers.stats()["below"]
    rows = ("recovered", "foreign", "other_spaces", "old_format", "corrupt", "missing", "orphans")
    assert [told[row] for row in rows] == [0, 4, 0, 4, 0, 0, 0]
    again.tiers.close()
    if store == "disk":
        assert len(list((tmp_path / "pages").glob("??/kv1-*"))) == 4


@pytest.mark.scenario("F15")
@pytest.mark.parametrize("parts", [1, 2])
def test_a_page_that_is_merely_gone_is_missing(parts: int) -> None:
    shelf = Shelf()
    made = Engine([host(16), below()], stores=[shelf], parts=parts)
    made.run(text(1, 17))
    made.only_below()
    low, high = made.kv.blocks.hash_blocks(text(1, 17))[2].tolist()
    del shelf.objects[made.tiers.below[0].codec.name((low, high), parts - 1)]
    grant = made.start(text(1, 17))
    made.settle()
    assert made.compute(grant.seq) == 9
    told = made.tiers.stats()["below"]
    assert (told["missing"], told["corrupt"]) == (1, 0)


@pytest.mark.scenario("F15")
def test_every_row_of_the_counters_is_documented() -> None:
    made = Engine([host(8), below()], stores=[Shelf()])
    for seed in range(3):
        made.run(text(seed, 17))
    made.only_below()
    made.run(text(2, 17))
    seq = made.start(text(4, 9)).seq
    made.compute(seq)
    made.tiers.swap_in(_out(made, seq))
    made.settle()
    told = set(itertools.chain(*made.tiers.stats().values()))
    rows = set(re.findall(r"`([a-z_]+)`", DOCS.read_text()))
    assert told - rows == set()
    # And those that only a failure brings.
    source = "\n".join(
        path.read_text() for path in Path(__file__).parents[2].glob("python/kvframe/tiers/*.py")
    )
    assert set(re.findall(r'counters\["([a-z_]+)"\]', source)) - rows == set()


def _out(made: Engine, seq: int) -> Any:
    swapped = made.tiers.swap_out(seq)
    made.settle()
    return swapped


# --- the command ----------------------------------------------------------------------------------


def configured(folder: Path) -> Path:
    file = folder / "kvframe.toml"
    file.write_text(
        '[cache]\ncapacity = 8\n\n[[tiers]]\nname = "host"\ncapacity = 8\n\n[[tiers]]\n'
        f'name = "disk"\nstore = "disk"\ncapacity = 64\noptions.path = "{folder / "pages"}"\n'
    )
    return file


def on_disk(folder: Path, **more: Any) -> Engine:
    options = {"path": str(folder / "pages"), "fsync": False}
    return Engine([host(16), below(64, "disk", options=options)], **more)


def run(*args: object) -> list[str]:
    found = CliRunner().invoke(main, ["tiers", *map(str, args)])
    assert found.exit_code == 0, found.output
    return found.stdout.splitlines()


@pytest.mark.scenario("F14", "F15")
def test_the_command_counts_and_clears_what_no_engine_removes(tmp_path: Path) -> None:
    file = configured(tmp_path)
    for model, prompts in (("tiny", 2), ("another", 1)):
        made = on_disk(tmp_path, model=model, parts=2)
        for seed in range(prompts):
            made.run(text(seed, 17))
        spaces = made.tiers.spaces
        names = [
            made.tiers.below[0].codec.name((low, high), part)
            for low, high in made.kv.blocks.hash_blocks(text(0, 17)).tolist()
            for part in (0, 1)
        ]
        made.tiers.close()
    pages = tmp_path / "pages"
    paths = {path.stem: path for path in pages.glob("??/*.kv")}
    paths[names[0]].unlink()  # a part of the head
    paths[names[7]].write_bytes(b"cut short")
    old = pages / "ab" / names[0].replace("kv2-", "kv1-")
    old.parent.mkdir(exist_ok=True)
    old.with_name(old.name + ".kv").write_bytes(b"KVF1")
    rows = json.loads("\n".join(run("list", file, "--json")))
    told = [
        (row["format"], row["objects"], row["pages"], row["orphans"], row["wrong"]) for row in rows
    ]
    assert told == [(2, 16, 8, 0, 0), (2, 7, 0, 6, 1), (1, 1, None, None, None)]
    assert spaces == {"below": rows[1]["space"]}
    assert run("list", file)[0].split() == list(rows[0])
    assert run("list", file, "--tier", "disk")[1:] == run("list", file)[1:]
    assert run("clear", file, "--orphans") == ["disk: 6 objects removed"]
    assert run("clear", file, "--wrong") == ["disk: 1 objects removed"]
    assert run("clear", file, "--old") == ["disk: 1 objects removed"]
    assert len(run("list", file)) == 2
    space = json.loads("\n".join(run("list", file, "--json")))[0]["space"]
    (pages / "00").mkdir(exist_ok=True)
    (pages / "00" / "notes.kv").write_text("mine")
    assert run("clear", file, "--space", space) == ["disk: 16 objects removed"]
    made = on_disk(tmp_path)
    made.run(text(1, 17))
    made.tiers.close()
    assert run("clear", file, "--all") == ["disk: 4 objects removed"]
    assert [path.name for path in pages.glob("??/*")] == ["notes.kv"]
    assert run("list", file) == []


@pytest.mark.scenario("F15")
def test_the_command_says_what_it_needs(tmp_path: Path) -> None:
    file = configured(tmp_path)
    made = on_disk(tmp_path)
    for args, message in (
        (["clear", file], "say what to clear: --orphans, --wrong, --old, --space or --all"),
        (["clear", file, "--tier", "dsik", "--all"], "--tier dsik: no tier with a store"),
        (["clear", file, "--all"], "another process has this folder"),
        (["list", file], "another process has this folder"),
        (["lst"], "no command lst; did you mean list?"),
    ):
        found = CliRunner().invoke(main, ["tiers", *map(str, args)])
        assert found.exit_code == 2
        assert message in found.stderr, found.stderr
    made.tiers.close()
    found = CliRunner().invoke(main, ["tiers", "clear", str(file), "--space", "77"])
    assert (found.exit_code, "--space 77: no tier has objects of it" in found.stderr) == (2, True)


@pytest.mark.scenario("F14")
def test_an_orphan_whose_head_comes_meanwhile_is_not_cleared() -> None:
    from kvframe.tiers.census import census, remove_orphans

    objects: dict[str, bytes] = {}
    made = engine(objects)
    made.run(text(1, 17))
    made.run(text(2, 17))
    heads = [
        made.tiers.below[0].codec.name((low, high), 0)
        for low, high in (made.kv.blocks.hash_blocks(text(seed, 17))[0].tolist() for seed in (1, 2))
    ]
    data = [objects.pop(head) for head in heads]
    shelf = Shelf(objects=objects)
    (lot,) = census(shelf).lots
    assert (lot.pages, len(lot.orphans)) == (0, 6)
    objects[heads[0]] = data[0]
    assert remove_orphans(shelf, lot) == 3
    assert len(objects) == 4
    assert msgspec.json.encode(census(shelf).lots[0].pages) == b"4"
