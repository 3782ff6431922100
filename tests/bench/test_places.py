"""``--policy ./mine.py:Class``: a policy in the making beside the installed ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Command, rows

Cells = Callable[..., list[dict[str, Any]]]

MINE = """
from typing import Annotated

import msgspec

from helper import SIGN
from kvframe.policies import BatchedAdmission, BatchedEviction, BatchedPrefix


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sign: Annotated[float, msgspec.Meta(ge=-1, le=1)] = 1.0


class Lru(BatchedEviction):
    def score(self, candidates, out):
        out[:] = candidates["last_use"]


class Mine(BatchedEviction):
    def __init__(self, options: Options):
        self.sign = SIGN * options.sign

    def score(self, candidates, out):
        out[:] = self.sign * candidates["last_use"]


class Heads(BatchedAdmission):
    columns = ("depth",)

    def admit(self, blocks, tier, out):
        out[:] = blocks["depth"] < 1


class Nothing(BatchedPrefix):
    def take(self, prompts, found, out):
        out[:] = 0
"""

TRACE = rows([(1536, [chat, 10 * chat + 1, 10 * chat + 2]) for chat in (1, 2, 3, 1, 2, 3, 2, 1)])


@pytest.fixture
def folder(own_modules: Path) -> Path:
    (own_modules / "mine.py").write_text(MINE)
    (own_modules / "helper.py").write_text("SIGN = 1.0\n")
    (own_modules / "t.jsonl").write_bytes(TRACE)
    return own_modules


ASKED = ("--trace", "t.jsonl", "--capacity", "4")


def hits(cells: list[dict[str, Any]]) -> dict[str, int]:
    return {cell["policy"]: cell["hit_tokens"] for cell in cells}


@pytest.mark.scenario("F35")
@pytest.mark.parametrize("jobs", [1, 3])
def test_places_run_beside_names(cells: Cells, folder: Path, jobs: int) -> None:
    """A class may be called as a built-in policy, and is named by its place."""
    named = "./mine.py:Lru,mine:Mine,./mine.py:Mine:sign=-1,mine.py:Mine:sign=-1:window=0"
    found = hits(cells(*ASKED, "--policy", f"lru,mru,{named}", "--jobs", jobs))
    assert list(found) == ["lru", "mru", *named.split(",")]
    assert found["./mine.py:Lru"] == found["mine:Mine"] == found["lru"]
    assert found["mine.py:Mine:sign=-1:window=0"] == found["mru"] != found["lru"]


@pytest.mark.scenario("F35")
def test_admission_and_prefix_by_place_too(cells: Cells, folder: Path) -> None:
    found = cells(
        *ASKED, "--policy", "lru", "--admission", "always,./mine.py:Heads",
        "--prefix", "hash,./mine.py:Nothing",
    )  # fmt: skip
    assert [(cell["admission"], cell["prefix"]) for cell in found] == [
        ("always", "hash"),
        ("always", "./mine.py:Nothing"),
        ("./mine.py:Heads", "hash"),
        ("./mine.py:Heads", "./mine.py:Nothing"),
    ]
    assert found[2]["admission_dropped"] > 0 == found[0]["admission_dropped"]
    assert found[1]["hit_tokens"] == found[3]["hit_tokens"] == 0 < found[0]["hit_tokens"]


@pytest.mark.scenario("F35")
def test_a_kept_cell_is_of_the_files_content(process: Command, folder: Path) -> None:
    """Its own, and that of the modules beside it, which a process imports once."""
    names = ("./mine.py:Lru", "mine.py:Mine")

    def reused() -> str:
        done = process(
            "run", *ASKED, "--policy", ",".join(names), "--format", "csv", "--out", "kept"
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert "taken" not in reused()
    assert "2 of 2 cells taken from kept" in reused()
    (folder / "mine.py").write_text(MINE + "# one line more\n")
    assert "taken" not in reused()
    (folder / "helper.py").write_text("SIGN = -1.0\n")
    assert "taken" not in reused()
    record = json.loads((folder / "kept" / "run.json").read_bytes())
    assert set(record["policies"]) == set(names)


@pytest.mark.scenario("F35")
def test_the_verdict_and_the_table_name_the_place(bench: Command, folder: Path) -> None:
    done = bench("run", *ASKED, "--policy", "./mine.py:Mine:sign=-1")
    assert "./mine.py:Mine:sign=-1" in done.stdout.splitlines()[-1]


@pytest.mark.scenario("F35")
@pytest.mark.parametrize(
    ("option", "text", "told"),
    [
        ("--policy", "./no.py:Mine", "./no.py: no such file"),
        ("--policy", "no.such:Mine", "no.such: no such module"),
        ("--policy", "mine.py:Mien", "mine.py has no Mien; did you mean Mine?"),
        ("--policy", "mine.py:Options", "the class derives from none of BatchedEviction"),
        (
            "--policy",
            "mine.py",
            "it has no hook; name one of its policies: mine.py:Lru or mine.py:Mine",
        ),
        ("--policy", "mine.py:Unlike", "mine.py has no Unlike; it has Lru, Mine"),
        (
            "--policy",
            "mine.py:Heads",
            "mine.py:Heads: it gives an admission policy (heads); must be an eviction policy",
        ),
        (
            "--admission",
            "mine.py:Mine",
            "it gives an eviction policy (mine); must be an admission policy",
        ),
        (
            "--prefix",
            "mine.py:Mine",
            "it gives an eviction policy (mine); must be a prefix matcher",
        ),
        ("--policy", "mine.py:Mine:sgin=1", "unknown key; did you mean mine.sign?"),
        ("--policy", "mine.py:Mine:sign=2", "mine.sign"),
        ("--policy", "mine.py:Lru:sign=1", "own-lru takes no options"),
        ("--policy", "slru:protected_uses", "options of slru are written slru:OPTION=VALUE"),
    ],
)
def test_what_is_wrong_is_said(
    bench: Command, folder: Path, option: str, text: str, told: str
) -> None:
    done = bench("run", *ASKED, option, text)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.scenario("F35")
def test_the_help_says_so(bench: Command) -> None:
    done = bench("run", "--help")
    assert "./FILE.py:CLASS" in " ".join(done.stdout.split())
