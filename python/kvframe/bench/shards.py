"""Parts of a run, for several processes or machines that keep their cells in one directory.

A cell is of the shard that the hash of its identity says, so every process agrees without talking
to another, and a cell that is added moves no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kvframe.bench.build import build_name
from kvframe.bench.cells import Plan, identity_hash
from kvframe.errors import ConfigError


def parse(text: str) -> tuple[int, int]:
    """``"2/8"`` as (2, 8).

    Raises:
        ConfigError: It is not I/N with 1 <= I <= N.
    """
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise ConfigError(f"--shard {text}: must read I/N, as 1/4, with I from 1 to N")
    return int(found[1]), int(found[2])


def of_shard(plans: Iterable[Plan], shard: int, count: int) -> list[Plan]:
    """The plans of shard ``shard`` (from 1) of ``count``, in their order."""
    build = build_name()

    def place(plan: Plan) -> int:
        return int(identity_hash(plan.identity(build)), 16) % count

    return [plan for plan in plans if place(plan) == shard - 1]
