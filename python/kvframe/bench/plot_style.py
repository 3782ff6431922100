"""Colours, markers and fonts of the plots."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kvframe.bench.policies import BOUND, OPTIMUM
from kvframe.policies.builtin import BUILTIN

LINE_WIDTH = 1.8
# Any: the types of matplotlib name every key, and its versions differ in them.
RC: Any = {
    "font.size": 10,
    "axes.titlesize": 11,
    "svg.fonttype": "path",
    # The same cells give the same file.
    "svg.hashsalt": "kvframe",
}

# Okabe and Ito's colours that stand out on white (no yellow), darkest contrasts first.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A4EAB", "#8C5A2B")
# As many as have no divisor in common with the colours: 104 pairs before one comes again.
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*", "d")
# What no engine can run is black and grey: (colour, marker, rank).
_FIXED = {
    OPTIMUM: ("#000000", "*", 0),
    "opt-forced": ("#777777", "x", 3),
    BOUND: ("#777777", "", 4),
}
_DASHES: tuple[Any, ...] = ("-", "-", "-", (0, (4, 1.5)), (0, (1.5, 1.5)), (0, (5, 1, 1, 1)))
# A fixed place for each shipped policy: the same colour in every plot, whatever else is drawn.
_FIRST = ("lru", "lfuda", "lfu", "slru", "fifo")
_SHIPPED = tuple(dict.fromkeys((*_FIRST, *(policy.name for policy in BUILTIN))))


@dataclass(frozen=True)
class Style:
    """How one policy is drawn."""

    color: str
    marker: str
    rank: int

    def line(self) -> dict[str, Any]:
        """Keyword arguments of ``Axes.plot``.

        Lines that lie upon each other stay visible: later ones are thinner, broken and with smaller
        markers, drawn over the earlier.
        """
        return {
            "color": self.color,
            "marker": self.marker,
            "linestyle": _DASHES[min(self.rank, len(_DASHES) - 1)],
            "linewidth": max(LINE_WIDTH, 3.4 - 0.5 * self.rank),
            "markersize": max(4.5, 9.0 - 1.1 * self.rank),
            "markerfacecolor": self.color if self.rank % 2 == 0 else "white",
            "markeredgecolor": self.color,
            "zorder": 3 + self.rank,
        }


def styles(names: Sequence[str]) -> dict[str, Style]:
    """A style for each policy label, told apart by colour, marker and filling."""
    others = [name for name in names if name not in _FIXED and name not in _SHIPPED]
    order = [*_SHIPPED, *others]
    found = {}
    for name in names:
        if name in _FIXED:
            found[name] = Style(*_FIXED[name])
        else:
            rank = order.index(name)
            color = _COLORS[rank % len(_COLORS)]
            found[name] = Style(color, _MARKERS[rank % len(_MARKERS)], rank)
    return found
