"""The tables of simulated servers, as text, JSON or CSV."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from kvframe.bench.render import aligned
from kvframe.bench.report import Table
from kvframe.bench.server import routing
from kvframe.bench.server.cells import ServerCell, ServerPlan
from kvframe.bench.server.fleet import PartCell
from kvframe.bench.server.requests import as_texts
from kvframe.bench.server.summary import short
from kvframe.bench.server.tier_verdict import tier_sentence, tier_table
from kvframe.bench.server.verdict import Cells, sentence

NOTES = (
    "TTFT: arrival to first token. ITL: token to token, over all tokens. E2E: arrival to last "
    "token. Percentiles by nearest rank.",
    "good/s: requests a second that kept --sla. busy: share of the time in which a step ran. "
    "running, waiting: mean number of requests.",
)


def text(
    cells: Cells,
    parts: tuple[Sequence[PartCell], Sequence[PartCell]],
    remarks: Sequence[str],
    floods: Sequence[str],
) -> str:
    """Tables for each trace, capacity and number of replicas, then the notes and the verdicts.

    Args:
        cells: The simulations.
        parts: What each replica did, and what each class felt.
        remarks: What the figures depend on.
        floods: What is said of one class's flood.
    """
    groups: dict[tuple[str, int, int], list[ServerPlan]] = defaultdict(list)
    for plan in cells:
        groups[plan.source.name, plan.capacity, plan.fleet.replicas].append(plan)
    lines: list[str] = []
    for (name, size, replicas), plans in groups.items():
        shown = [cells[plan] for plan in plans if plan.time_factor == 1.0]
        first = shown[0]
        fleet = plans[0].fleet
        each = f"{fleet.crew} of " if fleet.servers > 1 else ""
        lines += [
            f"{name}: {first.requests:,} requests, {each}{first.capacity_blocks:,} blocks of "
            f"{first.block_size} tokens, step times {first.profile}",
            *dict.fromkeys(f"below the pool: {cell.tiers}" for cell in shown if cell.tiers),
            "",
        ]
        tables = [_felt(shown), _done(shown)]
        for of, table_of in zip(
            parts, (routing.replicas_table, routing.classes_table), strict=True
        ):
            here = [
                p for p in of if (p.trace, p.capacity_blocks, p.replicas) == (name, size, replicas)
            ]
            tables += [table_of(shown, here)] if here else []
        if any(cell.tiers for cell in shown):
            tables.append(tier_table(shown))
        for table in tables:
            lines += [table.title, *aligned(table), ""]
    lines += [*remarks, *NOTES, ""]
    lines += [*verdicts(cells), *tier_verdicts(cells), *floods]
    return "\n".join(lines) + "\n"


class ServerResult(msgspec.Struct, frozen=True, kw_only=True):
    """What ``--format json`` has.

    Attributes:
        cells: One a simulation; a number that is not there is null.
        by_replica: What each replica did, where there are several.
        by_class: What the requests of each class felt, with ``--flood``.
        model_shape: As it was asked for.
        token_bytes: Bytes of a token's KV, in all layers.
        verdicts: A sentence for each trace, capacity and load.
        tier_verdicts: Whether the tiers pay, likewise.
        remarks: What the figures depend on.
    """

    cells: list[ServerCell]
    by_replica: list[PartCell] = []
    by_class: list[PartCell] = []
    model_shape: str = ""
    token_bytes: int | None = None
    verdicts: list[str] = []
    tier_verdicts: list[str] = []
    remarks: list[str] = []


class ExperimentResult(ServerResult, frozen=True, kw_only=True):
    """What ``--format json`` has of an experiment: ``cells`` and sentences of all its variants. The
    name of each trace begins with the variant's; the last verdicts are those between variants.

    Attributes:
        experiment: Its name.
        variants: The variant of each cell, in the order of ``cells``.
        draws: How often its traffic was drawn for the verdict between variants; cells are of the
            first draw.
    """

    experiment: str
    variants: list[str]
    draws: int


def verdicts(cells: Cells) -> list[str]:
    """A sentence for each trace, capacity, load and fleet, and one for each choice of a routing."""
    return [*(sentence(group) for group in _by_load(cells)), *routing.sentences(cells)]


def tier_verdicts(cells: Cells) -> list[str]:
    """Whether the tiers pay: a sentence for each trace, capacity and load that has some."""
    return [said for group in _by_load(cells) if (said := tier_sentence(group))]


def _by_load(cells: Cells) -> list[Cells]:
    groups: dict[object, Cells] = defaultdict(dict)
    for plan, cell in cells.items():
        groups[plan.group][plan] = cell
    return list(groups.values())


def json(result: ServerResult) -> str:
    """An object; its ``cells`` have those of other time factors, too."""
    return msgspec.json.format(msgspec.json.encode(result)).decode() + "\n"


def comma_separated(cells: Sequence[ServerCell]) -> str:
    """A header line and a line a simulation."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(ServerCell.__struct_fields__)
    writer.writerows(map(as_texts, cells))
    return out.getvalue()


def _felt(cells: Sequence[ServerCell]) -> Table:
    names = ("mean", "P50", "P90", "P99")
    header = ["policy", *_fleet_header(cells), "load", "hit"]
    header += [f"TTFT {name}" for name in names]
    header += [f"ITL {name}" for name in names]
    header += [f"E2E {name}" for name in names]
    table = Table("What users feel, TTFT and E2E in s, ITL in ms", header)
    for cell in cells:
        row = [cell.policy, *_fleet_row(cell), f"{cell.load:g}", f"{cell.token_hit_rate:.4f}"]
        row += [short(v) for v in (cell.ttft_mean, cell.ttft_p50, cell.ttft_p90, cell.ttft_p99)]
        itl = (cell.itl_mean, cell.itl_p50, cell.itl_p90, cell.itl_p99)
        row += [short(v, 1e3) for v in itl]
        row += [short(v) for v in (cell.e2e_mean, cell.e2e_p50, cell.e2e_p90, cell.e2e_p99)]
        table.rows.append(row)
    return table


def _fleet_header(cells: Sequence[ServerCell]) -> list[str]:
    return ["routing"] if cells[0].routing else []


def _fleet_row(cell: ServerCell) -> list[str]:
    return [cell.routing or "-"] if cell.routing else []


def _done(cells: Sequence[ServerCell]) -> Table:
    header = ["policy", *_fleet_header(cells)]
    header += ["load", "req/s", "good/s", "tokens/s", "busy", "KV in use", "running"]
    header += ["waiting", "preempted", "computed", "reused", "recomputed", "rejected", "unfinished"]
    fetches = any(cell.peer_bytes for cell in cells)
    header += ["from peers"] if fetches else []
    table = Table("What the server does", header)
    for cell in cells:
        kv = "-" if cell.kv_utilisation is None else f"{cell.kv_utilisation:.0%}"
        row = [cell.policy, *_fleet_row(cell), f"{cell.load:g}", short(cell.requests_per_second)]
        row += ["-" if cell.goodput is None else short(cell.goodput)]
        row += [f"{cell.output_tokens_per_second:,.0f}", f"{cell.utilisation:.0%}", kv]
        row += [short(cell.mean_running), short(cell.mean_waiting), f"{cell.preemptions:,}"]
        computed = cell.prefill_tokens + cell.decode_tokens
        row += [f"{n:,}" for n in (computed, cell.reused_tokens, cell.recomputed_tokens)]
        row += [f"{cell.rejected:,}", f"{cell.unfinished:,}"]
        row += [f"{cell.peer_tokens:,}"] if fetches else []
        table.rows.append(row)
    return table
