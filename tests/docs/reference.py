"""Reference pages that are written from the code: commands, verbs, errors.

``python -m tests.docs.reference`` writes them into docs/reference; `test_reference.py` says whether
they are as they would be written.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import click

from kvframe import KVCacheManager, RouterIndex, SlotCache, errors
from kvframe.blocks import BlockPool
from kvframe.cli import main
from kvframe.cli.pages import PAGES
from kvframe.errors import KVFrameError
from kvframe.pins import Pins
from kvframe.pressure import PressureRoom
from kvframe.stats.counters import Stats
from kvframe.stats.events import Log
from kvframe.stats.inspect import Inspect
from kvframe.tenants import Tenants
from kvframe.tiers import Tiers
from tests.docs.docstring import Docstring, markdown, wrapped

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
NOTE = "<!-- Written by `python -m tests.docs.reference`; do not edit. -->"
COMMANDS = (
    "Every command and option of `kvframe`, as `--help` says it. Data goes to stdout, everything "
    "else to stderr. Exit codes: 0 success; 1 a result below a threshold, or a broken promise; "
    "2 wrong usage or data; 130 interrupted; 141 the reader of stdout has closed it."
)
ELSEWHERE = (
    "[Rooms](verbs-of-rooms.md) has the verbs of `kv.pins` and the other rooms, [the classes "
    "beside the manager](verbs-beside.md) those of tiers, slots and the router, and "
    "[errors](errors.md) what each error means. The [tutorial](../tutorial/serving.md) uses most "
    "of these verbs."
)
ROOMS: Mapping[str, type] = {
    "kv.pins": Pins,
    "kv.blocks": BlockPool,
    "kv.pressure": PressureRoom,
    "kv.tenants": Tenants,
    "kv.stats": Stats,
    "kv.log": Log,
    "kv.inspect": Inspect,
}
BESIDE: Mapping[str, type] = {
    "kvframe.tiers.Tiers": Tiers,
    "kvframe.SlotCache": SlotCache,
    "kvframe.RouterIndex": RouterIndex,
}


# --- commands -------------------------------------------------------------------------------------


def walk(command: click.Command, parent: click.Context | None = None) -> Iterator[click.Context]:
    """A context of the command and of each below it, as its help would have."""
    name = "kvframe" if parent is None else command.name
    context = click.Context(command, info_name=name, parent=parent)
    yield context
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from walk(found, context)


def commands_page() -> str:
    contexts = list(walk(main))
    parts = [
        f"# Commands\n\n{NOTE}\n",
        wrapped(COMMANDS),
        "",
        "| command | |\n| --- | --- |",
    ]
    for context in contexts[1:]:
        path = context.command_path
        parts.append(f"| [`{path}`](#{path.replace(' ', '-')}) | {summary(context)} |")
    parts.append("")
    for context in contexts[1:]:
        parts += command(context)
    return "\n".join(parts).rstrip() + "\n"


def summary(context: click.Context) -> str:
    return cell(context.command.get_short_help_str(limit=200))


def command(context: click.Context) -> list[str]:
    """The section of one command."""
    parts = [f"## `{context.command_path}`\n"]
    usage = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
    parts.append(f"```text\n{usage}\n```\n")
    for paragraph in inspect.cleandoc(context.command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            parts.append(f"```text\n{paragraph.removeprefix(chr(8)).strip(chr(10))}\n```\n")
        else:
            parts.append(f"{wrapped(markdown(paragraph))}\n")
    rows = [
        f"| {code(record[0])} | {cell(record[1])} |"
        for option in context.command.get_params(context)
        if isinstance(option, click.Option) and "--help" not in option.opts
        if (record := option.get_help_record(context)) is not None
    ]
    if rows:
        parts += ["| option | |\n| --- | --- |", *rows, ""]
    page = PAGES[context.command_path.partition(" ")[2]]
    parts.append(f"More: [{page.removeprefix('docs/')}]({page.replace('docs/', '../')}).\n")
    return parts


def code(text: str) -> str:
    return f"`{cell(text)}`"


def cell(text: str) -> str:
    """Text that a table's cell can hold."""
    return " ".join(text.split()).replace("|", "\\|")


# --- verbs ----------------------------------------------------------------------------------------


def verbs(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_")]


def signature(name: str, member: object) -> str:
    """How the verb is called; an attribute is its name alone."""
    member = inspect.unwrap(member.__func__ if isinstance(member, classmethod) else member)  # type: ignore[arg-type]
    if not callable(member):
        return name
    told = inspect.signature(member)
    kept = [one for one in told.parameters.values() if one.name not in ("self", "cls", "strange")]
    returns = told.return_annotation
    answer = "" if returns is inspect.Signature.empty else f" -> {returns}"
    shown: list[str] = []
    for one in kept:
        if one.kind is one.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        shown.append(str(one).replace("'", ""))
    line = f"{name}({', '.join(shown)}){answer}"
    if len(line) <= 100:
        return line
    return "\n".join([f"{name}(", *(f"    {one}," for one in shown), f"){answer}"])


def verb(name: str, kind: type, level: int, place: str) -> list[str]:
    """The section of one verb."""
    member = inspect.getattr_static(kind, name)
    text = Docstring.of(getattr(kind, name))
    parts = [f"{'#' * level} `{place}{name}`\n", f"```py\n{signature(name, member)}\n```\n"]
    return [*parts, *text.shown(), ""]


def verbs_page() -> str:
    told = Docstring.of(KVCacheManager)
    parts = [f"# Verbs of `KVCacheManager`\n\n{NOTE}\n", *told.body(), ""]
    parts += [wrapped(ELSEWHERE), "", index({"": KVCacheManager})]
    for name in verbs(KVCacheManager):
        parts += verb(name, KVCacheManager, 2, "")
    return "\n".join(parts).rstrip() + "\n"


def classes_page(title: str, lead: str, classes: Mapping[str, type], short: bool) -> str:
    """The verbs of several classes; ``short`` puts the class's place before each name."""
    parts = [f"# {title}\n\n{NOTE}\n", f"{lead}\n", index(classes if short else named(classes))]
    for place, kind in classes.items():
        parts += [f"## `{place}`\n", *Docstring.of(kind).shown(), ""]
        before = f"{place}." if short else f"{kind.__name__}."
        for name in verbs(kind):
            parts += verb(name, kind, 3, before)
    return "\n".join(parts).rstrip() + "\n"


def named(classes: Mapping[str, type]) -> dict[str, type]:
    return {kind.__name__: kind for kind in classes.values()}


def index(classes: Mapping[str, type]) -> str:
    """A table of all verbs, each with the first sentence of its docstring."""
    rows = ["| verb | |", "| --- | --- |"]
    for place, kind in classes.items():
        for name in verbs(kind):
            whole = f"{place}.{name}" if place else name
            link = whole.replace(".", "").lower()
            rows.append(
                f"| [`{whole}`](#{link}) | {cell(Docstring.of(getattr(kind, name)).first())} |"
            )
    return "\n".join([*rows, ""])


# --- errors ---------------------------------------------------------------------------------------


def kinds() -> list[type[KVFrameError]]:
    """Every error, in the order of the source."""
    found = [one for one in vars(errors).values() if isinstance(one, type)]
    return [one for one in found if issubclass(one, KVFrameError)]


@cache
def raisers() -> dict[str, list[str]]:
    """By error: the verbs whose docstrings say that they raise it, as links."""
    found: dict[str, list[str]] = {kind.__name__: [] for kind in kinds()}
    pages: Iterable[tuple[str, Mapping[str, type]]] = (
        ("verbs.md", {"": KVCacheManager}),
        ("verbs-of-rooms.md", ROOMS),
        ("verbs-beside.md", named(BESIDE)),
    )
    for page, classes in pages:
        for place, kind in classes.items():
            for name in verbs(kind):
                whole = f"{place}.{name}" if place else name
                link = f"[`{whole}`]({page}#{whole.replace('.', '').lower()})"
                for error, _ in Docstring.of(getattr(kind, name)).sections.get("Raises", ()):
                    if error in found:
                        found[error].append(link)
    return found


def errors_page() -> str:
    parts = [f"# Errors\n\n{NOTE}\n", f"{wrapped(markdown(inspect.getdoc(errors) or ''))}\n"]
    parts += ["| error | when |", "| --- | --- |"]
    for kind in kinds():
        name = kind.__name__
        parts.append(f"| [`{name}`](#{name.lower()}) | {cell(Docstring.of(kind).first())} |")
    parts.append("")
    for kind in kinds():
        bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
        parts += [f"## `{kind.__name__}`\n", f"A kind of {bases}.\n", *Docstring.of(kind).shown()]
        if links := raisers()[kind.__name__]:
            parts += ["", wrapped(f"Raised by {', '.join(links)}.")]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


# --- the pages ------------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """Every written page by its name."""
    written = {
        "commands.md": commands_page(),
        "errors.md": errors_page(),
        "verbs.md": verbs_page(),
        "verbs-of-rooms.md": classes_page(
            "Verbs of the rooms",
            "A manager `kv` has rooms for what a serving loop seldom needs.",
            ROOMS,
            short=True,
        ),
        "verbs-beside.md": classes_page(
            "Verbs beside the manager",
            "Classes that stand beside a `KVCacheManager`, or in its place.",
            BESIDE,
            short=False,
        ),
    }
    return {name: re.sub(r"\n{3,}", "\n\n", text) for name, text in written.items()}


if __name__ == "__main__":
    for name, text in pages().items():
        (FOLDER / name).write_text(text, "utf-8")
