"""The policies that ship with kvframe, and what one writes policies in Python with."""

from __future__ import annotations

from kvframe.policies.admission import ADMISSION_COLUMNS, Arrivals, BatchedAdmission, Waiting
from kvframe.policies.batched import COLUMNS, BatchedEviction, Candidates
from kvframe.policies.prefix import BatchedIndex, BatchedPrefix, Prompts

__all__ = [
    "ADMISSION_COLUMNS",
    "COLUMNS",
    "Arrivals",
    "BatchedAdmission",
    "BatchedEviction",
    "BatchedIndex",
    "BatchedPrefix",
    "Candidates",
    "Prompts",
    "Waiting",
]
