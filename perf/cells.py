"""The cells that policies are compared in: shipped traces and capacities in blocks."""

from __future__ import annotations

CAPACITIES = {
    "conversation": (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000),
    "synthetic": (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000),
    "agent": (2_000, 4_000, 8_000, 16_000, 32_000),
}
ADMISSIONS = ("second-use", "frequency")
"""Admission policies that change hits on these traces, for pairs with an eviction policy."""


def small(trace: str) -> tuple[int, ...]:
    """The small half of a trace's capacities."""
    return CAPACITIES[trace][: len(CAPACITIES[trace]) // 2]
