"""What the command line gives that nothing would look at."""

from __future__ import annotations

import click


def refuse(why: str, *names: str) -> None:
    """Refuse the first of these parameters that the running command was given.

    Args:
        why: What it would need, or why nothing looks at it.
        names: The parameters, as the command's function calls them.

    Raises:
        click.UsageError: One was given; names it.
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in names and source is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError(f"{parameter.opts[0]}: {why}", context)
