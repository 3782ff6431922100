"""``kvframe check``: the configuration as it resolves, and where each value came from."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

from kvframe.cli import BAD_INPUT, fail, pages
from kvframe.cli.given import refuse
from kvframe.config import Chosen, Resolved
from kvframe.config.faults import Faults
from kvframe.config.show import json_schema, nothing_said, show
from kvframe.config.sources import FILE_NAME, PYPROJECT
from kvframe.drivers import admission, eviction, prefix
from kvframe.drivers.asker import Terms
from kvframe.errors import ConfigError, PluginError
from kvframe.manager.build import public_of
from kvframe.registry import Registry
from kvframe.tiers.mac import secrets_of

NOTHING_HERE = (
    f"no {FILE_NAME}, and no {PYPROJECT} with [tool.kvframe], here, and no variable: "
    "these are the defaults"
)


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--schema", is_flag=True, help="Print the JSON schema of kvframe.toml, for editors.")
@click.pass_context
def check(context: click.Context, file: Path | None, schema: bool) -> None:
    """Check FILE and print what it resolves to.

    FILE is a kvframe.toml, or a pyproject.toml with [tool.kvframe]; without it, the one in the
    current directory. The output is TOML, with the origin of each value behind it: default,
    FILE:LINE or the environment variable. Where neither a file nor a variable gives a value, these
    are the defaults, and the exit code is 2.
    """
    if schema:
        refuse("--schema is the same for every file", "file")
        with redirect_stdout(sys.stderr):  # stdout is for the schema, not for plugins
            text = json.dumps(json_schema(Registry()), indent=2)
        click.echo(text)
        return
    try:
        with redirect_stdout(sys.stderr):
            resolved = _made(file)
    except (ConfigError, PluginError) as error:
        for said in sorted(dict.fromkeys((str(error), *error.others)), key=_line):
            fail(said)
        if error.unlisted:
            click.echo(f"… and {error.unlisted} more", err=True)
        if isinstance(error, ConfigError):
            click.echo(f"hint: every key: {pages.where('check')}", err=True)
        context.exit(BAD_INPUT)
    click.echo(show(resolved))
    for told in _without_effect(resolved):
        click.echo(f"hint: {told}", err=True)
    if resolved.config.tiers:
        click.echo(f"hint: {_kept(resolved)}", err=True)
    stores = [tier.config for tier in resolved.tiers if tier.store is not None]
    if stores and not resolved.config.cache.weight_version:
        click.echo(
            f'hint: tier {stores[0].name} (store = "{stores[0].store}") needs '
            "cache.weight_version, or an engine that says Tiers(model=...)",
            err=True,
        )
    if nothing_said(resolved):
        # A script that checks before it starts an engine may be in the wrong folder.
        click.echo(f"error: {NOTHING_HERE}", err=True)
        context.exit(BAD_INPUT)


def _line(message: str) -> int:
    """The line of the file that an error begins with; 0 if it begins with none."""
    found = re.match(r".*?\.toml:(\d+): ", message)
    return int(found[1]) if found else 0


def _made(file: Path | None) -> Resolved:
    """Resolve the file, and make its policies, so that their own errors show.

    A policy that is named by its place is neither imported nor made: a check runs no code of a
    file that is not installed.
    """
    resolved = Resolved.load(file, imports=False)
    block_size = resolved.config.cache.block_size
    evicting = [resolved.eviction, *(tier.eviction for tier in resolved.tiers)]
    admitting = [resolved.admission, *(tier.admission for tier in resolved.tiers)]
    matching = [resolved.prefix]
    for policy in filter(_is_imported, evicting):
        eviction.driver(policy.loaded, Terms(block_size, policy.options))
    for gate in filter(_is_imported, admitting):
        admission.driver(gate.loaded, Terms(block_size, gate.options))
    for matcher in filter(_is_imported, matching):
        prefix.driver(matcher.loaded, Terms(block_size, matcher.options))
    _read_files(resolved)
    return resolved


def _read_files(resolved: Resolved) -> None:
    """Read the files that a manager and its tiers would read first, so that their errors show."""
    faults = Faults()
    with faults:
        public_of(resolved)
    for tier in resolved.tiers[1:]:
        with faults:
            secrets_of(tier)
    faults.tell()


def _without_effect(resolved: Resolved) -> Iterator[str]:
    """The keys that are given, and that the policy beside them never looks at."""
    config = resolved.config
    places: list[tuple[str, Any, Chosen[Any]]] = [
        ("eviction", config.eviction, resolved.eviction),
        ("admission", config.admission, resolved.admission),
        ("prefix", config.prefix, resolved.prefix),
    ]
    for tier in resolved.tiers:
        path = f"tier {tier.config.name}: eviction"
        places.append((path, tier.config.eviction, tier.eviction))
    for path, section, chosen in places:
        way = chosen.loaded.descriptor.way
        for key, ways in (("window", ("builtin",)), ("budget_ms", ("builtin", "native"))):
            value = getattr(section, key, None)
            if value is not None and way in ways and _is_imported(chosen):
                yield f"{path}.{key} = {value}: without effect on {chosen.name}, which is {way}"


def _kept(resolved: Resolved) -> str:
    """What becomes of ``[[tiers]]``, which a manager alone does not keep."""
    if not resolved.tiers:
        return "tiers: all have capacity = 0 and are off; a kvframe.tiers.Tiers keeps nothing"
    names = ", ".join(tier.config.name for tier in resolved.tiers)
    return f"tiers ({names}): kept only where the engine makes a kvframe.tiers.Tiers"


def _is_imported(chosen: Chosen[Any]) -> bool:
    return chosen.loaded.is_imported
