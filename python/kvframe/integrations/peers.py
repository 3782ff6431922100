"""What the modules for other engines share: their plug points, and what names a policy there."""

from __future__ import annotations

from importlib import import_module, metadata
from types import ModuleType

PREFIX = "kvframe:"
"""What stands before a policy's name in an engine's configuration."""


def seam(module: str, package: str, supported: str) -> ModuleType:
    """The module of another package that holds its plug point.

    Args:
        module: Its full name.
        package: The distribution it comes from.
        supported: Versions whose plug point is known.

    Raises:
        ImportError: It is not there; says which version was found and which are supported.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise missing(error, module, package, supported) from error


def missing(error: ImportError, module: str, package: str, supported: str) -> ImportError:
    """What to raise where ``error`` kept a module of ``package`` from being imported."""
    try:
        found = f"{package} {metadata.version(package)} is installed"
    except metadata.PackageNotFoundError:
        found = f"{package} is not installed"
    return ImportError(
        f"{module} cannot be imported ({error}): {found}, supported: {package} {supported}",
        name=module,
    )
