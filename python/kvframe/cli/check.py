"""``kvframe check``: the configuration as it resolves, and where each value came from."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

import click

from kvframe.config import Resolved
from kvframe.config.show import json_schema, show
from kvframe.policies.driver import driver
from kvframe.policies.gate import gate_of
from kvframe.policies.match import matcher_of
from kvframe.registry import Registry


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--schema", is_flag=True, help="Print the JSON schema of kvframe.toml, for editors.")
def check(file: Path | None, schema: bool) -> None:
    """Check FILE and print what it resolves to.

    FILE is a kvframe.toml, or a pyproject.toml with [tool.kvframe]; without it, the one in the
    current directory. The output is TOML, with the origin of each value behind it: default,
    FILE:LINE or the environment variable.
    """
    with redirect_stdout(sys.stderr):  # what plugins print is no data
        text = json.dumps(json_schema(Registry()), indent=2) if schema else show(_resolved(file))
    click.echo(text)


def _resolved(file: Path | None) -> Resolved:
    resolved = Resolved.load(file)
    block_size = resolved.config.cache.block_size
    # Policies of packages are made as well: that is where their own mistakes show.
    driver(resolved.policy, resolved.options, None, block_size)
    gate_of(resolved.admission, resolved.admission_options, block_size)
    matcher_of(resolved.prefix, resolved.prefix_options, block_size)
    for tier in resolved.tiers:
        driver(tier.policy, tier.policy_options, None, block_size)
        gate_of(tier.admission, tier.admission_options, block_size)
    return resolved
