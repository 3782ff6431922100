"""The built-in policies, and the base classes for policies in Python.

| base class | for |
| --- | --- |
| `BatchedEviction` | which block is evicted next, among `Candidates` with `COLUMNS` |
| `BatchedAdmission` | which `Arrivals` become findable (`ADMISSION_COLUMNS`); who is `Waiting` |
| `BatchedPrefix`, `BatchedIndex` | how `Prompts` become keys, and how much of a hit is used |
"""

from __future__ import annotations

from kvframe.policies.admission import ADMISSION_COLUMNS, Arrivals, BatchedAdmission, Waiting
from kvframe.policies.batched import COLUMNS, NO_NEXT_USE, BatchedEviction, Candidates
from kvframe.policies.prefix import BatchedIndex, BatchedPrefix, Prompts

__all__ = [
    "ADMISSION_COLUMNS",
    "COLUMNS",
    "NO_NEXT_USE",
    "Arrivals",
    "BatchedAdmission",
    "BatchedEviction",
    "BatchedIndex",
    "BatchedPrefix",
    "Candidates",
    "Prompts",
    "Waiting",
]
