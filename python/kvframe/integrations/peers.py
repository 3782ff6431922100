"""What the modules for other engines share: their plug points, and what names a policy there."""

from __future__ import annotations

import warnings
from importlib import import_module, metadata
from types import ModuleType

import msgspec

from kvframe.flat import UNKNOWN, Access

PREFIX = "kvframe:"
"""What stands before a policy's name in an engine's configuration."""


def seam(module: str, package: str, supported: str) -> ModuleType:
    """The module of another package that has its plug point, imported.

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
    """The error to raise if a module of ``package`` cannot be imported because of ``error``."""
    try:
        found = f"{package} {metadata.version(package)} is installed"
    except metadata.PackageNotFoundError:
        found = f"{package} is not installed"
    return ImportError(
        f"{module} cannot be imported ({error}): {found}, supported: {package} {supported}",
        name=module,
    )


_RANGES = {
    "session": (0, 2**64 - 1),
    "turn": (0, 2**32 - 1),
    "request_class": (0, 2**32 - 1),
    "priority": (-(2**31), 2**31 - 1),
    "tokens": (0, 2**32 - 1),
}


def use_of(told: object) -> Access:
    """Read the fields of an `Access` that a client gives as JSON with its request.

    A client's request must not stop the engine: a wrong field is left out, with a warning.
    """
    if told is None:
        return UNKNOWN
    try:
        use = msgspec.convert(told, Access)
        str(use.session).encode()
    except msgspec.ValidationError as error:
        wrong = str(error)
    except UnicodeEncodeError:
        wrong = "session must be a name that has a UTF-8 form"
    else:
        for name, (least, most) in _RANGES.items():
            value = getattr(use, name)
            if not isinstance(value, str) and not least <= value <= most:
                # The value is left out, because Python keeps every text that it has warned of.
                wrong = f"{name} must be an integer from {least} to {most}"
                break
        else:
            # `next_use` has an entry for each block of a prompt. An engine stores a single block
            # and does not say which, so the entries are dropped.
            return msgspec.structs.replace(use, next_use=())
    warnings.warn(f"what a request says of itself is left out: {wrong}", stacklevel=2)
    return UNKNOWN
