"""Whether pages enter a tier: the admission policies of the pool, asked for the tiers below it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvframe._core import TierGate
from kvframe.config.tiers import ResolvedTier
from kvframe.errors import PolicyError
from kvframe.policies.gate import AdmissionDriver, gate_of
from kvframe.policies.tier import UNKNOWN, KnownRow, Use
from kvframe.request import session_id
from kvframe.tiers.books import Books, Keys

COMPUTED, USED, EVICTED = 0, 1, 2
"""Why pages might enter now, as `kvframe.policies.admission.OCCASIONS` counts."""

Uses = npt.NDArray[np.uint32]


class Gate:
    """One tier's admission policy.

    Pages of a tier are closed under prefix, so after one that is dropped nothing of its prefix
    enters. A page that is for the tier below (`LOWER`) passes through this one.

    Args:
        tier: Its configuration.
        books: What it holds.
        kind: What it is, as policies are told: ``host``, ``disk`` or ``remote``.
        block_size: Tokens of a page.
    """

    def __init__(self, tier: ResolvedTier, books: Books, kind: str, block_size: int) -> None:
        chosen, settings = tier.admission, tier.config.admission
        strict = settings.on_error == "raise"
        gate = gate_of(chosen.loaded, chosen.options, block_size, settings.budget_ms, strict)
        self.name = chosen.name
        self._asked: Driven | TierGate
        if isinstance(gate, AdmissionDriver):
            self._asked = Driven(gate, strict=strict)
        else:
            self._asked = TierGate(gate, chosen.values)
        self._books, self._kind, self._block_size = books, kind, block_size
        self._now = 0
        # Where every page enters at once, nobody has to count.
        values = chosen.values
        at_once = {"always", "write-back"}
        self.counts_uses = self.name not in at_once and not (
            self.name == "write-through" and values.get("uses") in (None, 1)
        )

    def seen(self, keys: Keys) -> None:
        """A request has found or computed these pages."""
        self._asked.seen(keys, self._now)

    def takes(self, keys: Keys, start: int, uses: Uses, occasion: int, use: Use = UNKNOWN) -> int:
        """How many pages of a prefix, from the place ``start`` on, enter.

        Args:
            keys: The whole prefix.
            start: Pages that need not be asked about.
            uses: Of each page behind ``start``, in the tier above.
            occasion: `COMPUTED`, `USED` or `EVICTED`.
            use: The request.
        """
        if start >= len(keys):
            return 0
        self._now += 1
        free, *_ = self._books.counts()
        about = (self._now, self._kind, occasion, free, self._books.tier.pages)
        verdicts = self._asked.admit(keys[start:], start, self._block_size, uses, use.row(), about)
        dropped = np.flatnonzero(verdicts == 0)
        return int(dropped[0]) if len(dropped) else len(verdicts)


class Driven:
    """A policy in Python, asked as a `TierGate` is."""

    def __init__(self, driver: AdmissionDriver, *, strict: bool) -> None:
        self._driver, self._strict = driver, strict

    def seen(self, keys: Keys, now: int) -> None:
        if not self._driver.wants_seen:
            return
        try:
            self._driver.policy.seen(keys, now)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._failed(error)

    def admit(
        self,
        keys: Keys,
        start: int,
        block_size: int,
        uses: Uses,
        using: KnownRow,
        about: tuple[int, str, int, int, int],
    ) -> npt.NDArray[np.uint8]:
        session, turn, request_class, priority, tokens, _ = using
        n = len(keys)
        out = np.ones(n, np.uint8)
        columns: dict[str, npt.NDArray[np.generic]] = {
            "key": keys,
            "next": np.concatenate([keys[1:], np.zeros((1, 2), np.uint64)]),
            "depth": np.arange(start, start + n, dtype=np.uint32),
            "tokens": np.full(n, block_size, np.uint32),
            "group": np.zeros(n, np.uint8),
            "state": np.zeros(n, np.bool_),
            "reach": np.full(n, tokens, np.uint32),
            "prompt": np.full(n, tokens, np.uint32),
            "uses": uses,
            "session": np.full(n, session_id(session), np.uint64),
            "turn": np.full(n, turn, np.uint32),
            "request_class": np.full(n, request_class, np.uint32),
            "priority": np.full(n, priority, np.int32),
        }
        asked = {name: columns[name] for name in self._driver.columns}
        try:
            self._driver.admit(about, asked, None, out)
            if out.dtype != np.uint8 or out.shape != (n,) or (out > 2).any():
                raise PolicyError("admit: a verdict is 0, 1 or 2, one a block")
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._failed(error)  # everything is kept
            return np.ones(n, np.uint8)
        return out

    def _failed(self, error: BaseException) -> None:
        told = self._driver.failed(error, self._strict)
        if self._strict:
            raise told from error
