"""Public prefixes: what an operator lets all tenants and salts share of their prompts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.arguments import is_int, shown
from kvframe.errors import UsageError
from kvframe.files import read_regular
from kvframe.request import Request, TokenIds

MOST_BYTES = 1 << 26
"""Of a file of prefixes."""

Ids = npt.NDArray[np.uint32]
Node = dict[bytes, "Node"]
"""What may follow some blocks of a prefix, by the tokens of the next one."""


class PublicPrefixes:
    """Prefixes that all tenants and salts share, in whole blocks: system prompts, tool definitions.

    Of a request's prompt, the blocks at the front that one of them begins with are public: found by
    all, whichever request computed them. What comes behind is found by its tenant and salt alone. A
    prompt shares no more than that: what is not in the list is private, whatever a client sends.

    Attributes:
        block_size: Tokens of a block.
        blocks: How many different blocks they have, of one layer group.

    Args:
        prefixes: Token ids of each.
        block_size: As above.

    Raises:
        UsageError: One is no row of token ids, or fills no block; or ``block_size`` is below 1.
    """

    def __init__(self, prefixes: Iterable[TokenIds], block_size: int) -> None:
        if not is_int(block_size) or block_size < 1:
            raise UsageError(f"block_size = {shown(block_size)}: must be an integer of at least 1")
        self.block_size, self.blocks = block_size, 0
        self._first: Node = {}
        # None: nothing is public. A request as its own value would never be freed.
        self._shared: WeakKeyDictionary[Request, Request | None] = WeakKeyDictionary()
        for at, prefix in enumerate(prefixes):
            self._add(f"public prefix {at + 1}", prefix)

    @classmethod
    def read(cls, path: str | os.PathLike[str], block_size: int) -> PublicPrefixes:
        """Those of a file with a JSON list of token ids a line.

        Raises:
            OSError: It cannot be read.
            UsageError: A line is no such list.
        """
        made = cls((), block_size)
        for at, line in enumerate(read_regular(path, MOST_BYTES).splitlines()):
            if line.strip():
                try:
                    row = msgspec.json.decode(line, type=list[int])
                except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                    raise UsageError(f"line {at + 1}: {error}: must be token ids") from error
                made._add(f"line {at + 1}", row)
        return made

    def count(self, tokens: Ids) -> int:
        """Blocks at the front of a prompt that are public."""
        size, node, count = self.block_size, self._first, 0
        while node and (count + 1) * size <= len(tokens):
            following = node.get(tokens[count * size : (count + 1) * size].tobytes())
            if following is None:
                break
            node, count = following, count + 1
        return count

    def shared(self, request: Request) -> Request:
        """The request with what is public of it marked; itself if nothing is.

        Keys that an engine brings say themselves what they share, another input that is attended to
        is in every block, and a block with a multimodal item in it holds more than its tokens.
        """
        if request in self._shared:
            known = self._shared[request]
        else:
            known = self._shared[request] = self._marked(request)
        return request if known is None else known

    def _marked(self, request: Request) -> Request | None:
        tokens = request.prompt
        if tokens is None or request.keys is not None or request.encoder or request.encoder_tokens:
            return None
        count = self.count(tokens)
        items = [start for start, _, _ in request.mm_items]
        count = min([count, *(start // self.block_size for start in items)])
        return request.with_public(count, self.block_size) if count else None

    def _add(self, told: str, prefix: TokenIds) -> None:
        ids = _ids(told, prefix)
        if len(ids) < self.block_size:
            limit = f"must fill a block of {self.block_size} tokens"
            raise UsageError(f"{told}: {len(ids)} tokens: {limit}")
        node = self._first
        for start in range(0, len(ids) - self.block_size + 1, self.block_size):
            name = ids[start : start + self.block_size].tobytes()
            self.blocks += name not in node
            node = node.setdefault(name, {})

    def __repr__(self) -> str:
        return f"PublicPrefixes({self.blocks} blocks of {self.block_size} tokens)"


def _ids(told: str, prefix: TokenIds) -> Ids:
    try:
        found = np.asarray(prefix)
    except (ValueError, OverflowError, TypeError):
        raise UsageError(f"{told} = {shown(prefix)}: must be token ids") from None
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
        raise UsageError(f"{told} = {shown(prefix)}: must be token ids")
    if len(found) and not (found.min() >= 0 and found.max() < 2**32):
        raise UsageError(f"{told}: holds ids out of 0 to {2**32 - 1}")
    return np.ascontiguousarray(found, np.uint32)
