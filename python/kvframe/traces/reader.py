"""What a reader of a form is: it says whether a file is of its form, and gives the file's requests.

A package offers one by the hook ``kvframe_trace`` and an entry point in ``kvframe.trace``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec

from kvframe.traces.values import TIMES, seem_times

Encoding = Literal["jsonl", "json", "csv", "parquet", "text", "compact", "log", "binary"]


class Row(msgspec.Struct, omit_defaults=True):
    """A request, in Mooncake's words.

    Attributes:
        timestamp: Arrival in milliseconds, from any zero.
        input_length: Tokens of the prompt.
        output_length: Tokens generated.
        hash_ids: An id for each block of the prompt, -2^63 to 2^64 - 1; two requests share a block
            where all ids up to it are the same. None where the form has no prefixes.
        block_size: Tokens a block.
        session_id: The conversation or agent that it is of.
        type: Its class, as `kvframe trace info` counts them.
    """

    timestamp: float
    input_length: int
    output_length: int
    hash_ids: Sequence[int] | None = None
    block_size: int | None = None
    session_id: int | str | None = None
    type: str | None = None


class Record(NamedTuple):
    """What a file holds one after the other: an object, or a line of text.

    Attributes:
        number: Of its line, from 1; of the object where a file is one list.
        value: The object, or the line. The values of CSV are texts.
    """

    number: int
    value: Any


@dataclass(frozen=True)
class Head:
    """The first part of a file, by which its form is recognised.

    Attributes:
        encoding: How its records are kept.
        data: The first bytes, unpacked; at least 64 KiB where there are as many.
        records: The first objects (at most 64), or lines of text.
        name: The file's name, which decides nothing.
    """

    encoding: Encoding
    data: bytes
    records: Sequence[Record]
    name: str = ""

    @property
    def first(self) -> dict[str, Any]:
        """The first record if it is an object, else an empty one."""
        value = self.records[0].value if self.records else None
        return value if isinstance(value, dict) else {}


@dataclass
class Given:
    """What the caller says of a file, and what its reader has to say.

    Attributes:
        name: The file, for messages.
        block_size: Tokens a block where the file does not say; None: the reader's choice.
        time_unit: "s", "ms", "us" or "ns", of times that are numbers; None: what the form says.
        tokenize: Token ids of a text. None for forms that do not lack "tokens".
        remarks: What a user must know of the figures; readers add to it.
    """

    name: str
    block_size: int | None = None
    time_unit: str | None = None
    tokenize: Callable[[str], Sequence[int]] | None = None
    remarks: list[str] = field(default_factory=list)

    def remark(self, text: str) -> None:
        """Adds a remark, once."""
        if text not in self.remarks:
            self.remarks.append(text)

    def unread_times(self, record: Mapping[str, Any]) -> None:
        """A remark on fields that look like a time, of a record whose time was not found."""
        if names := seem_times(record):
            told = ", ".join(map(repr, names))
            self.remark(
                f"{told} may be a time: it is read where it is called {' or '.join(TIMES[:3])}"
            )


class TraceReader(ABC):
    """Reads one form; a package's reader derives from it.

    Attributes:
        name: What ``--trace-format`` calls it.
        title: What messages and the documentation call it, as "Azure LLM inference traces".
        lacks: What a file of this form does not have and a replay needs: "prefixes" (lengths only,
            so `Row.hash_ids` is None), "tokens" (text, which needs `Given.tokenize`), "requests"
            (nothing that can be replayed), or "" for nothing.
        advice: What to do where it lacks "requests".
        native: The core reads the form itself, and `rows` is not called.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    lacks: ClassVar[Literal["", "prefixes", "tokens", "requests"]] = ""
    advice: ClassVar[str] = ""
    native: ClassVar[bool] = False

    @abstractmethod
    def recognises(self, head: Head) -> bool:
        """Whether a file that starts so is of this form."""

    @abstractmethod
    def rows(self, records: Iterable[Record], given: Given) -> Iterator[tuple[int, Row]]:
        """The requests, each with the number of its record, as far as possible in order of time.

        Raises:
            TraceError: A record is not of the form. Other exceptions than `kvframe.errors` that a
                record causes (`KeyError`, `TypeError`, `ValueError`) are reported with its number.
        """
