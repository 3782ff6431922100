"""A plugin's frozen, typed description of each policy or store that it brings.

A descriptor says what a policy is called, how it is written, which options it takes and how to make
one. Making the policy itself is left to `make`, so listing policies costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, get_args

import msgspec

from kvframe.spelling import did_you_mean

Kind = Literal["eviction", "admission", "prefix", "store", "trace"]
Way = Literal["builtin", "batched", "native"]

KINDS: tuple[Kind, ...] = get_args(Kind)

_NAME = re.compile(r"[a-z0-9]+([-_.][a-z0-9]+)*")


@lru_cache(maxsize=256)  # built-in policies are described anew for every registry
def _wrong_schema(options: type[msgspec.Struct]) -> str | None:
    """Why this schema can neither check nor show a table of TOML; None if it can."""
    if options.__struct_config__.array_like:
        return "array_like: it must be a table"
    try:
        msgspec.json.schema(options)
    except Exception as error:
        return f"its fields must be of types that TOML has: {str(error).splitlines()[0]}"
    return None


@dataclass(frozen=True, kw_only=True)
class Descriptor:
    """The common fields of policies of every kind, and of stores.

    Attributes:
        name: The name TOML uses; the same as the entry point's. Lower-case words and digits, joined
            by ``-``, ``_`` or ``.``.
        way: ``batched`` (Python, arrays in and out), ``native`` (compiled, behind a capsule), or
            ``builtin`` (part of kvframe's core; for kvframe's own policies only).
        summary: One line that says what the policy does.
        source: The paper or the system it comes from.
        options: A `msgspec.Struct` class: the schema of its table of options, as
            ``[eviction.options]``. None means that the policy takes no options.
        make: Called with the checked options (an instance of `options`, or None without a schema)
            and answers a new policy. None for built-in policies, which the core makes itself.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: A field has an impossible value, or `make` does not go with `way`.
    """

    kind: ClassVar[Kind]

    name: str
    way: Way
    summary: str
    source: str = ""
    options: type[msgspec.Struct] | None = None
    make: Callable[[Any], object] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ValueError(
                f"name {self.name!r} must be lower-case words joined by '-', '_' or '.'"
            )
        if self.way not in get_args(Way):
            near = did_you_mean(str(self.way), get_args(Way))
            raise ValueError(
                f"way {self.way!r} of {self.name} must be builtin, batched or native{near}"
            )
        for field in ("summary", "source"):
            text = getattr(self, field)
            if not isinstance(text, str) or "\n" in text:
                raise TypeError(f"{field} of {self.name} must be a string of one line")
        if self.options is not None and not (
            isinstance(self.options, type) and issubclass(self.options, msgspec.Struct)
        ):
            raise TypeError(f"options of {self.name} must be a msgspec.Struct class or None")
        wrong = None if self.options is None else _wrong_schema(self.options)
        if wrong is not None:
            raise TypeError(f"options of {self.name} is no usable schema: {wrong}")
        if self.way == "builtin" and self.make is not None:
            raise ValueError(f"make of {self.name} must be None: the core makes built-in policies")
        if self.way != "builtin" and not callable(self.make):
            raise TypeError(f"make of {self.name} must be callable, for it is {self.way}")


@dataclass(frozen=True, kw_only=True)
class EvictionPolicy(Descriptor):
    """Which block is evicted next in a tier.

    Attributes:
        replay_only: The policy needs to know the future, so only a replay can run it.
    """

    kind: ClassVar[Kind] = "eviction"

    replay_only: bool = False


@dataclass(frozen=True, kw_only=True)
class AdmissionPolicy(Descriptor):
    """Whether a block enters a tier."""

    kind: ClassVar[Kind] = "admission"


@dataclass(frozen=True, kw_only=True)
class PrefixMatcher(Descriptor):
    """How a prompt becomes keys, and how much of a found prefix is taken."""

    kind: ClassVar[Kind] = "prefix"


@dataclass(frozen=True, kw_only=True)
class TierStore(Descriptor):
    """Where a lower tier keeps its pages: `make` answers a `kvframe.tiers.PageStore`.

    Attributes:
        shared: Other processes may write there too, so kvframe also looks for pages that this one
            did not write.
    """

    kind: ClassVar[Kind] = "store"

    shared: bool = False


@dataclass(frozen=True, kw_only=True)
class TraceForm(Descriptor):
    """A form of trace that is read: `make` answers a `kvframe.traces.TraceReader`."""

    kind: ClassVar[Kind] = "trace"


DESCRIPTORS: dict[Kind, type[Descriptor]] = {
    descriptor.kind: descriptor
    for descriptor in (EvictionPolicy, AdmissionPolicy, PrefixMatcher, TierStore, TraceForm)
}
