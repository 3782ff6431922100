"""The maps at the front doors name all that is behind them, and nothing else."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from kvframe import KVCacheManager
from kvframe.tiers import Tiers

ROOMS = ("pins", "blocks", "pressure", "stats", "log", "inspect")
CORE = Path(__file__).parents[2] / "rust" / "core" / "src" / "lib.rs"


def test_the_manager_names_each_of_its_verbs_once() -> None:
    told = (inspect.getdoc(KVCacheManager) or "").split("Args:")[0]
    verbs = [name for name in dir(KVCacheManager) if not name.startswith("_")]
    assert len(verbs) + len(ROOMS) <= 40
    assert [name for name in ROOMS if f"``{name}``" not in told] == []
    assert sorted(re.findall(r"(?<!`)`(\w+)`(?!`)", told)) == verbs


def test_tiers_name_each_of_their_verbs_once() -> None:
    told = (inspect.getdoc(Tiers) or "").split("Args:")[0].partition("How blocks go down")[2]
    verbs = [name for name in dir(Tiers) if not name.startswith("_")]
    assert sorted(re.findall(r"(?<!`)`(\w+)`(?!`)", told)) == verbs


def test_the_core_names_each_of_its_modules_once() -> None:
    text = CORE.read_text()
    table = re.findall(r"^//! \| (\[`.*?) \|", text, re.M)
    named = [name for cell in table for name in re.findall(r"\[`(\w+)`\]", cell)]
    assert sorted(named) == sorted(re.findall(r"^pub mod (\w+);", text, re.M))
