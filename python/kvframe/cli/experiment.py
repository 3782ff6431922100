"""``kvframe bench experiment``: variants of a server and its traffic, from a file."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

import click

from kvframe.bench.server.experiment import run_experiment
from kvframe.bench.server.report import json


@click.command(short_help="Simulate what a TOML file describes: traffic, servers, variants.")
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="json: an object, of one FILE, which `kvframe bench report` reads.",
)
def experiment(files: tuple[Path, ...], form: str) -> None:
    """Simulate the variants of each FILE.

    A file has a [workload] or names traces, the options of `kvframe bench serve` under [serve], and
    what differs under [variants.NAME.workload] and [variants.NAME.serve].
    """
    if form == "json" and len(files) > 1:
        raise click.UsageError(f"--format json: of one FILE at a time, not of {len(files)}")
    for path in files:
        with redirect_stdout(sys.stderr):  # stdout is for the result, not for plugins
            ran = run_experiment(path)
        click.echo(json(ran.result) if form == "json" else f"{ran.text}\n", nl=False)
