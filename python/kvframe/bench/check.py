"""``kvframe bench check``: the conformance kit, and a row on the leaderboard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kvframe.bench import render
from kvframe.bench.beside import Beside, besides
from kvframe.bench.lacks import lacks
from kvframe.bench.leaderboard import Board, boards, decision_ns
from kvframe.bench.locate import locate
from kvframe.bench.options import split_list
from kvframe.bench.policies import Choice
from kvframe.bench.traces import load
from kvframe.errors import PolicyError
from kvframe.registry.descriptors import Kind
from kvframe.testing import Report, check_kind, check_policy

TRACES = ("conversation", "synthetic")
CAPACITIES = ("4000",)


@dataclass(frozen=True)
class Checked:
    """The result of a policy's check.

    Attributes:
        report: The kit's verdicts.
        boards: Its replays; empty if it failed in one.
        failure: The error that ended the replays; empty if there was none.
        remarks: What it goes by, and the traces do not tell.
    """

    report: Report
    boards: Sequence[Board | Beside]
    failure: str = ""
    remarks: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        return self.report.ok and not self.failure


def check(
    plugin: str,
    traces: Sequence[str],
    capacities: Sequence[str],
    kind: Kind | None = None,
    *,
    quiet: bool = False,
) -> Checked:
    """Run the kit on a policy, then replay it: beside the built-in ones, or in lru's company.

    Args:
        plugin: See `kvframe.bench.locate.locate`.
        traces: As ``--trace`` of ``kvframe bench run`` takes them.
        capacities: Blocks.
        kind: See `kvframe.bench.locate.locate`.
        quiet: No progress on stderr.

    Raises:
        KVFrameError: The policy, a trace or a capacity cannot be had.
    """
    choice, registry = locate(plugin, kind)
    sources = [load(name) for name in split_list(traces, "--trace")]
    options = {key: value for key, value in choice.option_values.items() if key != "window"}
    if isinstance(choice, Choice):
        report = check_policy(choice.loaded, options)
        told = (
            lacks((choice, source) for source in sources)
            if report["columns"].verdict == "ok"
            else []
        )
    else:
        report, told = check_kind(choice.loaded, options), []
    try:
        if isinstance(choice, Choice):
            ranked = boards(choice, registry, sources, capacities, quiet=quiet)
            return Checked(report, ranked, remarks=told)
        return Checked(report, besides(choice, registry, sources, capacities, quiet=quiet))
    except PolicyError as error:
        return Checked(report, [], str(error), told)


def text(checked: Checked) -> str:
    """For people; the last line is the verdict."""
    report = checked.report
    lines = [f"{report.policy} ({report.origin})", "", str(report), ""]
    for board in checked.boards:
        lines += [board.table().title, *render.aligned(board.table()), ""]
    if any(isinstance(board, Board) for board in checked.boards):
        lines += [
            "ns/decision: the whole replay's time for each block evicted, the core's share too.",
            "",
        ]
    lines += [board.sentence() for board in checked.boards]
    lines += checked.remarks
    if checked.failure:
        lines.append(f"no replay: {checked.failure}")
    broken = [check.name for check in report.checks if check.verdict == "failed"]
    untried = [check.name for check in report.checks if check.verdict == "not run"]
    kept = f"does not keep: {', '.join(broken)}" if broken else "keeps every promise"
    if checked.failure and not broken:
        kept += " of the kit, but fails in a replay"
    if untried:
        kept += f"; not tried after that: {', '.join(untried)}"
    return "\n".join([*lines, f"{report.policy} {kept}{_cost(report)}"]) + "\n"


def _cost(report: Report) -> str:
    if report.decision_us is None:
        return ""
    of = (
        "an allocation that evicts 16 blocks"
        if report.of_call
        else "a decision among 256 candidates"
    )
    return f"; {of} takes {report.decision_us:.0f} us"


def json(checked: Checked) -> str:
    """``{"policy", "origin", "ok", "decision_us", "checks", "boards", "failure",
    "remarks"}``.
    """
    report = checked.report
    told = {
        "policy": report.policy,
        "origin": report.origin,
        "ok": checked.ok,
        "decision_us": report.decision_us,
        "checks": report.checks,
        "boards": [_board(board) for board in checked.boards],
        "failure": checked.failure,
        "remarks": checked.remarks,
    }
    return msgspec.json.format(msgspec.json.encode(told)).decode() + "\n"


def _board(board: Board | Beside) -> dict[str, object]:
    told = {
        "trace": board.trace,
        "capacity_blocks": board.capacity,
        "cell": board.mine,
        "lru": board.lru,
        "opt": board.opt,
    }
    if isinstance(board, Beside):
        return told
    ranked = {"rank": board.rank, "of": len(board.online), "best": board.best}
    return {**told, **ranked, "decision_ns": decision_ns(board.mine)}
