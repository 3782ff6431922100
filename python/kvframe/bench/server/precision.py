"""Number formats of weights, KV and products."""

from __future__ import annotations

from typing import Literal

Precision = Literal["fp4", "fp8", "bf16", "fp16", "fp32"]

BYTES: dict[Precision, float] = {"fp4": 0.5, "fp8": 1.0, "bf16": 2.0, "fp16": 2.0, "fp32": 4.0}
"""Bytes of a number, without the scales of its group."""
