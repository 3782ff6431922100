"""Which test killed a mutant last: the next run tries that first."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

LIST = Path(__file__).with_name("kills.toml")
HEAD = (
    "# Which test kills which mutant: its file in rust/core/tests, and its name. Runs rewrite it.\n"
)


def load() -> dict[str, tuple[str, str]]:
    """The test file, and the test in it, by the mutant's name."""
    if not LIST.exists():
        return {}
    told: dict[str, str] = tomllib.loads(LIST.read_text())
    return {name: (test.split()[0], test.split()[1]) for name, test in told.items()}


def keep(name: str, detail: str) -> None:
    """Notes that `name` was killed by ``FILE TEST``, whatever is said behind that."""
    file, test = detail.split()[:2]
    known = load() | {name: (file, test)}
    rows = (f'{name} = "{file} {test}"\n' for name, (file, test) in sorted(known.items()))
    LIST.write_text(HEAD + "".join(rows))


FIRST = ["rules", "defects", "verbs", "groups", "lib", "tier_pages"]
LAST = ["order", "rules_radix", "radix", "slots", "memory", "router", "router_full", "property"]
"""Where nothing is known: hand-written rules first, and the slow last."""


def ordered(files: Iterable[str]) -> list[str]:
    """Test files, those that killed most first."""
    killed = Counter(file for file, _ in load().values())

    def place(file: str) -> tuple[int, int]:
        known = FIRST.index(file) if file in FIRST else len(FIRST) + (file in LAST)
        return -killed[file], known

    return sorted(files, key=place)
