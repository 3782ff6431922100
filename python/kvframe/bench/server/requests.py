"""One row a request, in a file: CSV, or JSON lines."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import numpy as np

from kvframe.bench.server.cells import ServerPlan, Simulated
from kvframe.errors import ConfigError

FATES = ("unfinished", "finished", "rejected")


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """A request in a simulation. Times are seconds of the trace's clock; None: it never came.

    ``cached_tokens`` were found in the pool, ``tier_tokens`` came from each tier and
    ``peer_tokens`` from another replica's pool, as it first came in.
    """

    trace: str
    policy: str
    capacity_blocks: int
    load: float
    request: int
    fate: str
    input_tokens: int
    output_tokens: int
    arrival: float | None
    start: float | None
    first_token: float | None
    end: float | None
    cached_tokens: int
    recomputed_tokens: int
    preemptions: int
    tier_tokens: dict[str, int] = {}
    peer_tokens: int = 0

    @property
    def found(self) -> int:
        """Prompt tokens that need not be computed as it first came in."""
        return self.cached_tokens + self.peer_tokens + sum(self.tier_tokens.values())


def as_texts(row: msgspec.Struct) -> tuple[object, ...]:
    """Its fields for a line of CSV; tables as JSON."""
    return tuple(
        msgspec.json.encode(value).decode() if isinstance(value, dict) else value
        for value in msgspec.structs.astuple(row)
    )


def check_file(path: Path) -> None:
    """Whether a file of that name is understood.

    Raises:
        ConfigError: Its suffix is another.
    """
    if path.suffix not in (".csv", ".jsonl"):
        raise ConfigError(f"--requests {path}: must end in .csv or .jsonl")


def write_requests(path: Path, simulated: Iterable[tuple[ServerPlan, Simulated]]) -> None:
    """Write the requests of all simulations, one after the other.

    Raises:
        OSError: The file cannot be written.
    """
    rows = (row for plan, one in simulated for row in rows_of(plan, one))
    if path.suffix == ".jsonl":
        with path.open("wb") as file:
            file.writelines(msgspec.json.encode(row) + b"\n" for row in rows)
        return
    with path.open("w", newline="", encoding="utf-8") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(RequestRow.__struct_fields__)
        writer.writerows(map(as_texts, rows))


def rows_of(plan: ServerPlan, one: Simulated) -> Iterator[RequestRow]:
    """The requests of a simulation, in the trace's order."""
    trace = plan.source.trace.columns()
    own = one.columns
    columns = (
        *(own[name].tolist() for name in ("fate", "arrival", "start", "first_token", "end")),
        *(trace[name].tolist() for name in ("input_tokens", "output_tokens")),
        *(own[name].tolist() for name in ("cached_tokens", "recomputed_tokens", "preemptions")),
    )
    tiers = own.get("tiers", ())
    names = one.cell.tier_names
    loaded = [()] * len(own["fate"])
    if tiers:
        loaded = np.array([tier["loaded"] for tier in tiers]).T.tolist()
    fetched = own["peer_tokens"].tolist()
    for at, row in enumerate(zip(*columns, strict=True)):
        fate, arrival, start, first_token, end, tokens, answer, cached, again, preemptions = row
        yield RequestRow(
            trace=one.cell.trace,
            policy=one.cell.policy,
            capacity_blocks=one.cell.capacity_blocks,
            load=one.cell.load,
            request=at,
            fate=FATES[fate],
            input_tokens=tokens,
            output_tokens=answer,
            arrival=_known(arrival),
            start=_known(start),
            first_token=_known(first_token),
            end=_known(end),
            cached_tokens=cached,
            recomputed_tokens=again,
            preemptions=preemptions,
            tier_tokens=dict(zip(names, loaded[at], strict=True)),
            peer_tokens=fetched[at],
        )


def _known(value: float) -> float | None:
    return value if value == value else None  # NaN differs from itself
