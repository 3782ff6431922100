"""Schemas of the built-in policies' options, made of what each policy declares in the core."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from kvframe._core import policy_options

_DECLARED = policy_options()


def options_of(kind: Literal["eviction", "admission"], name: str) -> type[msgspec.Struct] | None:
    """The schema of a built-in policy's options; None if it takes none.

    Args:
        kind: What the policy decides.
        name: Its name in the core.

    Raises:
        KeyError: The core has no such policy.
    """
    fields = [
        (option, Annotated[int, msgspec.Meta(ge=least, le=most, description=description)], default)
        for option, default, least, most, description in _DECLARED[kind][name]
    ]
    if not fields:
        return None
    words = name.replace("-", " ").title().replace(" ", "")
    return msgspec.defstruct(
        f"{words}Options",
        fields,
        frozen=True,
        forbid_unknown_fields=True,
        namespace={"__doc__": f"Options of ``{name}``."},
    )
