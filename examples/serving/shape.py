"""Sizes that the model and its KV pages agree on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """What the model is made of; ``max_tokens`` bounds a sequence."""

    layers: int = 3
    width: int = 32
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 8
    hidden: int = 64
    vocab: int = 128
    max_tokens: int = 144
