"""``kvframe plugins``: the policies that can be named here, and where each comes from."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path

import click

from kvframe.cli import NearestGroup
from kvframe.cli.given import refuse
from kvframe.registry import KINDS, PluginInfo, Registry
from kvframe.registry.lock import locked

_COLUMNS = ("name", "kind", "way", "distribution", "version", "state", "source")


@click.group(cls=NearestGroup, invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects.")
@click.pass_context
def plugins(context: click.Context, as_json: bool) -> None:
    """List every policy and store that is installed.

    A plugin is a package with entry points in kvframe.eviction, kvframe.admission, kvframe.prefix,
    kvframe.store or kvframe.trace, by the kind of what it brings. Listing imports each of them;
    an engine imports only those that its configuration names.
    """
    if context.invoked_subcommand is not None:
        refuse(f"only for the list, not for {context.invoked_subcommand}", "as_json")
        return
    with redirect_stdout(sys.stderr):  # stdout is for the list, not for plugins
        rows = Registry().list()
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        click.echo(_table(rows))


@plugins.command()
@click.argument("file", default="plugins.lock", type=click.Path(path_type=Path, dir_okay=False))
def lock(file: Path) -> None:
    """Write version and SHA-256 of every plugin that is installed now to FILE (plugins.lock).

    With plugins.lock in its configuration, an engine loads an installed package only as it is
    there. Nothing is imported. What a plugin imports from other packages is not locked.
    """
    found = [one for kind in KINDS for one in Registry().candidates(kind)]
    file.write_text(text := locked(found), "utf-8")
    click.echo(f"{file}: {text.count('version = ')} packages")


def _table(rows: Sequence[PluginInfo]) -> str:
    cells = [_COLUMNS, *(tuple(getattr(row, name) or "-" for name in _COLUMNS) for row in rows)]
    # The width is bounded: one long reason would push the last column out of sight.
    widths = [min(max(len(row[i]) for row in cells), 24) for i in range(len(_COLUMNS))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
