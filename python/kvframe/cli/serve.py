"""``kvframe bench serve``: what would users feel, on this server, at this load?"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

from kvframe.bench.build import debug_warning
from kvframe.bench.server.fleet import ROUTINGS
from kvframe.bench.server.job import ORDERS, POLICIES, ServerJob, ServerRequest
from kvframe.bench.server.shape import DEFAULT
from kvframe.cli.reading import reading

NUMBER = click.IntRange(1, 2**31)


@click.command(short_help="Simulate a server: latency and goodput under policies, at loads.")
@click.option(
    "--trace",
    "traces",
    multiple=True,
    metavar="NAME|FILE|-",
    default=ServerRequest.traces,
    show_default=True,
    help="As for `kvframe bench run`.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="PLUGIN[:OPTION=VALUE,...]",
    help="As for `kvframe bench run`.  [default: that of --config; without one "
    f"{', '.join(POLICIES)}]",
)
@click.option(
    "--admission",
    "admissions",
    multiple=True,
    metavar="PLUGIN[:OPTION=VALUE,...]",
    help="As for `kvframe bench run`.",
)
@click.option(
    "--prefix",
    "matchers",
    multiple=True,
    metavar="PLUGIN[:OPTION=VALUE,...]",
    help="As for `kvframe bench run`.",
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.toml",
    help="Run what serving code would be made from: policies, capacity, groups, tiers. Other "
    "options come before it.",
)
@click.option(
    "--tier",
    "tiers",
    multiple=True,
    metavar="host|disk|remote=SIZE[,KEY=VALUE,...]",
    help="A tier below the pool, the nearest first; keys as in [[tiers]]: read, write, latency, "
    "link, eviction, admission, break_even and more. Servers without tiers run beside it.",
)
@click.option(
    "--prefetch",
    type=click.IntRange(0, 2**31),
    metavar="N",
    default=ServerRequest.prefetch,
    show_default=True,
    help="Requests at the front of the queue whose pages come from lower tiers to host memory "
    "while they wait.",
)
@click.option(
    "--capacity",
    "capacities",
    multiple=True,
    metavar="BLOCKS|SIZE",
    help="Blocks of the trace, or a size such as '40 GiB'.  [default: what --card holds beside the "
    "weights or --config says; without either 2000]",
)
@click.option(
    "--load",
    "loads",
    multiple=True,
    metavar="FACTOR",
    default=ServerRequest.loads,
    show_default=True,
    help="The trace's requests a second times this.",
)
@click.option(
    "--profile",
    metavar="fixed|roofline[:OPTION=VALUE,...]|FILE.csv",
    default=ServerRequest.profile,
    show_default=True,
    help="How long a step takes: two rates, terms of the card and the model, or measured steps.",
)
@click.option(
    "--card",
    metavar="NAME[:OPTION=VALUE,...]",
    help="The accelerator: a100, h100, h200, b200 or l40s; memory, bandwidth and flops change its "
    "data sheet.",
)
@click.option(
    "--model-shape",
    metavar="layers=N,kv_heads=N,head_dim=N,dtype=NAME,params=N",
    help="The model; heads=N and weight_bytes=N as well.  [default: KV as [model] of --config has "
    f"it; otherwise {DEFAULT}]",
)
@click.option(
    "--max-num-seqs",
    type=NUMBER,
    metavar="N",
    default=ServerRequest.max_num_seqs,
    show_default=True,
    help="Sequences that run at once, at most.",
)
@click.option(
    "--max-num-batched-tokens",
    type=NUMBER,
    metavar="TOKENS",
    default=ServerRequest.max_num_batched_tokens,
    show_default=True,
    help="Tokens that a step computes, at most.",
)
@click.option(
    "--order",
    metavar="|".join(ORDERS),
    default=ServerRequest.order,
    show_default=True,
    help="Which waiting request comes in first.",
)
@click.option(
    "--class-priority",
    metavar="CLASS=N,...",
    help="For --order priority: of each class of the trace; larger comes first.",
)
@click.option(
    "--closed-loop",
    is_flag=True,
    help="A turn of a session arrives when the turn before has ended and the time between their "
    "arrivals has passed.",
)
@click.option(
    "--cache-generated/--no-cache-generated",
    default=True,
    show_default=True,
    help="Whether blocks that decoding fills can be found.",
)
@click.option(
    "--replicas",
    multiple=True,
    metavar="N",
    default=ServerRequest.replicas,
    show_default=True,
    help="Servers behind a router, each with --capacity.",
)
@click.option(
    "--routing",
    "routings",
    multiple=True,
    metavar="|".join(ROUTINGS),
    default=ServerRequest.routings,
    show_default=True,
    help="Which replica gets a request. prefix:queue=N weighs tokens that are waited for against "
    "tokens that are computed.  [queue: 1]",
)
@click.option(
    "--event-delay",
    metavar="TIME",
    default=ServerRequest.event_delay,
    show_default=True,
    help="For prefix routing and --tell-copies: how late the router hears what replicas cache.",
)
@click.option(
    "--event-loss",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    default=ServerRequest.event_loss,
    show_default=True,
    help="The share of these messages that it never hears.",
)
@click.option(
    "--tell-copies",
    is_flag=True,
    help="Policies see how many other replicas hold a block, in the column copies.",
)
@click.option(
    "--flood",
    metavar="CLASS=N",
    help="Also simulate each trace with requests of this class N times as often, and show what "
    "every class feels.",
)
@click.option("--sla", metavar="ttft=TIME,itl=TIME,e2e=TIME", help="What users were promised.")
@click.option(
    "--requests",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.csv|FILE.jsonl",
    help="Write a row for each request here.",
)
@click.option(
    "--format",
    "formats",
    multiple=True,
    metavar="table|json|csv",
    default=ServerRequest.formats,
    show_default=True,
)
@reading
@click.option("--quiet", is_flag=True, help="No remarks on stderr.")
def serve(**asked: Any) -> None:
    """Simulate a server on traces x capacities x loads x policies.

    Requests arrive, wait, are batched step by step and preempted where memory is short, as a server
    does it; the core that serves engines holds the blocks. To give an option several values, repeat
    it or use commas: `--load 0.5,1`.
    """
    warning = debug_warning()
    if warning is not None:
        click.echo(f"warning: {warning}", err=True)
    with redirect_stdout(sys.stderr):  # stdout is for the result, not for plugins
        job = ServerJob(ServerRequest(**asked))
        for doubt in () if job.request.quiet else job.doubts:
            click.echo(f"warning: {doubt}", err=True)
        done = job.run()
    click.echo("\n".join(job.outputs(done)), nl=False)
