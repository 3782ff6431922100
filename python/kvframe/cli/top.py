"""``kvframe top``: a running manager in the terminal, by its metrics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from kvframe.cli.given import refuse

if TYPE_CHECKING:
    from kvframe.metrics.view import Scrape


@click.command()
@click.argument("url", default="http://127.0.0.1:9470/metrics")
@click.option("--engine", help="The one to show, where a page has several.")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Between two looks.",
)
@click.option("--once", is_flag=True, help="Print one page, and end.")
def top(url: str, engine: str | None, interval: float, once: bool) -> None:
    """Watch a running manager: usage, hits, who holds what.

    URL is where its process serves metrics (kvframe.metrics.serve). Interrupt to end.
    """
    if once:
        refuse("--once looks once", "interval")
    # rich and the Prometheus client are an extra: without it the rest of the command line works.
    from kvframe.metrics.view import Console, Live, fetched, page, scraped

    def look() -> Scrape:
        return scraped(fetched(url), engine, time.monotonic())

    console = Console()
    now = look()
    if once:
        console.print(page(now))
        return
    with Live(page(now), console=console, screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(interval)
            before, now = now, look()
            live.update(page(now, before), refresh=True)
