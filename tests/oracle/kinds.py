"""What each kind of layer group attends to, keeps and needs: docs/reference/groups.md, in code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import lcm

from kvframe import GroupConfig


@dataclass(frozen=True)
class Kind:
    """A layer group's rule. Places and lengths are in tokens, rows are blocks of its own."""

    kind: str
    span: int
    """Tokens of a block."""
    window: int = 0
    """Of a chunked group, its chunk."""
    sink: int = 0
    lag: int = 0
    interval: int | None = None

    @property
    def full(self) -> bool:
        return self.kind == "full"

    @property
    def cross(self) -> bool:
        """Its blocks are another input's, and none of what follows is about them."""
        return self.kind == "cross"

    def config(self, name: str, size: int) -> GroupConfig:
        chunked = self.kind == "chunked"
        return GroupConfig(
            name=name,
            kind=self.kind,  # type: ignore[arg-type]
            window=self.window or None if not chunked else None,
            chunk=self.window if chunked else None,
            sink=self.sink if self.kind == "sink_window" else None,
            block_size=self.span if self.span != size else None,
            lag=self.lag,
            interval=self.interval,
        )

    def rows(self, tokens: int) -> int:
        return -(-tokens // self.span)

    def sees(self, at: int) -> list[int]:
        """The tokens that the token at a place attends to, of those before it."""
        match self.kind:
            case "full":
                return list(range(at))
            case "sliding_window":
                return list(range(max(at + 1 - self.window, 0), at))
            case "chunked":
                return list(range(at // self.window * self.window, at))
            case "sink_window":
                first = max(at - self.window, 0)
                return [t for t in range(at) if t < self.sink or t >= first]
            case "state":
                return [at - 1] if at else []
            case "cross":
                return []
        raise AssertionError(self.kind)

    @cache  # noqa: B019
    def needs(self, at: int) -> frozenset[int]:
        """The rows with what the token at a place attends to."""
        return frozenset(t // self.span for t in self.sees(at))

    @cache  # noqa: B019
    def gone(self, at: int) -> tuple[int, ...]:
        """The rows that the token at a place, and all after it, do without."""
        if self.cross:
            return ()
        return tuple(r for r in range(at // self.span) if r not in self.needs(at))

    def computed(self, committed: int, cached: int) -> int:
        """The length up to which its KV is there."""
        return max(committed - self.lag, min(cached, committed))

    @cache  # noqa: B019
    def held(self, at: int, cached: int, to: int | None = None) -> frozenset[int]:
        """The rows that a sequence holds while the tokens from a place to another are computed, or
        that at the place alone.
        """
        return self.held_after(self.computed(at, cached), at + 1 if to is None else to)

    def held_after(self, computed: int, to: int) -> frozenset[int]:
        """The rows that a sequence holds up to a length where so much is computed."""
        if self.cross:
            return frozenset()
        return frozenset(range(self.rows(to))).difference(self.gone(computed))

    def shared_front(self, gone: tuple[int, ...], shared: list[bool]) -> set[int]:
        """Of the rows that are not given up yet, those before the first that nobody shares."""
        if self.full:
            return set()
        first = max(-(-self.sink // self.span), max(gone, default=-1) + 1)
        own = (row for row in range(first, len(shared)) if not shared[row])
        return set(range(first, next(own, len(shared))))

    def reachable(self, row: int, step: int, ends: tuple[int, ...]) -> bool:
        """Whether a hit can need a block: one of a whole step, or of the end of a prompt."""
        if self.full:
            return True
        end = (row + 1) * self.span
        steps = [-(-end // step) * step] if step else []
        return any(at >= end and row in self.needs(at) for at in (*steps, *ends))


def unit(kinds: list[Kind]) -> int:
    """What the length of a hit is a multiple of."""
    return lcm(*(kind.span for kind in kinds if not kind.cross))


def step(kinds: list[Kind]) -> int:
    """The boundaries between which nothing but a prompt's end stays findable; 0: that alone."""
    intervals = [kind.interval for kind in kinds if kind.interval is not None]
    return 0 if 0 in intervals else lcm(unit(kinds), *intervals)
