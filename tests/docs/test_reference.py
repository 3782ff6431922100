"""The reference pages are what the code says: commands, verbs, errors; help names its page."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

import kvframe
from kvframe import KVCacheManager
from kvframe.cli import main
from kvframe.cli.pages import PAGES, told
from kvframe.config import Config
from kvframe.registry import hookspecs
from tests.docs import reference
from tests.docs.docstring import Docstring

ROOT = Path(__file__).parents[2]
WRITTEN = reference.pages()


@pytest.mark.parametrize("name", WRITTEN)
def test_a_page_is_as_it_would_be_written(name: str) -> None:
    again = "run: python -m tests.docs.reference"
    assert (reference.FOLDER / name).read_text("utf-8") == WRITTEN[name], again


def test_every_command_has_a_page_that_its_help_names() -> None:
    paths = [context.command_path.partition(" ")[2] for context in reference.walk(main)]
    assert paths[1:] == list(PAGES)
    for path in paths:
        said = CliRunner().invoke(main, [*path.split(), "--help"], prog_name="kvframe").output
        assert said.rstrip().endswith(told(path)), path
    assert [page for page in PAGES.values() if not (ROOT / page).is_file()] == []


def test_every_verb_says_what_it_does() -> None:
    for classes in ({"": KVCacheManager}, reference.ROOMS, reference.BESIDE):
        for place, kind in classes.items():
            for name in reference.verbs(kind):
                assert Docstring.of(getattr(kind, name)).text, f"{place}.{name}"


def test_a_docstring_is_read() -> None:
    def verb() -> None:
        """Do ``this``. Then that.

        Further::of it:
        - one
          line
        - another

        Args:
            seq: A sequence,
                or none.
            **options: More.

        Raises:
            UsageError: It cannot be.

        A last word.
        """

    read = Docstring.of(verb)
    assert read.first() == "Do `this`."
    assert read.sections["Args"] == [("seq", "A sequence, or none."), ("**options", "More.")]
    shown = "\n".join(read.shown())
    assert "- one line\n- another\n" in shown
    assert "A last word." in shown
    assert "Errors:\n\n- `UsageError`: It cannot be.\n" in shown


def test_long_pages_open_with_all_that_is_on_them() -> None:
    def opening(page: str) -> list[str]:
        text = (reference.FOLDER / page).read_text("utf-8").partition("\n## ")[0]
        return re.findall(r"^\| \[`\[*(\w+)\]*`\]\(#", text, re.M)

    sections = [field.name for field in msgspec.structs.fields(Config)]
    assert sorted(opening("configuration.md")) == sorted(sections)
    hooks = [name for name in vars(hookspecs) if name.startswith("kvframe_")]
    assert opening("hooks.md") == hooks


def test_every_public_name_has_a_place() -> None:
    text = "\n".join([*WRITTEN.values(), (reference.FOLDER / "hooks.md").read_text("utf-8")])
    names = {*kvframe.__all__} - {"__version__"}
    assert [name for name in sorted(names) if not re.search(rf"[`.]{name}`", text)] == []
