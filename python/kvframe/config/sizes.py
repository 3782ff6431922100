"""Sizes in bytes: as people write them, and of a token's KV."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

from kvframe.spelling import nearest

if TYPE_CHECKING:
    from kvframe.config.schema import ModelConfig

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "fp8": 1, "int8": 1}
"""Bytes of one stored value of each dtype."""

UNITS = "B, kB, KiB to PB, PiB"
"""The units `parse_bytes` knows, for messages."""

_FACTORS = {"b": 1} | {
    f"{letter}{infix}b": base**power
    for power, letter in enumerate("kmgtp", start=1)
    for infix, base in (("", 1000), ("i", 1024))
}
_SPELLED = [
    f"{letter}{infix}B" for letter in ("", *"kMGTP") for infix in ("", "i") if letter or not infix
]
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", re.ASCII)
MOST_DIGITS = 20
"""Of a whole number: Python itself refuses to read one of thousands."""


def whole(text: str) -> int | None:
    """The whole number that the text is, in decimal digits alone; None for all else."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS):
        return None
    return int(text)


def parse_bytes(text: str) -> int | None:
    """The bytes that ``"40 GiB"`` means, rounded down; None if ``text`` is no number and unit."""
    match = _SIZE.fullmatch(text)
    factor = _FACTORS.get(match[2].lower()) if match else None
    if match is None or factor is None or _means_bits(match[2]):
        return None
    try:
        # Exact: a float would lose the last bytes of large sizes.
        return int(Fraction(match[1]) * factor)
    except ValueError:  # more digits than Python reads
        return None


def _means_bits(unit: str) -> bool:
    """Whether it is written as bits are: ``Gb``. Without a capital it is careless, not wrong."""
    return unit.endswith("b") and not unit.islower()


def near_bytes(text: str) -> str:
    """``"; did you mean 40 GB?"`` for a text that is no size in bytes, or an empty string."""
    match = _SIZE.fullmatch(text)
    unit = nearest(match[2], _SPELLED) if match and match[2] not in _SPELLED else None
    return f"; did you mean {match[1]} {unit}?" if match and unit else ""


def rounded(size: int) -> str:
    """Bytes as people read them: ``0.50 KiB``, ``40.00 GiB``."""
    exponent = min(max((size.bit_length() - 1) // 10, 1), 5)
    return f"{size / 1024**exponent:,.2f} {' KMGTP'[exponent]}iB"


def row_values(model: ModelConfig) -> int:
    """Values that a layer keeps for a token: keys and values of all heads, or one latent."""
    if model.latent_dim is not None:
        return model.latent_dim
    return 2 * (model.kv_heads or 0) * (model.head_dim or 0)


def layer_bytes(model: ModelConfig) -> int:
    """Bytes that a layer keeps for a token."""
    return row_values(model) * DTYPE_BYTES[model.dtype] + model.extra_bytes


def token_bytes(model: ModelConfig) -> int:
    """Bytes that all layers keep for a token."""
    return model.layers * layer_bytes(model)
