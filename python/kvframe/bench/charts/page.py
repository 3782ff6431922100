"""One HTML file with everything in it: numbers, style and script; it asks no server for them."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from kvframe._core import __version__
from kvframe.bench.capacity import parse_shape
from kvframe.bench.charts.chart import FAMILIES, Chart, rounded
from kvframe.bench.charts.choose import named, roles, slots
from kvframe.bench.charts.gathered import BOUNDS, Gathered, Traffic
from kvframe.bench.charts.listing import charts, differences
from kvframe.bench.charts.paired import Paired
from kvframe.config.sizes import token_bytes
from kvframe.errors import ConfigError

SHAPES = {
    "32 layers of 8 KV heads (8B)": "layers=32,kv_heads=8,head_dim=128",
    "48 layers of 4 KV heads (30B, experts)": "layers=48,kv_heads=4,head_dim=128",
    "64 layers of 8 KV heads (32B)": "layers=64,kv_heads=8,head_dim=128",
    "80 layers of 8 KV heads (70B)": "layers=80,kv_heads=8,head_dim=128",
    "61 layers of one latent (MLA)": "layers=61,latent_dim=576",
}
"""Shapes of models whose KV takes 2 bytes a value, to choose from."""

_SCRIPTS = ("draw.js", "answer.js", "compare.js", "page.js")
_FILES = ("document.html", "document.css", *_SCRIPTS)


def write(gathered: Gathered, title: str | None = None) -> str:
    """The page.

    Args:
        gathered: What it shows.
        title: Its heading; what the traces are called where there is none.

    Raises:
        ConfigError: There is nothing to show.
    """
    if not (gathered.traffic or gathered.servers or gathered.rows or gathered.curves):
        raise ConfigError("nothing to report: the results have no cell of a size and no request")
    heading = title or _title(gathered)
    # In an HTML script a "<" might end it.
    data = msgspec.json.encode(_data(gathered, heading)).decode().replace("<", "\\u003c")
    folder = resources.files("kvframe.bench.charts")
    read = {name: folder.joinpath(name).read_text() for name in _FILES}
    parts = {
        "title": _escaped(heading),
        "style": read["document.css"],
        "data": data,
        "script": "\n".join(['"use strict";', *(read[name] for name in _SCRIPTS)]),
    }
    # All places are filled in one pass, so that inserted text is never taken for a place to fill.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], read["document.html"])


def _title(gathered: Gathered) -> str:
    names = [one.first.trace for one in gathered.traffic]
    names += [cell.trace for cell in gathered.servers] + [row.trace for row in gathered.rows]
    names += [one.trace for one in gathered.curves]
    return ", ".join(dict.fromkeys(Path(name).name for name in names))


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def _data(gathered: Gathered, title: str) -> dict[str, Any]:
    made = differences(gathered)
    drawn = charts(gathered, made)
    shapes = [
        {"name": name, "bytes": token_bytes(parse_shape(shape))} for name, shape in SHAPES.items()
    ]
    known = gathered.token_bytes
    shown = {chart.family for chart in drawn}
    return {
        "title": title,
        "from": f"{len(gathered.policies)} policies",
        "tokenBytes": known or shapes[0]["bytes"],
        "assumed": known is None,
        "shapes": shapes,
        "policies": gathered.policies,
        "named": named(gathered),
        "slots": slots(gathered),
        "roles": roles(gathered),
        "traffic": [_traffic(*each) for each in zip(gathered.traffic, made, strict=True)],
        "host": gathered.host_sentences,
        "families": {name: FAMILIES[name] for name in FAMILIES if name in shown},
        "charts": _ordered(drawn),
        "notes": [
            f"Written by kvframe {__version__}.",
            *(f"{source.name}: {source.told}" for source in gathered.sources),
            *gathered.remarks,
        ],
    }


def _ordered(drawn: list[Chart]) -> list[Chart]:
    order = list(FAMILIES)
    return sorted(drawn, key=lambda chart: order.index(chart.family))


def _from(traffic: Traffic) -> str:
    one = traffic.first
    tokens = f"{one.input_tokens:,}"
    if one.input_tokens >= 1e6:
        tokens = f"{one.input_tokens / 1e6:,.1f} million"
    bounds = sum(name in BOUNDS for name in traffic.policies)
    field = f"{len(traffic.policies) - bounds} policies and {bounds} bound{'s' * (bounds != 1)}"
    return f"{one.requests:,} requests, {tokens} prompt tokens, {field}"


def _traffic(traffic: Traffic, made: Paired) -> dict[str, Any]:
    references = {name: traffic.line(name) for name in sorted(BOUNDS) if name in traffic.policies}
    verdict = traffic.verdict
    return {
        "label": traffic.label,
        "from": _from(traffic),
        "blockSize": traffic.first.block_size,
        "policies": made.policies,
        "sizes": made.sizes,
        "rates": [rounded(row) for row in made.rates],
        "errors": [rounded(row, 7) for row in made.errors] or None,
        "reach": made.reach,
        "doubt": made.doubt,
        "references": references,
        "widest": verdict.capacity if verdict is not None else None,
    }
