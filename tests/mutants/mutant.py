"""What a planted defect is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """One planted defect.

    Attributes:
        name: Short name, unique.
        file: Source file, below rust/core/src; one of Python below python/kvframe.
        old: Text that occurs in it exactly once.
        new: What takes its place.
        why: What the defect would do to a user.
        tests: Of one of Python, the test files that must notice it.
        rows: Defects of the superseded managers (tests/conformance/rows) that it brings back.
    """

    name: str
    file: str
    old: str
    new: str
    why: str
    rows: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()

    @property
    def source(self) -> Path:
        """Where its file is, from the root of the checkout."""
        below = "python/kvframe" if self.file.endswith(".py") else "rust/core/src"
        return Path(below) / self.file
