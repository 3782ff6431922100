"""The native way to write an eviction policy: compiled functions that the core calls itself.

They run inside the operation, under the core's lock and without the interpreter's, at about the
cost of a built-in policy. The contract is ``kvframe_policy.h`` in `include_dir`. What such a policy
answers is checked; what it does to memory is not: a wrong pointer takes the process down, as in any
extension.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe.arguments import is_int, shown
from kvframe.errors import PolicyError
from kvframe.spelling import did_you_mean

ABI = (1, 0)
"""The version of the interface that this kvframe speaks: major, minor."""

CAPSULE = "kvframe.eviction.v1"
"""The name of a capsule that holds a table of that version."""

NONE = 0xFFFF_FFFF
"""No block, no place, no victim."""

ACCESS: np.dtype[np.void] = np.dtype(
    [
        ("session", np.uint64),
        ("turn", np.uint32),
        ("request_class", np.uint32),
        ("priority", np.int32),
        ("tokens", np.uint32),
        ("next_uses", np.uintp),
    ],
    align=True,
)
"""``kvf_access``: the request that an event comes from. ``next_uses`` is the address of a uint32 a
block."""

_EVENT = "int32(voidptr, voidptr, uint64, uint32, CPointer(uint32))"

SIGNATURES: Mapping[str, str] = {
    "create": "voidptr(voidptr)",
    "destroy": "void(voidptr)",
    "resize": "int32(voidptr, uint32)",
    "insert": "int32(voidptr, voidptr, uint64, uint32, CPointer(uint32), CPointer(uint32), "
    "CPointer(uint32), CPointer(uint64), voidptr)",
    "hit": "int32(voidptr, voidptr, uint64, uint32, CPointer(uint32), voidptr)",
    "acquire": _EVENT,
    "release": _EVENT,
    "on_evictable": _EVENT,
    "remove": "int32(voidptr, voidptr, uint64, uint32, uint32)",
    "victim": "int64(voidptr, voidptr, uint64)",
    "score": "int32(voidptr, voidptr, uint64, uint32, CPointer(voidptr), CPointer(float64))",
}
"""Types of the functions in numba's words: ``@numba.cfunc(SIGNATURES["victim"])``."""

COLUMNS: Mapping[str, tuple[int, str]] = {
    "block": (0, "uint32"),
    "depth": (1, "uint32"),
    "parent": (2, "uint32"),
    "last_use": (3, "uint64"),
    "inserted": (4, "uint64"),
    "uses": (5, "uint32"),
    "reach": (6, "uint32"),
    "session": (7, "uint64"),
    "turn": (8, "uint32"),
    "request_class": (9, "uint32"),
    "priority": (10, "int32"),
    "next_use": (11, "uint32"),
}
"""Columns for ``score``: place in ``columns``, type. What they mean: `kvframe.policies.COLUMNS`."""

FACTS = ("parents", "depths", "keys", "next_uses")
"""What events get of their blocks if a policy wants it, and null pointers if not: ``insert`` all of
them, ``hit`` the last, which comes in ``kvf_access``."""


class NativePolicy:
    """A compiled policy: what ``make`` of an `EvictionPolicy` with ``way="native"`` answers.

    Args:
        capsule: A PyCapsule called `CAPSULE` that points to a ``kvf_eviction_v1``. The table is
            copied; the capsule is kept as long as its functions may be called.
        options: Numbers that ``create`` gets, in this order.

    A capsule or table of another version is refused with `AbiError` when a cache is built with it.
    """

    def __init__(self, capsule: object, *, options: Iterable[float] = ()) -> None:
        if type(capsule).__name__ != "PyCapsule":
            raise PolicyError(
                f"NativePolicy needs a PyCapsule, not a {type(capsule).__name__}; "
                "functions go to NativePolicy.of_functions"
            )
        self.capsule: object | None = capsule
        self.options = _numbers(options)
        self.functions: dict[str, int] = {}
        self.abi = ABI
        self.wants: list[str] = []
        self.window: int | None = None
        self.block_bytes = 0
        self.state = b""
        self._keep: tuple[object, ...] = ()

    @classmethod
    def of_functions(
        cls,
        functions: Mapping[str, object],
        *,
        abi: tuple[int, int],
        wants: Iterable[str] = (),
        window: int | None = None,
        block_bytes: int = 0,
        state: bytes | npt.NDArray[Any] = b"",
        options: Iterable[float] = (),
    ) -> NativePolicy:
        """A policy made of functions: of numba, of ctypes, of any shared library.

        Args:
            functions: By the names in `SIGNATURES`: addresses, or objects that have one and are
                kept (``@cfunc``). The caller keeps the function behind an address alive.
            abi: The version of the interface that they were written for: a literal, not `ABI`.
            wants: Columns that ``score`` reads, or `FACTS` that ``insert`` reads.
            window: Candidates that ``score`` is offered at a time: 0 for all, None for 256.
            block_bytes: Memory a block, given by the core and zeroed at first; every function gets
                its start, block ``b``'s share is ``b * block_bytes`` further.
            state: What the state of each cache begins as, where there is no ``create``; copied.
            options: Numbers that ``create`` gets.

        Raises:
            PolicyError: A function of another name, or one that is no address; or another argument
                of the wrong type, or out of its limits.
        """
        if not isinstance(functions, Mapping):
            raise PolicyError(f"functions = {shown(functions)}: must be a mapping of names")
        self = cls.__new__(cls)
        self.capsule = None
        self.options = _numbers(options)
        self.functions = {name: _address(name, given) for name, given in functions.items()}
        self.abi = _version(abi)
        self.wants = _columns(wants)
        self.window = None if window is None else _whole("window", window)
        self.block_bytes = _whole("block_bytes", block_bytes)
        self.state = _bytes(state)
        self._keep = tuple(functions.values())
        return self


def include_dir() -> str:
    """The folder of ``kvframe_policy.h``, for a compiler's ``-I``."""
    return str(Path(__file__).with_name("include"))


def _address(name: str, given: object) -> int:
    if name not in SIGNATURES:
        raise PolicyError(f"no function is called {name!r}; there are {', '.join(SIGNATURES)}")
    address = given if isinstance(given, int) else getattr(given, "address", None)
    if not isinstance(address, int) or isinstance(address, bool) or not 0 < address < 2**64:
        raise PolicyError(f"{name} = {given!r}: must be a function's address, or have one")
    return address


def _version(given: object) -> tuple[int, int]:
    pair = given if isinstance(given, tuple | list) else ()
    if len(pair) != 2 or not all(is_int(part) and 0 <= part < 2**16 for part in pair):
        raise PolicyError(f"abi = {shown(given)}: must be (major, minor), as (1, 0)")
    return int(pair[0]), int(pair[1])


def _columns(given: object) -> list[str]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise PolicyError(f"wants = {shown(given)}: must be a sequence of names")
    names = list(given)
    known = (*COLUMNS, *FACTS)
    for name in names:
        if not isinstance(name, str) or name not in known:
            near = did_you_mean(str(name), known) or f"; there are {', '.join(known)}"
            told = f'"{name}"' if isinstance(name, str) else shown(name)
            raise PolicyError(f"wants: no column or fact is called {told}{near}")
    return names


def _whole(name: str, given: object) -> int:
    number = int(given) if isinstance(given, int | np.integer) else -1
    if not 0 <= number < 2**32:
        raise PolicyError(f"{name} = {shown(given)}: must be an integer between 0 and {2**32 - 1}")
    return number


def _bytes(given: object) -> bytes:
    if isinstance(given, np.ndarray):
        return given.tobytes()
    if not isinstance(given, bytes | bytearray | memoryview):
        raise PolicyError(f"state = {shown(given)}: must be bytes or an array")
    return bytes(given)


def _numbers(given: object) -> list[float]:
    try:
        return [float(value) for value in given]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise PolicyError(f"options = {shown(given)}: must be numbers") from None
