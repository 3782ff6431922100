"""``kvframe tiers``: what lies in the stores of a configuration, and clearing it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TypeVar

import click

from kvframe.cli import NearestGroup
from kvframe.config import Resolved
from kvframe.config.tiers import ResolvedTier
from kvframe.errors import KVFrameError, TierError
from kvframe.tiers.census import Census, Lot, census, remove, remove_orphans
from kvframe.tiers.object_keys import FORMAT
from kvframe.tiers.store import PageStore

T = TypeVar("T")
_COLUMNS = ("tier", "format", "space", "codec", "objects", "pages", "orphans", "wrong")
FILE = click.argument("file", required=False, type=click.Path(path_type=Path))
TIER = click.option("--tier", "only", metavar="NAME", help="Of this tier alone.")


@click.group(cls=NearestGroup)
def tiers() -> None:
    """Count what lies in the stores of a configuration, and clear it.

    An engine removes what it wrote itself, and nothing else. What others left is cleared here:
    pages of other weights, of older formats, and those that no request finds.
    """


@tiers.command("list")
@FILE
@TIER
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects.")
def list_(file: Path | None, only: str | None, as_json: bool) -> None:
    """Count the objects in the stores of FILE by name space.

    FILE is as for kvframe check. A folder that an engine uses must be free first. orphans are
    objects that no request finds, since a page before them, or another part of theirs, is gone;
    wrong are names under which something else lies.
    """
    rows = []
    for name, store in _stores(file, only):
        found = _asked(name, census, store)
        rows += [_row(name, lot) for lot in found.lots]
        _note(name, found)
    if as_json:
        named = [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
        click.echo(json.dumps(named, indent=2))
    elif rows:
        cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
        click.echo("\n".join(_aligned([list(_COLUMNS), *cells])))


@tiers.command()
@FILE
@TIER
@click.option("--orphans", is_flag=True, help="What no request finds.")
@click.option("--wrong", is_flag=True, help="Names under which something else lies.")
@click.option("--old", is_flag=True, help="Pages of older formats.")
@click.option("--space", "spaces", multiple=True, metavar="SPACE", help="A whole name space.")
@click.option("--all", "everything", is_flag=True, help="Every object of kvframe.")
def clear(
    file: Path | None,
    only: str | None,
    orphans: bool,
    wrong: bool,
    old: bool,
    spaces: tuple[str, ...],
    everything: bool,
) -> None:
    """Remove objects from the stores of FILE, and say how many.

    Say which: --orphans, --wrong, --old, --space or --all. Objects that are not kvframe's stay.
    Engines may go on: what is removed is a miss.
    """
    if not (orphans or wrong or old or spaces or everything):
        raise click.UsageError("say what to clear: --orphans, --wrong, --old, --space or --all")
    known: set[str] = set()
    for name, store in _stores(file, only):
        found = _asked(name, census, store)
        known.update(lot.space for lot in found.lots)
        count = 0
        for lot in found.lots:
            if everything or lot.space in spaces or (old and lot.format < FORMAT):
                count += _asked(name, remove, store, lot.names)
                continue
            if wrong:
                count += _asked(name, remove, store, lot.wrong)
            if orphans:
                count += _asked(name, remove_orphans, store, lot)
        click.echo(f"{name}: {count} objects removed")
    if unknown := [space for space in spaces if space not in known]:
        raise click.UsageError(f"--space {unknown[0]}: no tier has objects of it")


def _row(name: str, lot: Lot) -> tuple[str | int | None, ...]:
    read = lot.format == FORMAT
    orphans, wrong = (len(lot.orphans), len(lot.wrong)) if read else (None, None)
    return name, lot.format, lot.space, lot.codec, len(lot.names), lot.pages, orphans, wrong


def _note(name: str, found: Census) -> None:
    if not found.lots:
        click.echo(f"tier {name}: no page of kvframe, or a store that cannot list", err=True)
    if found.foreign:
        click.echo(f"tier {name}: {found.foreign} objects are not kvframe's", err=True)


def _stores(file: Path | None, only: str | None) -> Iterator[tuple[str, PageStore]]:
    """Each store of a configuration, open; it is closed before the next one opens."""
    with redirect_stdout(sys.stderr):  # stdout is for the count, not for plugins
        resolved = Resolved.load(file)
    below = [tier for tier in resolved.tiers if tier.store is not None]
    if not below:
        click.echo(f"{resolved.file or 'no file'}: no tier has a store", err=True)
    if only is not None and only not in [tier.config.name for tier in below]:
        raise click.UsageError(f"--tier {only}: no tier with a store has this name")
    for tier in below:
        if only in (None, tier.config.name):
            with _opened(tier) as store:
                yield tier.config.name, store


@contextmanager
def _opened(tier: ResolvedTier) -> Iterator[PageStore]:
    name, found = tier.config.name, tier.store
    make = None if found is None else found.loaded.descriptor.make
    if found is None or make is None:
        raise TierError(f"tier {name}: no store below host memory is named")
    with redirect_stdout(sys.stderr):
        store = _asked(name, make, found.options)
    if not isinstance(store, PageStore):
        raise TierError(f"tier {name}: make() gave a {type(store).__name__}, not a PageStore")
    try:
        yield store
    finally:
        _asked(name, store.close)


def _asked(name: str, call: Callable[..., T], *args: object) -> T:
    """Call the store and return its answer. Its exceptions become errors of its tier."""
    try:
        return call(*args)
    except KVFrameError:
        raise
    except Exception as error:
        raise TierError(f"tier {name}: {type(error).__name__}: {error}") from error


def _aligned(cells: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    padded = ([cell.ljust(w) for cell, w in zip(row, widths, strict=True)] for row in cells)
    return ["  ".join(row).rstrip() for row in padded]
