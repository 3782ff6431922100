"""Reference pages that are written from the code: commands, verbs, errors.

``python -m tests.docs.reference`` writes them into docs/reference; `test_reference.py` says whether
they are as they would be written.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import ForwardRef

import click

import kvframe
from kvframe import KVCacheManager, RouterIndex, SlotCache, errors
from kvframe.blocks import BlockPool
from kvframe.cli import main
from kvframe.cli.pages import PAGES
from kvframe.errors import KVFrameError
from kvframe.manager.settings import Settings
from kvframe.pins import Pins
from kvframe.pressure import PressureRoom
from kvframe.stats.counters import Stats
from kvframe.stats.events import Log
from kvframe.stats.inspect import Inspect
from kvframe.tenants import Tenants
from kvframe.tiers import Arriving, PollResult, SwapCost, TierHit, Tiers
from tests.docs.docstring import Docstring, markdown, wrapped

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
MODULE = re.compile(r"\bkvframe\.(?:\w+\.)+|\bcollections\.abc\.|\btyping\.")
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
VALUES = (
    "What the [verbs](verbs.md) take and return: every class of `kvframe` but its "
    "[errors](errors.md) and the classes whose verbs have a page; and, of `kvframe.tiers`, the "
    "values that its verbs take and return."
)
ROOMS: Mapping[str, type] = {
    "kv.pins": Pins,
    "kv.blocks": BlockPool,
    "kv.pressure": PressureRoom,
    "kv.settings": Settings,
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

OF_TIERS = (Arriving, PollResult, SwapCost, TierHit)


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


def parameter(one: inspect.Parameter) -> str:
    """An argument as its author wrote it: types as text, without their modules."""
    stars = "**" if one.kind is one.VAR_KEYWORD else ""
    kind, default = one.annotation, one.default
    if isinstance(kind, ForwardRef):
        kind = kind.__forward_arg__
    elif not isinstance(kind, str):
        kind = inspect.formatannotation(kind)
    typed = "" if one.annotation is one.empty else f": {re.sub(MODULE, '', kind)}"
    if default is one.empty:
        return f"{stars}{one.name}{typed}"
    shown = repr(default)
    text = "..." if shown.startswith("<") else shown
    return f"{stars}{one.name}{typed} = {text}" if typed else f"{one.name}={text}"


def signature(name: str, member: object) -> str:
    """How the verb is called; an attribute is its name alone."""
    member = inspect.unwrap(member.__func__ if isinstance(member, classmethod) else member)  # type: ignore[arg-type]
    if not callable(member):
        return name
    told = inspect.signature(member)
    kept = [one for one in told.parameters.values() if one.name not in ("self", "cls", "strange")]
    returns = told.return_annotation
    said = not isinstance(member, type) and returns is not inspect.Signature.empty
    answer = f" -> {returns}" if said else ""
    shown: list[str] = []
    for one in kept:
        if one.kind is one.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        shown.append(parameter(one))
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


# --- values ---------------------------------------------------------------------------------------


def values() -> dict[str, type]:
    """What the package offers beside its errors and the classes that have a page of verbs."""
    paged = {KVCacheManager, *BESIDE.values()}
    found = {name: getattr(kvframe, name) for name in kvframe.__all__}
    found |= {kind.__name__: kind for kind in OF_TIERS}
    return {
        name: kind
        for name, kind in found.items()
        if isinstance(kind, type) and kind not in paged and not issubclass(kind, KVFrameError)
    }


def members(kind: type[Enum]) -> Iterator[str]:
    """A line for each member of an enumeration: its number, and what stands below it."""
    source = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(source, ast.ClassDef)
    told = {}
    for line, below in pairwise([*source.body, ast.Pass()]):
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            node = below.value if isinstance(below, ast.Expr) else None
            told[line.targets[0].id] = node.value if isinstance(node, ast.Constant) else ""
    for member in kind:
        text = markdown(str(told[member.name]))
        yield wrapped(f"- `{member.name}` ({member.value}){': ' if text else ''}{text}", "  ")


def values_page() -> str:
    kinds = dict(sorted(values().items()))
    parts = [f"# Values\n\n{NOTE}\n", wrapped(VALUES), "", "| class | |", "| --- | --- |"]
    parts += [
        f"| [`{name}`](#{name.lower()}) | {cell(Docstring.of(kind).first())} |"
        for name, kind in kinds.items()
    ]
    parts.append("")
    for name, kind in kinds.items():
        parts.append(f"## `{name}`\n")
        if issubclass(kind, Enum):
            parts += [*Docstring.of(kind).shown(), "", *members(kind), ""]
        else:
            parts += [f"```py\n{signature(name, kind)}\n```\n", *Docstring.of(kind).shown(), ""]
    return "\n".join(parts).rstrip() + "\n"


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
        "values.md": values_page(),
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
