"""A request of vLLM as kvframe takes it, and what it has: its hashes are the keys."""

from __future__ import annotations

import warnings
from typing import Any

import msgspec

from kvframe import Request
from kvframe.retention import Keep, Retention, TokenRange
from kvframe_vllm.manager.windows import NEVER
from kvframe_vllm.pool import use_of_request


def request_of(request: Any, keys: list[bytes]) -> Request:
    """The request, with what its client says of it; values that cannot be read are left out."""
    options: dict[str, Any] = {"resumed": True} if request.num_preemptions else {}
    params = request.kv_transfer_params
    if params is not None or request.priority or request.session_id is not None:
        use = use_of_request(request)
        options |= {"session": use.session, "turn": use.turn, "priority": use.priority}
        options |= {"request_class": use.request_class, "retention": retention_of(params)}
    return Request(None, keys=keys, num_tokens=request.num_tokens, **options)


class Asked:
    """A request that waits.

    Args:
        request: vLLM's.
        size: Tokens of a block.

    Attributes:
        asked: vLLM's request.
        request: As kvframe takes it, with the keys of all of its full blocks.
        found: Tokens that were found of it last; -1 if that is not known.
    """

    __slots__ = ("_keys", "_size", "asked", "found", "request")

    def __init__(self, request: Any, size: int) -> None:
        self.asked, self._size, self.found = request, size, -1
        keys = request.block_hashes[: request.num_tokens // size]
        self._keys, self.request = len(keys), request_of(request, keys)

    def limited(self, tokens: int | None) -> Request:
        """The request, of which at most so many tokens are to be found."""
        if tokens is None or tokens >= self.asked.num_tokens - 1:
            return self.request
        return request_of(self.asked, self.asked.block_hashes[: tokens // self._size])

    def finding(self, hits: int, *, reads: bool) -> Request:
        """The request, of which just so many blocks are to be found."""
        if not hits:
            none = self.found == 0 and reads
            return self.request if none else self.request.replace(read_cache=False)
        whole = self.found == hits * self._size
        return self.request if whole else self.limited(hits * self._size)

    def named(self, hits: int) -> int:
        """How many keys the request has that `finding` returned."""
        whole = not hits or self.found == hits * self._size
        return self._keys if whole else hits


class Held:
    """What a request has.

    Attributes:
        request: vLLM's.
        seq: kvframe's handle.
        tables: Its block tables, one a group.
        room: Tokens that have slots.
        cached: Blocks at the front that are findable.
        due: The length at which the next one is full.
        leaves: The computed length at which the next block leaves a window.
        named: Blocks at the front whose keys kvframe has.
    """

    __slots__ = ("cached", "due", "leaves", "named", "request", "room", "seq", "tables")

    def __init__(self, request: Any, seq: int, named: int) -> None:
        self.request, self.seq, self.named = request, seq, named
        self.tables: list[list[int]] = []
        self.room = self.cached = self.due = 0
        self.leaves = NEVER


class _Wishes(msgspec.Struct, frozen=True):
    """``kv_transfer_params["kvframe"]["retention"]``: of the prompt, and of the answer."""

    prompt: Keep | None = None
    answer: Keep | None = None


def retention_of(params: object) -> Retention | None:
    """How important a client says that its blocks are; None where it says nothing that can be
    read, which is warned of.
    """
    # Clients send anything: what cannot be read is left out, and never raises.
    try:
        told = params.get("kvframe") if isinstance(params, dict) else None
        told = told.get("retention") if isinstance(told, dict) else None
        if told is None:
            return None
        asked = msgspec.convert(told, _Wishes)
        ranges = [] if asked.prompt is None else [TokenRange(0, None, asked.prompt)]
        return Retention(ranges, asked.answer)
    except Exception as error:
        told_of = f"{type(error).__name__}: {error}"
        warnings.warn(f"the retention of a request is left out: {told_of}", stacklevel=2)
        return None
