"""``kvframe check``: the configuration as it resolves, and where each value came from."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

import click

from kvframe.cli import BAD_INPUT, fail
from kvframe.config import Resolved
from kvframe.config.show import json_schema, show
from kvframe.drivers import admission, eviction, prefix
from kvframe.drivers.asker import Terms
from kvframe.errors import ConfigError
from kvframe.registry import Registry


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--schema", is_flag=True, help="Print the JSON schema of kvframe.toml, for editors.")
@click.pass_context
def check(context: click.Context, file: Path | None, schema: bool) -> None:
    """Check FILE and print what it resolves to.

    FILE is a kvframe.toml, or a pyproject.toml with [tool.kvframe]; without it, the one in the
    current directory. The output is TOML, with the origin of each value behind it: default,
    FILE:LINE or the environment variable.
    """
    if schema:
        with redirect_stdout(sys.stderr):  # what plugins print is no data
            text = json.dumps(json_schema(Registry()), indent=2)
        click.echo(text)
        return
    try:
        with redirect_stdout(sys.stderr):
            resolved = _made(file)
    except ConfigError as error:
        for said in (str(error), *error.others):
            fail(said)
        if error.unlisted:
            click.echo(f"… and {error.unlisted} more", err=True)
        context.exit(BAD_INPUT)
    click.echo(show(resolved))
    stores = [tier.config for tier in resolved.tiers if tier.store is not None]
    if stores and not resolved.config.cache.fingerprint:
        click.echo(
            f'hint: tier {stores[0].name} (store = "{stores[0].store}") needs '
            "cache.fingerprint, or an engine that says Tiers(model=...)",
            err=True,
        )


def _made(file: Path | None) -> Resolved:
    """What the file resolves to; its policies are made, where mistakes of their own show."""
    resolved = Resolved.load(file)
    block_size = resolved.config.cache.block_size
    eviction.driver(resolved.policy, Terms(block_size, resolved.options))
    admission.driver(resolved.admission, Terms(block_size, resolved.admission_options))
    prefix.driver(resolved.prefix, Terms(block_size, resolved.prefix_options))
    for tier in resolved.tiers:
        eviction.driver(tier.policy, Terms(block_size, tier.policy_options))
        admission.driver(tier.admission, Terms(block_size, tier.admission_options))
    return resolved
