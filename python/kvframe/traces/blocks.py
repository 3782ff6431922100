"""Derives the tokens of a block, if neither the rows nor the caller give them."""

from __future__ import annotations

from kvframe.traces.forms.hashes import INPUT, listed_ids, spelled
from kvframe.traces.reader import Head
from kvframe.traces.values import count, first_of

DEFAULT = 512
"""Mooncake's."""

_SIZES = [1 << power for power in range(17)]


def block_size_of(head: Head) -> int | None:
    """The only power of two with which every first record has as many ids as its length needs.

    None where there is none, or several and 512 is not among them.
    """
    sizes = _SIZES
    for record in head.records:
        row = spelled(record.value) if isinstance(record.value, dict) else {}
        ids, found = listed_ids(row), first_of(row, INPUT)
        try:
            length = count(found, "input_length")
        except ValueError:
            return None
        if row.get("block_size") is not None or ids is None:
            return None
        sizes = [size for size in sizes if len(ids) in (length // size, -(-length // size))]
    if DEFAULT in sizes:
        return DEFAULT
    return sizes[0] if len(sizes) == 1 else None
