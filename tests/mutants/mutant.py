"""What a planted defect is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One planted defect.

    Attributes:
        name: Short name, unique.
        file: Source file, below rust/core/src.
        old: Text that occurs in it exactly once.
        new: What takes its place.
        why: What the defect would do to a user.
        rows: Defects of the superseded managers (tests/conformance/rows) that it brings back.
    """

    name: str
    file: str
    old: str
    new: str
    why: str
    rows: tuple[str, ...] = ()
