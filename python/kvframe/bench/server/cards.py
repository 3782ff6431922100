"""Accelerators by their data sheets, and what-if ones: ``h200``, ``h200:memory=282GB``."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

from kvframe.bench.options import LARGEST, Positive, keyed
from kvframe.bench.server.precision import Precision
from kvframe.config.sizes import UNITS, near_bytes, parse_bytes
from kvframe.errors import ConfigError
from kvframe.spelling import did_you_mean


class Card(NamedTuple):
    """An accelerator.

    Attributes:
        name: As it was asked for.
        memory: Bytes.
        bandwidth: Bytes a second, of its memory.
        flops: Dense 16-bit floating-point operations a second.
        flops_fp8, flops_fp4: In these formats; None if it does not compute in them.
        flops_fp16: In fp16, where that differs from bf16.
        utilization: The share of its memory that a server takes; 0.9 is vLLM's default.
    """

    name: str
    memory: float
    bandwidth: float
    flops: float
    flops_fp8: float | None = None
    flops_fp4: float | None = None
    flops_fp16: float | None = None
    utilization: float = 0.9

    def rate(self, precision: Precision) -> float | None:
        """Dense operations a second in a format; in fp32 half of those in fp16."""
        half = self.flops_fp16 or self.flops
        return {
            "fp4": self.flops_fp4,
            "fp8": self.flops_fp8,
            "bf16": self.flops,
            "fp16": half,
            "fp32": half / 2,
        }[precision]


_SHEETS: dict[str, tuple[float, ...]] = {
    "a100": (80e9, 2.039e12, 312e12),
    "h100": (80e9, 3.35e12, 989e12, 1979e12),
    "h200": (141e9, 4.8e12, 989e12, 1979e12),
    "b200": (180e9, 7.7e12, 2250e12, 4500e12, 9000e12),
    "l40s": (48e9, 0.864e12, 362e12, 733e12),
}
CARDS = {name: Card(name, *sheet) for name, sheet in _SHEETS.items()}
"""SXM parts with their larger memory, PCIe for the l40s."""

CARD = "h200"
"""Whose data sheet gives step times where no card is named."""

KEYS = ("memory", "bandwidth", "flops", "flops_fp4", "flops_fp8", "flops_fp16", "utilization")

Share = Annotated[float, msgspec.Meta(gt=0, le=1)]


def parse_card(text: str) -> Card:
    """A card's name; after a colon, what differs from its data sheet.

    Raises:
        ConfigError: An unknown card or key, or a value that is no positive number.
    """
    name, colon, changes = text.partition(":")
    card = CARDS.get(name.lower())
    if card is None:
        near = did_you_mean(name.lower(), CARDS)
        raise ConfigError(f"--card {name}: must be one of {', '.join(CARDS)}{near}")
    changed = {}
    for key, value in keyed(changes.split(","), f"--card {text}").items() if colon else ():
        if key not in KEYS:
            near = did_you_mean(key, KEYS)
            raise ConfigError(f"--card {text}: no key {key}: {', '.join(KEYS)}{near}")
        changed[key] = _number(key, str(value), text)
    return card._replace(name=text, **changed)


def _number(key: str, value: str, card: str) -> float:
    if key == "memory":
        size = parse_bytes(value)
        if not size:
            raise ConfigError(
                f"--card {card}: memory = {value}: must be bytes with a unit ({UNITS})"
                f"{near_bytes(value)}"
            )
        return float(size)
    kind, limit = (
        (Share, ", at most 1") if key == "utilization" else (Positive, f", at most {LARGEST:g}")
    )
    try:
        found: float = msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError:
        raise ConfigError(
            f"--card {card}: {key} = {value}: must be a number above 0{limit}"
        ) from None
    return found
