"""Tables that stand in a page of the docs, and the modules that measure them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from perf.results import warn_debug


def write_page(
    page: Path, module: str, about: str | None, measured: Callable[[str | None], str]
) -> None:
    """The command of such a module: measure, print, and write the page.

    Args:
        page: Where the table stands.
        module: The one that is run.
        about: Its docstring.
        measured: Answers the table: of one trace, or of all.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("--trace", help="one alone, and only printed")
    only = parser.parse_args().trace
    warn_debug()
    told = measured(only)
    print(told)
    if only is None:
        write(page, module, told)


def write(page: Path, module: str, told: str) -> None:
    """Put what a module measured into a page, between the two comments that name the module."""
    begin, end = f"<!-- written by: python -m {module} -->\n", "<!-- to here -->\n"
    before, rest = page.read_text("utf-8").split(begin)
    after = rest.split(end, 1)[1]
    page.write_text(f"{before}{begin}\n{told}\n\n{end}{after}", "utf-8")
