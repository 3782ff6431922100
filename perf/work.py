"""A measurement of perf.core: what it is called, its bar, and how a round of it is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kvframe import CacheConfig, Config, KVCacheManager

Algorithm = Literal["sha256", "blake3", "xxh3-128"]
Round = Callable[[], float]
"""One round: sets up what it uses up, measures, answers a value in the work's unit."""


@dataclass(frozen=True)
class Work:
    """One row of perf.core.

    Attributes:
        name: What ``--only`` takes.
        make: Given whether the sizes are small, the round to repeat.
        bar: What kvframe must reach, in ``unit``.
        floor: The least that any program could take, measured in the same run, in ``unit``.
        floor_is: How the floor is found.
        unit: ``"us"``, ``"bytes"``, or ``"M/s"`` for millions a second.
        better: ``"lower"`` or ``"higher"``.
        peer: The work's name on the peer's side; None where no peer has it.
        side: The peer's program, in perf/sides.
    """

    name: str
    make: Callable[[bool], Round]
    bar: float
    floor: Callable[[], float]
    floor_is: str
    unit: str = "us"
    better: str = "lower"
    peer: str | None = None
    side: str = "for_vllm.py"


def manager(blocks: int, algorithm: Algorithm = "sha256", events: bool = False) -> KVCacheManager:
    """A manager with blocks of 16 tokens under lru."""
    cache = CacheConfig(capacity=blocks, block_size=16, hash=algorithm, event_log=events)
    return KVCacheManager(Config(cache=cache))
