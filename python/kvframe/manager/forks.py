"""The ways to fork a sequence, and which arguments go together."""

from __future__ import annotations

import numpy as np

from kvframe._core import Manager as Core
from kvframe.arguments import shown
from kvframe.errors import UsageError
from kvframe.request import TokenIds


def forked(
    core: Core,
    seq: int,
    n: int | None,
    *,
    tokens: TokenIds | None,
    upto: int | None,
    copy: bool,
) -> int | list[int]:
    """Fork ``seq`` as `KVCacheManager.fork` says."""
    if not isinstance(copy, bool | np.bool_):
        raise UsageError(f"copy = {shown(copy)}: must be True or False")
    if n is not None:
        if upto is not None or copy:
            raise UsageError("upto and copy: not with n, which forks a sequence as it is")
        return core.fork_many(seq, n, tokens)
    if tokens is not None:
        raise UsageError("tokens: needs n, the number of forks")
    if upto is None:
        if copy:
            raise UsageError("copy = True: needs upto, the tokens to share")
        return core.fork(seq)
    return core.fork_prefix(seq, upto, copy=bool(copy))
