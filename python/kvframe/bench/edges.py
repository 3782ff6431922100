"""Whether a setting lies at the edge of what was tried: a better one may lie beyond."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kvframe.bench.policies import Choice


def edges(best: Choice, tried: Sequence[Choice], options: Iterable[str]) -> list[str]:
    """A sentence for each of the ``options`` whose value is the least or the largest tried, unless
    it can be no less or no larger.

    Args:
        best: One of ``tried``.
        tried: Settings of one policy.
        options: Their names.
    """
    told = []
    for name in options:
        numbers = sorted({value for choice in tried for value in _number(choice, name)})
        if len(numbers) < 2:
            continue
        own = next(_number(best, name), None)
        if own not in (numbers[0], numbers[-1]):
            continue
        least = own == numbers[0]
        if _takes(best, name, _next(own, -1 if least else 1)):
            edge, where = ("least", "below") if least else ("largest", "beyond")
            told.append(f"{best.label} has the {edge} {name} of those tried: try {where} {own:g}.")
    return told


def _number(choice: Choice, name: str) -> Iterator[float]:
    value = choice.option_values.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def _next(value: float, way: int) -> float:
    return value + way if isinstance(value, int) else math.nextafter(value, way * math.inf)


def _takes(choice: Choice, name: str, value: float) -> bool:
    schema = choice.loaded.descriptor.options
    if schema is None or name not in schema.__struct_fields__:
        return False
    own = {k: v for k, v in choice.option_values.items() if k in schema.__struct_fields__}
    try:
        msgspec.convert({**own, name: value}, schema)
    except (msgspec.ValidationError, ValueError):
        return False
    return True
