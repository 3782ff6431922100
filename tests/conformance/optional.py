"""Which tests may be skipped on a machine that lacks something: read from the sources.

A test is optional if it, its class or its module is marked ``skip`` or ``skipif``, or calls
``pytest.skip`` or ``pytest.importorskip``; so is each that uses a helper or fixture which does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SKIPS = ("pytest.skip", "pytest.importorskip")
MARKS = ("pytest.mark.skip", "pytest.mark.skipif")
LAST = {name.rpartition(".")[2] for name in (*SKIPS, *MARKS)}
TOOLS = frozenset({"compiler"})
"""Helpers that skip without a tool which CI has: a C compiler."""

PROGRAMS = ("valgrind",)
"""Programs that CI has, looked for by ``skipif(shutil.which(NAME) is None)``."""

Definition = ast.FunctionDef | ast.ClassDef


class Module(NamedTuple):
    """One file: what it defines, what it takes from where, whether all or some of it may skip."""

    definitions: dict[str, Definition]
    imported: dict[str, tuple[Path, str]]
    skips: bool
    may_skip: bool


def optional(files: list[Path], root: Path) -> set[tuple[Path, str]]:
    """Tests, helpers and fixtures of ``files`` that may skip, each by its file and name."""
    modules = {path: read(path, root) for path in files}
    found = {
        (path, name)
        for path, module in modules.items()
        for name, node in module.definitions.items()
        if name not in TOOLS and (module.skips or (module.may_skip and skips(node)))
    }
    uses = {
        (path, name): set(used(path, module, node, modules))
        for path, module in modules.items()
        for name, node in module.definitions.items()
        if name not in TOOLS
    }
    while more := {one for one, of in uses.items() if one not in found and of & found}:
        found |= more
    return found


def read(path: Path, root: Path) -> Module:
    text = path.read_text()
    tree = ast.parse(text)
    may_skip = any(word in text for word in LAST)
    definitions = {node.name: node for node in tree.body if isinstance(node, Definition)}
    imported: dict[str, tuple[Path, str]] = {}
    for node in tree.body:
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            folder = path.parents[node.level - 1]
        elif node.module and node.module.startswith("tests"):
            folder = root
        else:
            continue
        parts = (node.module or "").split(".") if node.module else []
        for name in node.names:
            file = folder.joinpath(*parts).with_suffix(".py")
            if not file.exists():
                file = folder.joinpath(*parts, "__init__.py")
            imported[name.asname or name.name] = file, name.name
    rest = [node for node in tree.body if not isinstance(node, Definition)]
    return Module(definitions, imported, may_skip and any(map(skips, rest)), may_skip)


def skips(node: ast.AST) -> bool:
    """Whether a piece of source skips by itself, and not for want of one of `PROGRAMS` alone."""
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
    named = [
        (ast.unparse(call.func), call)
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in LAST
    ]
    return any(
        name in SKIPS or (name in MARKS and not (call.args and _lacks_program(call.args[0])))
        for name, call in named
    )


def _lacks_program(condition: ast.expr) -> bool:
    return ast.unparse(condition) in {f"shutil.which({name!r}) is None" for name in PROGRAMS}


def used(
    path: Path, module: Module, node: Definition, modules: dict[Path, Module]
) -> Iterator[tuple[Path, str]]:
    """Helpers and fixtures that a definition names."""
    named = (n for n in ast.walk(node) if isinstance(n, ast.Name | ast.arg))
    names = {n.id if isinstance(n, ast.Name) else n.arg for n in named}
    conftests = (folder / "conftest.py" for folder in path.parents)
    above = [conftest for conftest in conftests if conftest in modules]
    for name in names:
        if name in module.definitions:
            yield path, name
        elif name in module.imported:
            yield module.imported[name]
        for conftest in above:
            if name in modules[conftest].definitions:
                yield conftest, name
                break
