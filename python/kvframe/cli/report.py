"""``kvframe bench report`` and ``kvframe bench plot``: results as a page, and as pictures."""

from __future__ import annotations

from pathlib import Path

import click

from kvframe.bench.capacity import parse_shape
from kvframe.bench.options import split_list
from kvframe.bench.study import Study
from kvframe.config.sizes import token_bytes

RESULTS = click.argument("results", nargs=-1, required=True, metavar="RESULTS...")
POLICIES = click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="POLICY,...",
    help="Show these alone, each in a colour of its own.  [default: all; the best are coloured]",
)
_FOLDER = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(short_help="Write results into one HTML file, and charts as pictures.")
@RESULTS
@click.option(
    "--out",
    type=_FILE,
    default=Path("report.html"),
    show_default=True,
    metavar="FILE.html",
    help="The page. It has everything in it and asks no server for anything.",
)
@click.option("--title", metavar="TEXT", help="Its heading.  [default: the traces' names]")
@click.option(
    "--model-shape",
    metavar="layers=N,kv_heads=N,head_dim=N,dtype=NAME",
    help="The model whose KV gives sizes in GiB, where the results do not say.",
)
@click.option("--svg", type=_FOLDER, metavar="FOLDER", help="Draw every chart here as SVG.")
@click.option("--png", type=_FOLDER, metavar="FOLDER", help="Draw every chart here as PNG.")
@POLICIES
def report(
    results: tuple[str, ...],
    out: Path,
    title: str | None,
    model_shape: str | None,
    svg: Path | None,
    png: Path | None,
    policies: tuple[str, ...],
) -> None:
    """Write RESULTS into one HTML file.

    RESULTS are directories of `kvframe bench run --out`, JSON of `kvframe bench run`, `serve`,
    `experiment` or `curve`, and rows of `kvframe bench serve --requests`; - is standard input.
    Those of several runs are put together.
    """
    study = _read(results, policies)
    if model_shape is not None:
        study = study.of_model(token_bytes(parse_shape(model_shape)))
    study.report(out, title)
    told = [str(out)]
    for folder, form in ((svg, "svg"), (png, "png")):
        if folder is not None:
            told.append(f"{study.pictures(folder, form)} charts in {folder}")
    click.echo("; ".join(told), err=True)


@click.command(short_help="Draw hit rate against capacity.")
@RESULTS
@click.option(
    "-o",
    "--output",
    required=True,
    type=_FILE,
    metavar="FILE.png|FILE.svg|FILE.pdf",
    help="The picture; the suffix chooses its format.",
)
@POLICIES
def plot(results: tuple[str, ...], output: Path, policies: tuple[str, ...]) -> None:
    """Draw hit rate against capacity, a panel for each trace and mode.

    RESULTS are as `kvframe bench report` takes them.
    """
    _read(results, policies).draw(output)


def _read(results: tuple[str, ...], policies: tuple[str, ...]) -> Study:
    study = Study.read(*results)
    return study.of_policies(*split_list(policies, "--policy")) if policies else study
