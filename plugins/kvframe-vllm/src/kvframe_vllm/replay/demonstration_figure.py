"""The figure of the demonstration: hit rates over time, before and after the switch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

STYLE: Any = {"font.size": 10, "svg.fonttype": "path", "svg.hashsalt": "kvframe"}
LRU, OTHER, MEASURED = "#0072B2", "#D55E00", "#000000"


def draw(record: dict[str, Any], path: Path) -> None:
    """Draw it into a file; its suffix (.svg, .png) is the form."""
    rows, switched = record["windows"], record["switched"]
    policy, places = switched["policy"], [row["requests"] for row in rows]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 4.2), layout="constrained")
        axis = figure.subplots()
        low, high = zip(*(sorted(row["band"]) for row in rows), strict=True)
        axis.fill_between(
            places, low, high, color=OTHER, alpha=0.2, linewidth=0, label=f"{policy}, ±10 % blocks"
        )
        for key, name, color, style in (
            ("predicted", f"{policy} in shadow", OTHER, "--"),
            ("lru", "lru in shadow", LRU, "--"),
            ("measured", "measured in vLLM's pool", MEASURED, "-"),
        ):
            axis.plot(places, [row[key] for row in rows], style, color=color, label=name)
        at = places[switched["window"] - 1]
        axis.axvline(at, color="#777777", linewidth=1)
        top = 1.15 * max(max(row["measured"], *row["band"]) for row in rows)
        axis.annotate(f" switched to {policy}", (at, top), va="top", color="#555555")
        axis.set(
            xlabel=f"requests (a point: {record['window']})",
            ylabel="share of prompt tokens found cached",
            xlim=(0, places[-1]),
            ylim=(0, top),
        )
        axis.legend(loc="lower left", frameon=False)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
