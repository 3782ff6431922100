"""The page says what each policy loses at each plug point, as it is found by trying."""

from __future__ import annotations

from pathlib import Path

from .losses import BY_PARENTS, PAGE, written

POLICIES = Path(__file__).parents[2] / "rust" / "core" / "src" / "policy"
POLICY_ROOMS = ("eviction", "zoo")

SHOWN = {"lru"}
"""Where parents say how an order is shown, and choose no victim."""

BY_CHUNKS = {"partial-node-random-compute"}
"""Those whose parents `rust/core/src/policy/adapters/sampled.rs` looks at."""


def test_the_table_is_what_the_policies_do() -> None:
    page = PAGE.read_text("utf-8")
    assert page == written(page), "run: python -m tests.integrations.losses"


def test_those_that_look_at_parents_are_named() -> None:
    found = {
        file.relative_to(POLICIES / room).parts[0].removesuffix(".rs")
        for room in POLICY_ROOMS
        for file in (POLICIES / room).rglob("*.rs")
        if ".parent(" in file.read_text("utf-8")
    }
    assert found - SHOWN | BY_CHUNKS == BY_PARENTS
