"""``kvframe bench experiment``: variants of a server and its traffic, from a file."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

import click

from kvframe.bench.server.experiment import run_experiment


@click.command(short_help="Simulate what a TOML file describes: traffic, servers, variants.")
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path))
def experiment(files: tuple[Path, ...]) -> None:
    """Simulate the variants of each FILE.

    A file has a [workload] or names traces, the options of `kvframe bench serve` under [serve], and
    what differs under [variants.NAME.workload] and [variants.NAME.serve].
    """
    for path in files:
        with redirect_stdout(sys.stderr):  # stdout is for the result, not for plugins
            told = run_experiment(path)
        click.echo(told)
