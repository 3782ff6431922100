"""Charts as PNG and SVG, by matplotlib."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvframe.bench.charts.chart import Chart, Format, Series
from kvframe.bench.charts.choose import named, roles, slots
from kvframe.bench.charts.gathered import Gathered
from kvframe.bench.results import write_atomic
from kvframe.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = (
    "#1d57b0", "#b3430a", "#1a7544", "#7b3fa6", "#b01e6b", "#0d6b7d", "#7a5a00", "#4d5bd1",
)  # fmt: skip
"""Of the policies that are named, as in `document.css`: each is read as text on white."""
_PARTS = ("#1a7544", "#d9772b", "#8a63b8", "#7d9cc6", "#a9b6c6", "#d5dbe3")
_INK, _SOFT, _REST, _GRID = "#1b222c", "#55606e", "#aab2bc", "#e8ebef"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DASHES: dict[str | None, Any] = {"bound": (0, (4, 2.5)), "limit": (0, (1, 2.5))}
_MARKERS = "os^Dv<>p"
_DPI = 160
_INCHES = (7.6, 4.4)
_LABEL_STEP = 0.058
"""Least distance of two names, as a part of a panel's height."""
# Any: the types of matplotlib name every key, and its versions differ in them.
RC: Any = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "xtick.color": _SOFT,
    "ytick.color": _SOFT,
    "axes.edgecolor": _REST,
    "svg.fonttype": "path",
    "text.parse_math": False,  # a trace may have dollars in its name
    # The same numbers give the same file.
    "svg.hashsalt": "kvframe",
}


class Look:
    """How each policy is drawn: the best few in colour, lru and bounds in ink, the rest in grey."""

    def __init__(self, gathered: Gathered) -> None:
        self._gathered = gathered
        self._named = set(named(gathered))
        self._slots: Mapping[str, int] = slots(gathered)
        self._roles: Mapping[str, str] = roles(gathered)

    def is_named(self, name: str) -> bool:
        return name in self._named

    def below(self, chart: Chart, blocks: float) -> str:
        """A second line below a size in blocks: bytes, where the model is known."""
        token = self._gathered.token_bytes
        if token is None or not chart.block_size:
            return ""
        return "\n" + size_in(blocks * token * chart.block_size)

    def line(self, name: str) -> dict[str, Any]:
        """Keyword arguments of ``Axes.plot``."""
        if name not in self._named:
            return {"color": _REST, "linewidth": 0.8, "zorder": 2}
        role = self._roles.get(name)
        if role in _DASHES:
            return {"color": _SOFT, "linewidth": 1.4, "linestyle": _DASHES[role], "zorder": 3}
        if role == "baseline":
            return {"color": _INK, "linewidth": 2.0, "marker": "o", "zorder": 5}
        slot = self._slots[name] % len(COLORS)
        return {"color": COLORS[slot], "linewidth": 2.0, "marker": _MARKERS[slot], "zorder": 4}


def save(charts: Sequence[Chart], look: Look, folder: Path, suffix: str) -> int:
    """Draw each chart into a file of its own, and say how many there are.

    Args:
        charts: What to draw.
        look: Of the policies.
        folder: Made where it is missing.
        suffix: ``png`` or ``svg``.

    Raises:
        ConfigError: matplotlib is missing, or a file cannot be written.
    """
    taken: dict[str, int] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for chart in charts:
            name = file_name(chart)
            taken[name] = taken.get(name, 0) + 1
            # Traces of two folders may have one name.
            again = f"-{taken[name]}" if taken[name] > 1 else ""
            write_atomic(folder / f"{name}{again}.{suffix}", picture([chart], look, suffix))
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror}") from None
    return len(charts)


def file_name(chart: Chart) -> str:
    """A file name made of the chart's title, which every file system accepts."""
    return re.sub(r"[^a-z0-9.]+", "-", chart.title.lower().replace(",", "")).strip("-.")[:150]


def picture(charts: Sequence[Chart], look: Look, form: str) -> bytes:
    """The charts as panels of one picture.

    The background is an opaque white, so that the picture reads the same on a dark page.

    Raises:
        ConfigError: matplotlib is missing.
    """
    file = io.BytesIO()
    # No date inside: the same numbers give the same file.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
    made = figure(charts, look)
    import matplotlib as mpl

    with mpl.rc_context(RC):
        made.savefig(file, format=form, dpi=_DPI, metadata=metadata)
    return file.getvalue()


def figure(charts: Sequence[Chart], look: Look) -> Figure:
    """A panel for each chart: up to three in a row, more in rows of two.

    Raises:
        ConfigError: matplotlib is missing.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError(
            "pictures need matplotlib; install it with: pip install 'kvframe[plot]'"
        ) from None
    columns = len(charts) if len(charts) <= 3 else 2
    rows = -(-len(charts) // columns)
    width, height = _INCHES
    tallest = max(
        (0.26 * len(chart.x) + 1.2 for chart in charts if chart.form == "bars"), default=0
    )
    with mpl.rc_context(RC):
        size = (width * columns, max(height, tallest) * rows)
        made = Figure(figsize=size, facecolor="white", layout="constrained")
        axes = list(made.subplots(rows, columns, squeeze=False).flat)
        for axis, chart in zip(axes, charts, strict=False):
            (_bars if chart.form == "bars" else _lines)(axis, chart, look)
        for axis in axes[len(charts) :]:
            axis.set_axis_off()
    return made


# --- lines ----------------------------------------------------------------------------------------


def _lines(axis: Axes, chart: Chart, look: Look) -> None:
    x = [float(value) for value in chart.x]
    few = len(x) <= 24
    for series in chart.series:
        style = dict(look.line(series.name))
        if not few:
            style.pop("marker", None)
        y = [float("nan") if value is None else value for value in series.y]
        axis.plot(x, y, markersize=4.5, markeredgecolor="white", markeredgewidth=0.8, **style)
        if series.low and look.is_named(series.name):
            axis.fill_between(
                x, series.low, series.high, color=style["color"], alpha=0.12, linewidth=0
            )
    _axes(axis, chart, x, look)
    _names(axis, [one for one in chart.series if look.is_named(one.name)], chart, look)


def _axes(axis: Axes, chart: Chart, x: Sequence[float], look: Look) -> None:
    if chart.x_axis.log:
        axis.set_xscale("log", base=2)
        # Labels collide where sizes lie close together: at most eight of them.
        ticks = x[:: -(-len(x) // 8)] if x else []
        names = [_written(chart.x_axis.format, tick) + look.below(chart, tick) for tick in ticks]
        axis.set_xticks(ticks, names)
        axis.minorticks_off()
    else:
        axis.xaxis.set_major_formatter(lambda value, _: _written(chart.x_axis.format, value))
    if chart.y_axis.log:
        axis.set_yscale("log")
    else:
        low, high = axis.get_ylim()
        axis.set_ylim(min(low, 0.0), max(high, 0.0) or 1.0)
        if low >= 0:
            axis.set_ylim(bottom=0.0)
        elif high > 0:
            axis.axhline(0, color=_SOFT, linewidth=0.8, zorder=1)
    axis.yaxis.set_major_formatter(lambda value, _: _written(chart.y_axis.format, value))
    _span(axis, x, chart.x_axis.log)
    axis.set_xlabel(chart.x_axis.label)
    axis.set_ylabel(chart.y_axis.label)
    axis.set_title(chart.title, loc="left")
    axis.grid(axis="y", color=_GRID, linewidth=0.8)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _span(axis: Axes, x: Sequence[float], log: bool) -> None:
    """Limits a little beyond the first and the last x."""
    if len(x) < 2:
        return
    if log:
        more = (x[-1] / x[0]) ** 0.02
        axis.set_xlim(x[0] / more, x[-1] * more)
    else:
        more = 0.02 * (x[-1] - x[0])
        axis.set_xlim(x[0] - more, x[-1] + more)


def _names(axis: Axes, series: Sequence[Series], chart: Chart, look: Look) -> None:
    """Write each line's name beside its end, moved apart where lines end close together."""
    to_part = axis.transData + axis.transAxes.inverted()
    places = [float(value) for value in chart.x]
    ends = []
    for one in series:
        points = [(x, y) for x, y in zip(places, one.y, strict=True) if y is not None]
        if points and not (chart.y_axis.log and points[-1][1] <= 0):
            right, top = to_part.transform(points[-1])
            ends.append((float(right), float(top), one.name))
    ends.sort(key=lambda end: end[1])
    heights = spread([end[1] for end in ends], _LABEL_STEP)
    for (x, y, name), height in zip(ends, heights, strict=True):
        color = look.line(name)["color"]
        place: dict[str, Any] = {"transform": axis.transAxes, "clip_on": False, "color": color}
        axis.plot([x + 0.008, 1.035], [y, height], linewidth=0.7, alpha=0.6, **place)
        axis.text(1.045, height, name, va="center", **place)


# --- bars -----------------------------------------------------------------------------------------


def _bars(axis: Axes, chart: Chart, look: Look) -> None:
    rows = range(len(chart.x))
    left = [0.0] * len(chart.x)
    for at, series in enumerate(chart.series):
        wide = [max(value or 0.0, 0.0) for value in series.y]
        color = _PARTS[at % len(_PARTS)]
        axis.barh(
            rows,
            wide,
            left=left,
            color=color,
            label=series.name if any(wide) else None,
            height=0.72,
        )
        left = [start + more for start, more in zip(left, wide, strict=True)]
    axis.set_yticks(rows, [str(name) for name in chart.x])
    axis.margins(y=0.01)
    axis.invert_yaxis()
    axis.xaxis.set_major_formatter(lambda value, _: _written(chart.y_axis.format, value))
    axis.set_xlim(0, max(left, default=1.0) or 1.0)
    axis.set_xlabel(chart.y_axis.label)
    axis.set_title(chart.title, loc="left")
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.legend(
        loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, handlelength=1, handleheight=1
    )


# --- words ----------------------------------------------------------------------------------------


def _written(form: Format, value: float) -> str:
    match form:
        case "share":
            return f"{100 * value:.4g} %"
        case "points":
            return f"{100 * value:+.4g}" if value else "0"
        case "change":
            return f"{100 * value:+.4g} %" if value else "0 %"
        case "gap":
            return f"{100 * value:.4g}"
        case "seconds":
            return f"{value:g} s"
        case "milliseconds":
            return f"{1000 * value:g} ms"
        case "percent":
            return f"{value:g} %"
        case "blocks" | "count":
            return f"{value:,.0f}"
        case _:
            return f"{value:g}"


def spread(wanted: Iterable[float], step: float) -> list[float]:
    """Heights in the order of the ascending ``wanted``, at least ``step`` apart, between 0 and 1
    and each as near to what it wanted as its neighbours let it.

    Names that collide form a block, placed around the mean of what they wanted (pool adjacent
    violators).
    """
    blocks: list[tuple[float, int]] = []  # start of the block, names in it
    for height in wanted:
        start, count = max(height, 0.0), 1
        while blocks and blocks[-1][0] + blocks[-1][1] * step > start:
            before, size = blocks.pop()
            # Each name asks for a start of the joined block; the mean serves them all.
            start = (before * size + (start - size * step) * count) / (size + count)
            count += size
        blocks.append((max(start, 0.0), count))
    heights = [start + i * step for start, count in blocks for i in range(count)]
    last = len(heights) - 1
    return [min(height, 1.0 - (last - i) * step) for i, height in enumerate(heights)]


def size_in(size: float) -> str:
    """Bytes with three digits: ``20 GiB``, ``1.25 TiB``."""
    power = 0
    while size >= 1024 and power < len(_UNITS) - 1:
        size, power = size / 1024, power + 1
    return f"{size:.4g} {_UNITS[power]}" if size >= 1000 else f"{size:.3g} {_UNITS[power]}"
