"""What both managers answered, beside the list of differences."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

from perf.peers import CACHE, SIDES, Peer

from tests.peers import traces
from tests.peers.ours import Ours
from tests.peers.scenarios import SCENARIOS, Seen, Side

HERE = Path(__file__).parent
RECORD = HERE / "vllm.json"
"""What vLLM answered in the scenarios, so that kvframe is held to it where there is no vLLM."""


class Theirs:
    """vLLM's manager in a Python of its own."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.name = peer.name

    def call(self, op: str, **args: Any) -> Any:
        """Ask it."""
        return self._peer.ask(op=op, **args)["value"]


def vllm_python() -> str | None:
    """A Python that has vLLM: ``$VLLM_PYTHON``, or the environment ``vllm`` in perf's cache."""
    kept = CACHE / "vllm" / "bin" / "python"
    return os.environ.get("VLLM_PYTHON") or (str(kept) if kept.exists() else None)


def start(python: str) -> Peer:
    """VLLM's side, started.

    Raises:
        PeerError: That Python cannot run it.
    """
    return Peer(str(HERE / "theirs.py"), python, PYTHONPATH=str(SIDES))


def reasons(table: str) -> dict[str, str]:
    """One table of differences.toml."""
    listed: dict[str, dict[str, str]] = tomllib.loads((HERE / "differences.toml").read_text())
    return listed[table]


def see(side: Side) -> dict[str, Seen]:
    """Every scenario, as a record holds it."""
    seen = {name: scenario(side) for name, scenario in SCENARIOS.items()}
    answers: dict[str, Seen] = json.loads(json.dumps(seen))
    return answers


def different(ours: dict[str, Seen], theirs: dict[str, Seen]) -> dict[str, tuple[Any, Any]]:
    """What differs: "scenario: what was looked at" → (kvframe's answer, vLLM's)."""
    assert ours.keys() == theirs.keys()
    return {
        f"{name}: {what}": (ours[name].get(what), theirs[name].get(what))
        for name in ours
        for what in ours[name].keys() | theirs[name].keys()
        if ours[name].get(what) != theirs[name].get(what)
    }


def unexplained(found: dict[str, tuple[Any, Any]]) -> list[str]:
    """A line for each difference that is not listed, and each listed one that is gone."""
    listed = reasons("scenarios")
    new = [f"{at}: kvframe {a}, vLLM {b}" for at, (a, b) in found.items() if at not in listed]
    return new + [f"{at}: listed, and equal now" for at in listed if at not in found]


def run_traces(theirs: Theirs) -> tuple[list[dict[str, Any]], list[str]]:
    """Every trace: a row each, and a line for each that is not as it should be."""
    rows, wrong = [], []
    kinds = [("", shape) for shape in traces.EQUAL]
    kinds += [(why, shape) for why, shapes in traces.EXPLAINED.items() for shape in shapes]
    count = dict.fromkeys(traces.EXPLAINED, 0)
    for why, shape in kinds:
        told = traces.run(shape, (Ours(), theirs))
        rows.append({**vars(shape), **vars(told), "explained_by": why or None})
        if not why:
            wrong += [f"{shape}: {line}" for line in told.different]
            continue
        count[why] += len(told.different)
        if len(told.different) > traces.MOST[why] * told.requests:
            wrong.append(f"{shape}: {len(told.different)} of {told.requests} differ")
        if why == "copies" and told.different and told.copies_before == 0:
            wrong.append(f"{shape}: differs before there is a copy: {told.different[0]}")
    wrong += [f"{why}: listed, and all is equal now" for why, n in count.items() if n == 0]
    wrong += [f"{why}: no such trace" for why in reasons("traces").keys() ^ count.keys()]
    return rows, wrong
