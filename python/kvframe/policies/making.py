"""A policy in Python or compiled, made of its descriptor and its options."""

from __future__ import annotations

from typing import Any

import msgspec

from kvframe.errors import PolicyError
from kvframe.policies.report import origin_of
from kvframe.registry import Loaded
from kvframe.registry.descriptors import Descriptor
from kvframe.registry.raised import one_line


def made(loaded: Loaded[Any], options: msgspec.Struct | None) -> object:
    """A new policy; None for a built-in one.

    Raises:
        PolicyError: It cannot be made.
    """
    descriptor: Descriptor = loaded.descriptor
    if descriptor.make is None:
        return None
    try:
        return descriptor.make(options)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # as where a plugin is imported
        raise PolicyError(f"{origin_of(loaded)}: cannot be made: {one_line(error)}") from error
