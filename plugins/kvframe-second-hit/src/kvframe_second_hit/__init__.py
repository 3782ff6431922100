"""Cache on second hit as an admission policy for kvframe."""

from __future__ import annotations

from collections.abc import Iterator

from kvframe import AdmissionPolicy, hookimpl
from kvframe_second_hit.policy import Options, SecondHit

__all__ = ["Options", "SecondHit", "kvframe_admission"]


@hookimpl
def kvframe_admission() -> Iterator[AdmissionPolicy]:
    """The policy ``second-hit``."""
    yield AdmissionPolicy(
        name="second-hit",
        way="batched",
        summary="kept on the second use, as Bloom filters remember the first",
        source="Maggs and Sitaraman, ACM SIGCOMM CCR 45(3), 2015",
        options=Options,
        make=SecondHit,
    )
