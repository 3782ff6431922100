"""What of another engine a package builds on, release by release.

A table holds, for each release that is known, the parameters and fields of the classes and
functions that the package meets. At start they are read from the installed sources and compared:
outside the table the engine stays as it is. Sources are parsed, not imported, so that an unpacked
wheel can be recorded.
"""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import json
from collections.abc import Iterator, Mapping
from pathlib import Path


class Releases:
    """The releases of an engine that one table knows.

    Args:
        engine: Its name in messages; that of its distribution in lower case.
        sources: The folder of its sources, below where packages are installed.
        points: Classes and functions by file below that folder.
        table: The file; it need not be there before `record`.
        numbers: How many numbers of a version name a release: 2 for ``0.33`` of ``0.33.1``.
    """

    def __init__(
        self,
        engine: str,
        sources: str,
        points: Mapping[str, tuple[str, ...]],
        table: Path,
        *,
        numbers: int = 3,
    ) -> None:
        self.points, self.table = points, table
        self._engine, self._sources, self._numbers = engine, sources, numbers

    @functools.cached_property
    def unknown(self) -> str | None:
        """Why the installed release is not one that is known, in one sentence; None if it is."""
        try:
            found = importlib.metadata.distribution(self._engine.lower())
            return self.difference(Path(str(found.locate_file(""))), found.version)
        except (importlib.metadata.PackageNotFoundError, OSError, SyntaxError) as error:
            return f"{self._engine}'s sources cannot be read ({type(error).__name__}: {error})"

    def difference(self, site: Path, version: str) -> str | None:
        """The same of a release of that version in the folder ``site``."""
        table, release = self.recorded(), self._release(version)
        known = table.get(release)
        if known is None:
            return f"{self._engine} {version} is not one of the known releases, {', '.join(table)}"
        found = self.signatures(site)
        changed = sorted(key for key in known.keys() | found if known.get(key) != found.get(key))
        if not changed:
            return None
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        was, now = known.get(changed[0], "absent"), found.get(changed[0], "absent")
        what = f"{changed[0]} was {was}, is {now}{more}"
        return f"{self._engine} {version} differs from {release} as recorded: {what}"

    def record(self, site: Path, version: str) -> None:
        """Enter the release of that version in the folder ``site`` into the table."""
        table = self.recorded() if self.table.is_file() else {}
        table[self._release(version)] = self.signatures(site)
        ordered = dict(sorted(table.items(), key=lambda row: [*map(int, row[0].split("."))]))
        self.table.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")

    def recorded(self) -> dict[str, dict[str, str]]:
        """The table."""
        rows: dict[str, dict[str, str]] = json.loads(self.table.read_text(encoding="utf-8"))
        return rows

    def signatures(self, site: Path) -> dict[str, str]:
        """Parameters of each function and method, and each field, of what `points` names."""
        found: dict[str, str] = {}
        for file, names in self.points.items():
            path = site / self._sources / file
            if path.is_file():
                for node in ast.parse(path.read_text(encoding="utf-8")).body:
                    if isinstance(node, ast.ClassDef) and node.name in names:
                        found.update(_members(node))
                    elif isinstance(node, ast.FunctionDef) and node.name in names:
                        found[node.name] = _parameters(node.args)
        return found

    def _release(self, version: str) -> str:
        return ".".join(version.split(".")[: self._numbers])


def _members(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for member in node.body:
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
            # An abstract method more is one that the package does not answer.
            kind = (
                "abstract " if "abstractmethod" in map(ast.unparse, member.decorator_list) else ""
            )
            yield f"{node.name}.{member.name}", kind + _parameters(member.args)
        elif isinstance(member, ast.AnnAssign):
            yield f"{node.name}.{ast.unparse(member.target)}", "a field"


def _parameters(given: ast.arguments) -> str:
    """Names and defaults, without annotations, which say nothing about how it is called."""
    for one in ast.walk(given):
        if isinstance(one, ast.arg):
            one.annotation = None
    return f"({ast.unparse(given)})"
