"""``kvframe new-plugin``: a package of one's own, to fill with a policy."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from kvframe.scaffold import forms
from kvframe.scaffold import new_plugin as write

_KINDS = sorted({kind for kind, _ in forms()})
_WAYS = sorted({way for _, way in forms()})


@click.command("new-plugin")
@click.argument("name")
@click.option(
    "--kind",
    default="eviction",
    show_default=True,
    metavar="|".join(_KINDS),
    help="The decision that it takes.",
)
@click.option(
    "--way",
    default="batched",
    show_default=True,
    metavar="|".join(_WAYS),
    help="How it is written.",
)
@click.option(
    "--path",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Where the package's folder is made.  [default: here]",
)
def new_plugin(name: str, kind: str, way: str, path: Path) -> None:
    """Write a package that installs, passes its tests and runs.

    NAME is the policy's, as kvframe.toml will say it: lower-case words joined by '-'. The package
    is called kvframe-NAME.
    """
    made = write(name, kind, way, path)
    click.echo("\n".join(str(made.folder / file) for file in made.files))
    folder = shlex.quote(str(made.folder))
    where = made.folder if made.folder.is_absolute() else f"./{made.folder}"
    installed = shlex.quote(f"{where}[test]")
    last = f"  kvframe bench check {made.name}"
    click.echo(
        f"next:\n  pip install -e {installed}\n  python -m pytest {folder}\n{last}", err=True
    )
