"""An admission policy for the blocks of one tier by key, for engines with a tier of their own.

As `kvframe.flat.TierPolicy` says which block leaves, this says which one enters.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from kvframe._core import TierGate
from kvframe.config import Resolved
from kvframe.drivers.admission import driver
from kvframe.drivers.asker import Terms
from kvframe.flat import UNKNOWN, Access, name_of, row_of


class FlatAdmission:
    """A policy that is asked whether new blocks are kept.

    Args:
        chosen: The policy, as a configuration has it: ``Resolved.admission``, or that of a tier.
        section: Its section, which says what a failure does.
        kind: What the tier is for policies: ``host``, ``disk`` or ``remote``.
        block_size: Tokens in a block.

    Raises:
        PluginError, PolicyError: The policy cannot be made.
    """

    def __init__(
        self, chosen: Any, section: Any, *, kind: str = "host", block_size: int = 16
    ) -> None:
        self.policy: str = chosen.name
        terms = Terms.of(section, chosen.options, block_size)
        self._asked = TierGate(driver(chosen.loaded, terms) or chosen.name, chosen.values)
        self._kind, self.block_size, self._now = kind, block_size, 0

    @classmethod
    def named(cls, policy: str, *, kind: str = "host", block_size: int = 16) -> FlatAdmission:
        """The policy of that name, with its options (``frequency:threshold=3``); no file and no
        variable is read.
        """
        resolved = Resolved.load(os.devnull, env={}, admission={"policy": policy})
        section = resolved.config.admission
        return cls(resolved.admission, section, kind=kind, block_size=block_size)

    def admitted(
        self,
        keys: Sequence[bytes],
        depths: Sequence[int] = (),
        *,
        use: Access = UNKNOWN,
        room: tuple[int, int] = (0, 0),
    ) -> list[bytes]:
        """The first of ``keys`` that are kept: after one that is not, a prefix ends.

        Args:
            keys: New blocks of one request, of any length each, in the order of their prefix.
            depths: The place of the first one in its prefix, in blocks; the others follow it.
            use: The request.
            room: Free blocks of the tier, and all of them.
        """
        names = [blake2b(name_of(key), digest_size=16).digest() for key in keys]
        if not names:
            return []
        self._now += 1
        self._asked.seen(names, self._now)
        start, uses = depths[0] if depths else 0, [1] * len(names)
        about = (self._now, self._kind, 0, *room)
        count = self._asked.admitted(names, start, self.block_size, uses, row_of(use), about)
        return list(keys[:count])
