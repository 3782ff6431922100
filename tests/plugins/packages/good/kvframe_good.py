"""A plugin as it should be: two eviction policies, one of them with options, and an admission."""

from typing import Annotated

import msgspec

import kvframe


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    weight: Annotated[float, msgspec.Meta(ge=0, le=10)] = 1.0
    label: str = "none"

    def __post_init__(self) -> None:
        if self.label.isupper():
            raise ValueError("label must not shout")


class Good:
    def __init__(self, options: Options | None) -> None:
        self.options = options


@kvframe.hookimpl
def kvframe_eviction() -> list[kvframe.EvictionPolicy]:
    return [
        kvframe.EvictionPolicy(
            name="good",
            way="batched",
            summary="a policy with options",
            source="this test",
            options=Options,
            make=Good,
        ),
        kvframe.EvictionPolicy(
            name="steady", way="batched", summary="a policy without options", make=Good
        ),
    ]


@kvframe.hookimpl
def kvframe_admission() -> list[kvframe.AdmissionPolicy]:
    return [
        kvframe.AdmissionPolicy(
            name="good", way="batched", summary="an admission of the same name", make=Good
        )
    ]
