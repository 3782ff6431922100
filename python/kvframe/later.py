"""Names of a package whose modules are imported when one is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from kvframe.renamed import no_attribute


def later(
    package: str, modules: Mapping[str, str], old: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """The ``__getattr__`` of ``package``.

    Args:
        package: Its ``__name__``.
        modules: The module of the package that has each name.
        old: What names of before are called now, for the error.
    """

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name not in modules:
            raise no_attribute(package, name, old or {})
        found = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return __getattr__
