"""``kvframe bench answer``: one trace and one cache, what each request hits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from kvframe.bench.answer import RULES, answer, configured, read_options
from kvframe.bench.traces import ReadOptions, read
from kvframe.cli.reading import mode_option, output_option, reading
from kvframe.traces.output import written


@click.command("answer", short_help="What each request hits in one cache, as JSON.")
@click.argument("config", type=click.Path(dir_okay=False, path_type=Path), metavar="CONFIG.json")
@click.argument("trace", metavar="NAME|FILE|-")
@output_option("The report.  [default: stdout]", default="-")
@mode_option("trace", "engine")
@reading
def answer_command(config: Path, trace: str, output: Path, mode: str, **how: Any) -> None:
    """Replay a trace in one cache and report what each request hits.

    CONFIG.json has cache_capacity_blocks, and may have policy, block_size and a table of the
    policy's options, as the public task llm-prefix-cache-replay has them. The report has
    total_requests, total_prompt_tokens, total_hit_tokens, overall_hit_rate, final_cache_blocks and
    per_request, a list of idx, prompt_tokens and hit_tokens.
    """
    asked = configured(config)
    how["form"] = how.pop("trace_format")
    source = read(trace, read_options(asked, ReadOptions(**how)))
    for remark in (*source.remarks, RULES):
        click.echo(f"note: {remark}", err=True)
    report = msgspec.json.encode(answer(source, asked, mode))
    with written(output) as file:
        file.write(msgspec.json.format(report) + b"\n")
