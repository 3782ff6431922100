"""The built-in admission policies: described here, run by the core."""

from __future__ import annotations

from typing import Annotated

import msgspec

from kvframe.policies.builtin_options import Number, Positive
from kvframe.registry.descriptors import AdmissionPolicy
from kvframe.registry.hookspecs import hookimpl

Uses = Annotated[Positive, msgspec.Meta(description="Kept from this use on; the first counts.")]
Keys = Annotated[int, msgspec.Meta(ge=1, le=2**24, description="Keys that are remembered.")]


class SecondUseOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``second-use``."""

    uses: Uses = 2
    remember: Keys = 65536


class FrequencyOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``frequency``."""

    uses: Annotated[
        int,
        msgspec.Meta(
            ge=1, le=15, description="Uses that are enough where the order of eviction is unknown."
        ),
    ] = 2
    capacity: Annotated[
        int, msgspec.Meta(ge=1, le=2**26, description="Keys that the sketch tells apart.")
    ] = 65536


class BranchPointOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``branch-point``."""

    remember: Keys = 65536


class SizeOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``size``."""

    min_tokens: Annotated[
        Number, msgspec.Meta(description="Shorter requests leave nothing, in tokens.")
    ] = 1024
    max_tokens: Annotated[
        Number, msgspec.Meta(description="Nothing past this many tokens of a request is kept.")
    ] = 2**32 - 1


class CostOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``cost``."""

    min_cost: Annotated[
        Number,
        msgspec.Meta(description="Cheaper requests leave nothing; in tokens without attention."),
    ] = 1024
    attention_tokens: Annotated[
        Positive,
        msgspec.Meta(
            description="Depth in tokens at which a token's attention costs as much as all else."
        ),
    ] = 32768


class WriteThroughOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``write-through``."""

    uses: Uses = 1


class SelectiveOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``selective``."""

    uses: Uses = 2


BUILTIN_ADMISSION = (
    AdmissionPolicy(name="always", way="builtin", summary="everything is kept"),
    AdmissionPolicy(
        name="second-use",
        way="builtin",
        summary="kept from the n-th use on",
        source="vLLM: FilterReusedOffloadingManager",
        options=SecondUseOptions,
    ),
    AdmissionPolicy(
        name="frequency",
        way="builtin",
        summary="kept if used more often than what would be evicted for it",
        source="TinyLFU: Einziger et al., ACM Transactions on Storage 13(4), 2017",
        options=FrequencyOptions,
    ),
    AdmissionPolicy(
        name="branch-point",
        way="builtin",
        summary="states of recurrent layers only where prompts part or end; all attention KV",
        source="Marconi: Pan et al., MLSys 2025",
        options=BranchPointOptions,
    ),
    AdmissionPolicy(
        name="size",
        way="builtin",
        summary="requests of a minimum length, up to a maximum of their tokens",
        options=SizeOptions,
    ),
    AdmissionPolicy(
        name="cost",
        way="builtin",
        summary="requests that cost enough to compute again",
        options=CostOptions,
    ),
    AdmissionPolicy(
        name="write-back",
        way="builtin",
        summary="to a lower tier once the tier above evicts it",
        source="SGLang HiCache: write_back",
    ),
    AdmissionPolicy(
        name="write-through",
        way="builtin",
        summary="to a lower tier from the n-th use on",
        source="SGLang HiCache: write_through",
        options=WriteThroughOptions,
    ),
    AdmissionPolicy(
        name="selective",
        way="builtin",
        summary="to a lower tier from the second use on",
        source="SGLang HiCache: write_through_selective",
        options=SelectiveOptions,
    ),
)


@hookimpl
def kvframe_admission() -> tuple[AdmissionPolicy, ...]:
    """The admission policies that the core runs itself."""
    return BUILTIN_ADMISSION
