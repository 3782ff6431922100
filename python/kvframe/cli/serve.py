"""``kvframe bench serve``: what would users feel, on this server, at this load?"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

import click

from kvframe.bench.build import debug_warning
from kvframe.bench.server.below import FILLS, HIT_REFRESHES
from kvframe.bench.server.cells import PREEMPTIONS
from kvframe.bench.server.fleet import ROUTINGS
from kvframe.bench.server.job import ServerJob
from kvframe.bench.server.request import (
    MOST,
    ORDERS,
    POLICIES,
    PREEMPTION_ORDERS,
    ServerRequest,
)
from kvframe.bench.server.shape import DEFAULT
from kvframe.cli.reading import reading

F = TypeVar("F", bound=Callable[..., Any])
NUMBER = click.IntRange(1, MOST)


def asked(flag: str, metavar: str, told: str, field: str = "", **more: Any) -> Callable[[F], F]:
    """An option whose default is that of `ServerRequest`; ``field`` is its name there."""
    name = field or flag.removeprefix("--").replace("-", "_")
    default = getattr(ServerRequest, name)
    return click.option(
        flag,
        name,
        metavar=metavar,
        default=default,
        show_default=bool(default),
        multiple=isinstance(default, tuple),
        help=told,
        **more,
    )


POLICY = "PLUGIN[:OPTION=VALUE,...]"
FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(short_help="Simulate a server: latency and goodput under policies, at loads.")
@asked("--trace", "NAME|FILE|-", "As for `kvframe bench run`.", "traces")
@asked(
    "--policy",
    POLICY,
    f"As for `kvframe bench run`.  [default: that of --config; without one {', '.join(POLICIES)}]",
    "policies",
)
@asked("--admission", POLICY, "As for `kvframe bench run`.", "admissions")
@asked("--prefix", POLICY, "As for `kvframe bench run`.", "matchers")
@asked(
    "--config",
    "FILE.toml",
    "Run what serving code would be made from: policies, capacity, groups, tiers. Other options "
    "come before it.",
    type=FILE,
)
@asked(
    "--tier",
    "host|disk|remote=SIZE[,KEY=VALUE,...]",
    "A tier below the pool, the nearest first; keys as in [[tiers]]: read, write, latency, link, "
    "path, sharing, eviction, admission, break_even and more. Servers without tiers run beside it.",
    "tiers",
)
@asked(
    "--prefetch",
    "N",
    "Requests at the front of the queue whose pages come from lower tiers to host memory while "
    "they wait.",
    type=click.IntRange(0, MOST),
)
@asked(
    "--promote-fill",
    "|".join(FILLS),
    "What a load from below host memory fills on its way to the pool: host memory, every tier "
    "above, or none, over host memory's link (buffer) or not (direct).",
)
@asked(
    "--storage-prefetch",
    "wait-complete|best-effort|timeout=TIME",
    "How long a request that has come in waits for pages below host memory; then it takes what has "
    "come there, and computes the rest.",
)
@click.option(
    "--live-writes",
    is_flag=True,
    help="With admission=write-back and --tell-next-use: of what is evicted from the pool, only "
    "what is used again goes down.",
)
@click.option(
    "--evict-backed-first",
    is_flag=True,
    help="The pool evicts blocks of which a tier has a copy first.",
)
@asked(
    "--hit-refresh",
    "|".join(HIT_REFRESHES),
    "Whether a hit in the pool is a use of host memory's page, too.",
)
@asked(
    "--prefetch-sessions",
    "lead=TIME[,after=TIME]",
    "Blocks of a session that left the pool are back in it so long before its next turn, which is "
    "expected when the trace has it, or so long after the turn before.",
)
@click.option(
    "--layerwise",
    is_flag=True,
    help="Loads come layer by layer, and the first step behind one runs beside it.",
)
@asked(
    "--shared-tier",
    "NAME[:replicas=N]",
    "A tier that all replicas have together, or each N that follow one another: its pages, its "
    "capacity and its link.",
    "shared_tiers",
)
@asked(
    "--link",
    "NAME=RATE[,write=RATE,latency=TIME,each=RATE]",
    "A link of each replica that tiers with path=NAME cross beside their own, at once; transfers "
    "share it evenly.",
    "links",
)
@asked(
    "--capacity",
    "BLOCKS|SIZE",
    "Blocks of the trace, or a size such as '40 GiB'.  [default: what --card holds beside the "
    "weights or --config says; without either 2000]",
    "capacities",
)
@asked("--load", "FACTOR", "The trace's requests a second times this.", "loads")
@asked(
    "--profile",
    "fixed|roofline[:OPTION=VALUE,...]|h200-8b|FILE.toml|FILE.csv",
    "How long a step takes: two rates; terms of the card and the model; terms fitted to measured "
    "steps (of an H200, or by `kvframe calibrate`); or measured steps.",
)
@asked(
    "--card",
    "NAME[:OPTION=VALUE,...]",
    "The accelerator: a100, h100, h200, b200 or l40s; memory, bandwidth and flops (of 16 bits), "
    "flops_fp4, flops_fp8 and flops_fp16 change its data sheet, and utilization the share of its "
    "memory that a server takes.",
)
@asked(
    "--model-shape",
    "layers=N,kv_heads=N,head_dim=N,dtype=NAME,params=N|FILE.toml",
    "The model; heads=N, weight_bytes=N and more as well. A file says formats of weights and kinds "
    f"of layers.  [default: KV as [model] of --config has it; otherwise {DEFAULT}]",
)
@asked(
    "--parallel",
    "tp=N,dp=N,ep=N,link=RATE,latency=TIME",
    "Several cards serve as one replica: tensor-, data- and expert-parallel ranks, and what they "
    "exchange over; gpus_per_node=N,scale_out=RATE for more than one node.",
)
@asked(
    "--speculate",
    "tokens=N,accept=SHARE[/SHARE...]|FILE.csv,cost=SHARE,policy=NAME,...",
    "So many tokens of an answer are drafted in a step; each, or each in its place, is right with "
    "this probability, or as in recorded rounds, and drafting it takes this share of the step. "
    "Policies draft as many as bring most.",
)
@asked(
    "--disaggregate",
    "prefill=N,link=RATE,latency=TIME",
    "N servers more compute prompts alone; the replicas get the prompts' KV over a link each and "
    "compute the answers.",
)
@asked(
    "--decode-routing",
    "|".join(ROUTINGS),
    "With --disaggregate: which replica goes on with a prompt that has been computed.  [default: "
    "least-loaded]",
)
@asked(
    "--peer-link",
    "RATE[,latency=TIME]",
    "Blocks that a replica's pool and tiers lack come from the pool of another one, over a link "
    "out of each.",
)
@asked("--max-num-seqs", "N", "Sequences that run at once, at most.", type=NUMBER)
@asked("--max-num-batched-tokens", "TOKENS", "Tokens that a step computes, at most.", type=NUMBER)
@asked(
    "--long-prefill-token-threshold",
    "TOKENS",
    "Tokens of one prompt that a step computes, at most; 0: all that the step has left.",
    type=click.IntRange(0, MOST),
)
@click.option(
    "--chunked-prefill/--no-chunked-prefill",
    default=True,
    show_default=True,
    help="Whether a prompt may be computed in several steps; otherwise it waits for a step that "
    "takes all of it, and one longer than any step is cut.",
)
@asked("--order", "|".join(ORDERS), "Which waiting request comes in first.")
@asked(
    "--class-priority",
    "CLASS=N,...",
    "For --order priority: of each class of the trace; larger comes first.",
)
@asked(
    "--class-share",
    "CLASS=SHARE,...",
    "Most of --max-num-seqs and of a step's prompt tokens that a class of the trace has; others "
    "come in past it.",
)
@asked(
    "--preemption",
    "|".join(PREEMPTIONS),
    "What becomes of a sequence whose blocks are needed: computed again, or kept in host memory "
    "where there is room; auto takes the faster. never: a request comes in once it and all that "
    "run fit up to their ends.",
)
@asked(
    "--preemption-order",
    "|".join(PREEMPTION_ORDERS),
    "Which running sequence gives its blocks up, as `kv.pressure.preemption_order` has it.",
)
@click.option(
    "--cascade-attention",
    is_flag=True,
    help="KV of what all prompts of a step begin with is read once for all.",
)
@click.option(
    "--join",
    is_flag=True,
    help="A request whose prompt begins with blocks that another one is computing waits for them.",
)
@click.option(
    "--tell-next-use",
    is_flag=True,
    help="Requests say when their blocks are used next, as the trace has it; next-use goes by it.",
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
@asked("--replicas", "N", "Servers behind a router, each with --capacity and the tiers.")
@asked(
    "--routing",
    "|".join(ROUTINGS),
    "Which replica gets a request. prefix:queue=N weighs tokens that are waited for against tokens "
    "that are computed, prefix:max_load_ratio=N passes over one with more than so many times the "
    "mean requests, kv-aware:load=N counts a running sequence as so many tokens.  [queue: 1, load: "
    "64]",
    "routings",
)
@asked(
    "--event-delay",
    "TIME",
    "For prefix routing and --tell-copies: how late the router hears what replicas cache.",
)
@asked(
    "--event-loss",
    "SHARE",
    "The share of these messages that it never hears.",
    type=click.FloatRange(0, 1),
)
@click.option(
    "--tell-copies",
    is_flag=True,
    help="Policies see how many other replicas hold a block, in the column copies.",
)
@asked(
    "--flood",
    "CLASS=N",
    "Also simulate each trace with requests of this class N times as often, and show what every "
    "class feels.",
)
@asked("--sla", "ttft=TIME,itl=TIME,e2e=TIME", "What users were promised.")
@asked("--requests", "FILE.csv|FILE.jsonl", "Write a row for each request here.", type=FILE)
@asked("--format", "table|json|csv", "How results are written.", "formats")
@reading
@click.option("--quiet", is_flag=True, help="No remarks on stderr.")
def serve(**given: Any) -> None:
    """Simulate a server on traces x capacities x loads x policies.

    Requests arrive, wait, are batched step by step and preempted where memory is short, as a server
    does it; the core that serves engines holds the blocks. To give an option several values, repeat
    it or use commas: `--load 0.5,1`.
    """
    warning = debug_warning()
    if warning is not None:
        click.echo(f"warning: {warning}", err=True)
    with redirect_stdout(sys.stderr):  # stdout is for the result, not for plugins
        job = ServerJob(ServerRequest(**given))
        for doubt in () if job.request.quiet else job.doubts:
            click.echo(f"warning: {doubt}", err=True)
        done = job.run()
    click.echo("\n".join(job.outputs(done)), nl=False)
