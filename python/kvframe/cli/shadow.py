"""``kvframe shadow``: what other policies and sizes would have hit on a recorded log."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import msgspec

from kvframe.bench.capacity import parse_blocks
from kvframe.bench.options import split_list
from kvframe.bench.render import aligned
from kvframe.bench.report import Table
from kvframe.bench.traces import read
from kvframe.cli import BELOW_THRESHOLD
from kvframe.cli.given import refuse
from kvframe.cli.reading import reading
from kvframe.errors import UsageError
from kvframe.shadow import ShadowReport, ShadowSet, followed
from kvframe.stats.log import EventLog
from kvframe.stats.saved import is_log
from kvframe.traces.source import ReadOptions

HEAD = 4096
"""Bytes by which a log is told from a trace."""

DEFAULT = ("lru", "lfu", "lfuda", "slru", "s3-fifo", "w-tinylfu", "mq", "arc")


@click.command(short_help="What other policies and sizes would have hit on a recorded log.")
@click.argument("log")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    default=DEFAULT,
    show_default=True,
    metavar="NAME[:OPTION=VALUE,...]",
    help="A built-in or compiled policy. To give several, repeat it or use commas.",
)
@click.option(
    "--capacity",
    "capacities",
    multiple=True,
    required=True,
    metavar="BLOCKS|RANGE",
    help="Blocks of the pool, or a range of them, 1000:64000:x2. Several likewise: every policy "
    "runs at every size.",
)
@click.option(
    "--actual",
    metavar="POLICY=BLOCKS",
    help="What was really run when the log was written: the numbers are checked against it.",
)
@click.option(
    "--stride",
    type=click.IntRange(1, 4096),
    default=1,
    show_default=True,
    metavar="N",
    help="Follow every n-th block alone, in pools that are as much smaller.",
)
@click.option("--json", "as_json", is_flag=True, help="Print an object.")
@reading
@click.pass_context
def shadow(
    context: click.Context,
    /,
    log: str,
    policies: tuple[str, ...],
    capacities: tuple[str, ...],
    actual: str | None,
    stride: int,
    as_json: bool,
    **how: Any,
) -> None:
    """Print the hit rate of each policy at each size.

    LOG is what EventLog.save wrote, in which requests run side by side as they did; or a trace in
    any form that `kvframe trace info` reads, KV events that `kvframe events record` wrote among
    them, whose requests are served one after the other. The exit code is 1 if the numbers are not
    to be trusted: what --actual says hits otherwise than the log does.
    """
    anchor = None if actual is None else _anchor(actual)
    names, sizes = split_list(policies, "--policy"), _sizes(capacities)
    recorded = _recorded(log)
    if recorded is not None:
        refuse(f"{log} is a manager's log", "trace_format", "time_unit", "sort", "tokenizer")
        if recorded.block_size:
            refuse(f"{log} says it: {recorded.block_size} tokens", "block_size")
        size = recorded.block_size or how["block_size"]
        if size is None:
            raise UsageError(f"{log}: does not say its block size: --block-size")
        shadows = ShadowSet(names, sizes, size, actual=anchor, chained=True, stride=stride)
        report = followed(recorded, shadows)
    else:
        if anchor is not None:
            raise UsageError(f"{log}: a trace does not say what was hit: no --actual")
        form = how.pop("trace_format")
        trace = read(log, ReadOptions(form=form, **how)).trace
        shadows = ShadowSet(names, sizes, trace.block_size, chained=True, stride=stride)
        shadows.run(trace)
        report = shadows.report()
    shadows.close()
    click.echo(_json(report) if as_json else "\n".join(_text(report)))
    if report.doubt is not None:
        asked = "" if actual is None else f" (--actual {actual} must be what ran)"
        click.echo(f"error: not to be trusted: {report.doubt}{asked}", err=True)
        context.exit(BELOW_THRESHOLD)


def _recorded(name: str) -> EventLog | None:
    """The saved log of a manager in that file; None if the file holds something else."""
    if not Path(name).is_file():
        return None
    with open(name, "rb") as file:
        head = file.read(HEAD)
    return EventLog.load(name) if is_log(head) else None


def _sizes(texts: tuple[str, ...]) -> list[int]:
    sizes = []
    for one in parse_blocks(texts):
        if one.count is None:
            raise UsageError(f"--capacity {one.text}: must be a number of blocks or a range here")
        sizes.append(one.count)
    return sizes


def _anchor(text: str) -> tuple[str, int]:
    policy, _, blocks = text.rpartition("=")
    if not policy or not blocks.isdecimal():
        raise UsageError(f"--actual {text}: must be a policy, =, and its blocks: lru=500")
    return policy, int(blocks)


def _json(report: ShadowReport) -> str:
    rows = [one._asdict() | {"hit_rate": report.hit_rate(one)} for one in report.shadows]
    told = asdict(report) | {"shadows": rows, "doubt": report.doubt}
    told["actual"] = None if report.actual is None else report.actual._asdict()
    return msgspec.json.format(msgspec.json.encode(told)).decode()


def _text(report: ShadowReport) -> list[str]:
    sizes = list(dict.fromkeys(one.capacity for one in report.shadows))
    rates = {(one.policy, one.capacity): report.hit_rate(one) for one in report.shadows}
    rows = []
    for policy in dict.fromkeys(one.policy for one in report.shadows):
        cells = (rates.get((policy, size)) for size in sizes)
        rows.append([policy, *("" if rate is None else f"{rate:.2%}" for rate in cells)])
    if report.actual is not None:
        real = f"{report.actual.found_rate:.2%}"
        own = [real if size == report.actual.capacity else "" for size in sizes]
        rows.append([f"really, {report.actual.policy}", *own])
    return aligned(Table("", ["policy", *(f"{size} blocks" for size in sizes)], rows))
