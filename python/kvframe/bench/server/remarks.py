"""What is said below the tables of simulated servers."""

from __future__ import annotations

from collections.abc import Sequence

from kvframe.bench.server.cards import CARD, Card
from kvframe.bench.server.cells import Server
from kvframe.bench.server.fleet import Fleet
from kvframe.bench.server.shape import Served
from kvframe.bench.traces import Source


def of_fleets(fleets: Sequence[Fleet], sources: Sequence[Source]) -> list[str]:
    """Of several servers."""
    several = [fleet for fleet in fleets if fleet.servers > 1]
    said = [
        "--capacity is what each replica has; hit, TTFT, ITL and E2E are over the requests of all."
    ][: len(several)]
    if any(fleet.routing.name == "session" for fleet in several):
        said += [
            f"{source.name} names no sessions: --routing session sends each request where the "
            "fewest are."
            for source in sources
            if not (source.trace.columns()["session"] >= 0).any()
        ]
    return said


def of_server(
    server: Server, card: Card | None, shape: Served, sources: Sequence[Source]
) -> list[str]:
    """Of step times, the card, and sessions that sources do not name."""
    said = []
    if server.profile.uses_card:
        named = card.name if card is not None else CARD
        said.append(
            f"Step times: what a model of {shape.params / 1e9:g} billion parameters moves and "
            f"computes, by the data sheet of one {named}, times estimated factors. They are not "
            "measured."
        )
    if card is not None and server.profile.is_of_another(card):
        said.append(
            f"Step times of {server.profile.label} were measured on {server.profile.measured_on}: "
            f"--card {card.name} says what its memory holds, and changes no time."
        )
    if card is None:
        said.append("No --card was named: whether one holds the capacity was not checked.")
    if server.profile.is_fixed:
        said.append(
            "Fixed rates: one prompt after the other, and sequences that do not slow each other "
            "down; no limit on sequences or batches, no preemption."
        )
    nameless = [s.name for s in sources if not (s.trace.columns()["session"] >= 0).any()]
    if server.closed_loop:
        said += [f"{name} names no sessions: its requests come by the clock." for name in nameless]
    if server.returns is not None:
        said += [f"{name} names no sessions: no blocks come ahead of one." for name in nameless]
    return said
