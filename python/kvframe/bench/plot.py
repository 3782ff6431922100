"""Hit rate against capacity, one panel for each trace and mode, as PNG or SVG."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvframe.bench.cells import Cell
from kvframe.bench.plot_style import RC, Style, styles
from kvframe.bench.policies import BOUND
from kvframe.bench.results import write_atomic
from kvframe.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")
_PANEL_INCHES = (6.4, 4.4)
_DPI = 160
# Least distance of two labels, as a part of the panel's height.
_LABEL_STEP = 0.058


def save(cells: Sequence[Cell], path: Path) -> None:
    """Draw the cells into ``path``, whose suffix (.png or .svg) is the form.

    The background is an opaque white, so that the picture reads the same on a dark page; colours
    are told apart by the colour-blind, and every line has its own marker and its name at its end.

    Raises:
        ConfigError: another suffix, matplotlib is missing, no cell has a capacity, or the file
            cannot be written.
    """
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"-o {path}: must end in {' or '.join(SUFFIXES)}")
    if all(cell.capacity_blocks is None for cell in cells):
        raise ConfigError(f"-o {path}: nothing to draw, no cell has a capacity")
    picture = _picture(cells, path.suffix[1:])
    try:
        write_atomic(path, picture)
    except OSError as error:
        raise ConfigError(f"-o {path}: {error.strerror}") from None


def _picture(cells: Sequence[Cell], form: str) -> bytes:
    try:
        import matplotlib
    except ImportError:
        raise ConfigError(
            "bench plot: needs matplotlib; install it with: pip install 'kvframe[plot]'"
        ) from None
    picture = io.BytesIO()
    # No date inside: the same cells give the same file.
    metadata = {"Date": None} if form == "svg" else None
    with matplotlib.rc_context(RC):
        _figure(cells).savefig(picture, format=form, dpi=_DPI, metadata=metadata)
    return picture.getvalue()


def _figure(cells: Sequence[Cell]) -> Figure:
    from matplotlib.figure import Figure

    panels: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        panels[cell.trace, cell.mode].append(cell)
    style = styles(list(dict.fromkeys(cell.policy for cell in cells)))
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    width, height = _PANEL_INCHES
    figure = Figure(
        figsize=(width * columns, height * rows), facecolor="white", layout="constrained"
    )
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis, panel in zip(axes, panels.values(), strict=False):
        _draw(axis, panel, style)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    return figure


def _draw(axis: Axes, cells: list[Cell], style: dict[str, Style]) -> None:
    lines: dict[str, dict[int, float]] = defaultdict(dict)
    bounds: dict[str, float] = {}
    for cell in cells:
        if cell.capacity_blocks is None:
            bounds[cell.policy] = cell.token_hit_rate
        else:
            lines[cell.policy][cell.capacity_blocks] = cell.token_hit_rate
    sizes = sorted({size for line in lines.values() for size in line})
    ends = {}
    for name, line in lines.items():
        points = sorted(line.items())
        axis.plot(
            [size for size, _ in points],
            [rate for _, rate in points],
            label=name,
            clip_on=False,
            **style[name].line(),
        )
        ends[name] = points[-1][1]
    for name, rate in bounds.items():
        axis.axhline(rate, **style[name].line())
        ends[name] = rate
    _frame(axis, cells[0], sizes, max(ends.values(), default=0.0))
    _label_ends(axis, ends, style)


def _frame(axis: Axes, cell: Cell, sizes: list[int], top: float) -> None:
    axis.set_xscale("log", base=2)
    # Rounded labels collide where sizes lie close together: at most eight of them.
    ticks = sizes[:: -(-len(sizes) // 8)] if sizes else []
    axis.set_xticks(ticks, [f"{size:,}" for size in ticks])
    axis.minorticks_off()
    if len(sizes) > 1:
        axis.set_xlim(sizes[0] / 1.12, sizes[-1] * 1.12)
    axis.set_ylim(0, max(top * 1.12, 0.01))
    axis.set_xlabel("capacity in blocks (log scale)")
    axis.set_ylabel("token hit rate")
    axis.set_title(
        f"{Path(cell.trace).name}, {cell.mode} mode, blocks of {cell.block_size} tokens", loc="left"
    )
    axis.grid(axis="y", color="#dddddd", linewidth=0.7)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _label_ends(axis: Axes, ends: dict[str, float], style: dict[str, Style]) -> None:
    """Write each line's name beside its end, moved apart where lines end close together."""
    top = axis.get_ylim()[1]
    # On equal ends the bound stays above what reaches it.
    names = sorted(ends, key=lambda name: (ends[name], name == BOUND))
    heights = spread([ends[name] / top for name in names], _LABEL_STEP)
    for name, height in zip(names, heights, strict=True):
        look = style[name].line()
        place: dict[str, Any] = {"transform": axis.transAxes, "clip_on": False}
        axis.plot([1.05, 1.07, 1.09], [height] * 3, markevery=[1], **place, **look)
        axis.annotate(
            f"{name} {ends[name]:.3f}",
            xy=(1.0, ends[name] / top),
            xytext=(1.11, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            annotation_clip=False,
        )
        axis.plot(
            [1.0, 1.05],
            [ends[name] / top, height],
            **place,
            color=look["color"],
            linewidth=0.8,
        )


def spread(wanted: Iterable[float], step: float) -> list[float]:
    """Heights in the order of the ascending ``wanted``, at least ``step`` apart, between 0 and 1
    and each as near to what it wanted as its neighbours let it.

    Labels that collide form a block, placed around the mean of what they wanted (pool adjacent
    violators).
    """
    blocks: list[tuple[float, int]] = []  # start of the block, labels in it
    for height in wanted:
        start, count = max(height, 0.0), 1
        while blocks and blocks[-1][0] + blocks[-1][1] * step > start:
            before, size = blocks.pop()
            # Each label asks for a start of the joined block; the mean serves them all.
            start = (before * size + (start - size * step) * count) / (size + count)
            count += size
        blocks.append((max(start, 0.0), count))
    heights = [start + i * step for start, count in blocks for i in range(count)]
    last = len(heights) - 1
    return [min(height, 1.0 - (last - i) * step) for i, height in enumerate(heights)]
