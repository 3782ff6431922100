"""Which way a transfer between device and host goes, by its number of pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from kvframe.errors import UsageError
from kvframe.spelling import did_you_mean

Way = Literal["rows", "batch", "split", "staged", "kernel"]
"""``rows``: one strided copy per page; ``batch``: all rows in one call of the driver; ``split``:
some pages as ``rows`` and at the same time others as ``kernel``; ``staged``: gathered by a kernel
into a buffer, which is then copied in one piece; ``kernel``: a kernel reads or writes the host."""

WAYS: tuple[Way, ...] = get_args(Way)


@dataclass(frozen=True)
class Ways:
    """Ways by size, for one direction.

    Args:
        steps: (most pages, way), ascending: the first that a transfer fits takes it.
        beyond: The way of all larger ones.

    Raises:
        UsageError: Steps do not ascend, or there is no such way.
    """

    steps: tuple[tuple[int, Way], ...]
    beyond: Way

    def __post_init__(self) -> None:
        sizes = [most for most, _ in self.steps]
        if sizes != sorted(set(sizes)):
            raise UsageError(f"steps end at {sizes} pages: must ascend")
        for way in self.all():
            if way not in WAYS:
                raise UsageError(
                    f"way = {way!r}: must be one of {', '.join(WAYS)}{did_you_mean(way, WAYS)}"
                )

    def of(self, pages: int) -> Way:
        """The way of so many pages."""
        return next((way for most, way in self.steps if pages <= most), self.beyond)

    def all(self) -> tuple[Way, ...]:
        """Every way that some transfer goes."""
        return (*(way for _, way in self.steps), self.beyond)
