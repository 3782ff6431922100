"""Texts of the command line: lists, fixed choices, origins of values."""

from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec

from kvframe.config.environment import EnvText
from kvframe.config.origins import Origins
from kvframe.errors import ConfigError
from kvframe.registry.naming import listed
from kvframe.spelling import did_you_mean

MODES = ("trace", "engine", "timed")
FORMATS = ("table", "json", "csv", "md")
LARGEST = 1e30
"""Of a number without another limit: far above all that is measured, far below infinity."""
Positive = Annotated[float, msgspec.Meta(gt=0, le=LARGEST)]
NotNegative = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]


class OptionOrigins(Origins):
    """Makes configuration errors name the command-line option that gave the value."""

    def __init__(self, option: str) -> None:
        super().__init__()
        self._option = option

    def where(self, path: str) -> str:
        """``--policy: ``, before the path and the value."""
        return f"{self._option}: "


def split_list(values: Iterable[str], option: str) -> list[str]:
    """Flatten repeated options and comma lists: ``("lru", "opt,fifo")`` to three names, each once.

    A comma before ``OPTION=VALUE`` goes on with the options of the name before it.

    Raises:
        ConfigError: an item is empty (``--policy lru,``).
    """
    found: dict[str, None] = {}
    for value in values:
        for name in listed(value):
            if not name:
                raise ConfigError(f"{option} {value!r}: an item of the list is empty")
            found[name] = None
    return list(found)


def one_of(values: Iterable[str], option: str, known: Sequence[str]) -> list[str]:
    """Flatten like `split_list` and refuse every item that is not in ``known``."""
    items = split_list(values, option)
    for item in items:
        if item not in known:
            raise ConfigError(
                f"{option} {item}: must be one of {', '.join(known)}{did_you_mean(item, known)}"
            )
    return items


def positive(text: str) -> float | None:
    """The number above 0 that the text is; at most `LARGEST`; None for all else."""
    try:
        found: float = msgspec.convert(text, Positive, strict=False)
    except msgspec.ValidationError:
        return None
    return found


def keyed(pairs: Iterable[str], where: str) -> dict[str, EnvText]:
    """``key=value`` texts as a table whose values become what a schema asks for.

    Raises:
        ConfigError: a pair without ``=``, or a key twice; ``where`` names the option it was found
            in.
    """
    values: dict[str, EnvText] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(f"{where}: {pair!r} must read key=value")
        if key.strip() in values:
            raise ConfigError(f"{where}: {key.strip()} is given twice")
        values[key.strip()] = EnvText(value.strip())
    return values
