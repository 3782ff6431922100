"""The built-in admission policies: described here, run by the core."""

from __future__ import annotations

from kvframe.policies.core_options import options_of
from kvframe.registry.descriptors import AdmissionPolicy
from kvframe.registry.hookspecs import hookimpl


def _policy(name: str, summary: str, source: str = "") -> AdmissionPolicy:
    return AdmissionPolicy(
        name=name,
        way="builtin",
        summary=summary,
        source=source,
        options=options_of("admission", name),
    )


BUILTIN_ADMISSION = (
    _policy("always", "everything is kept"),
    _policy(
        "second-use",
        "kept from the n-th use on",
        source="vLLM: FilterReusedOffloadingManager",
    ),
    _policy(
        "frequency",
        "kept if used more often than what would be evicted for it",
        source="TinyLFU: Einziger et al., ACM Transactions on Storage 13(4), 2017",
    ),
    _policy(
        "branch-point",
        "states of recurrent layers only where prompts part or end; all attention KV",
        source="Marconi: Pan et al., MLSys 2025",
    ),
    _policy(
        "size",
        "requests of a minimum length, up to a maximum of their tokens",
    ),
    _policy(
        "cost",
        "requests that cost enough to compute again",
    ),
    _policy(
        "write-back",
        "to a lower tier once the tier above evicts it",
        source="SGLang HiCache: write_back",
    ),
    _policy(
        "write-through",
        "to a lower tier from the n-th use on",
        source="SGLang HiCache: write_through",
    ),
    _policy(
        "selective",
        "to a lower tier from the second use on",
        source="SGLang HiCache: write_through_selective",
    ),
)


@hookimpl
def kvframe_admission() -> tuple[AdmissionPolicy, ...]:
    """The admission policies that the core runs itself."""
    return BUILTIN_ADMISSION
