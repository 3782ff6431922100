"""Every planted defect, and which defects of the superseded managers they bring back."""

from __future__ import annotations

from tests.mutants import catalogue, groups, retention, sharing, tiers
from tests.mutants.mutant import Mutant
from tests.mutants.seeds import cbtop, ferrum, makarna, simulator, slots

MUTANTS: tuple[Mutant, ...] = (
    *catalogue.MUTANTS,
    *groups.MUTANTS,
    *tiers.MUTANTS,
    *retention.MUTANTS,
    *sharing.MUTANTS,
    *simulator.MUTANTS,
    *cbtop.MUTANTS,
    *ferrum.MUTANTS,
    *makarna.MUTANTS,
    *slots.MUTANTS,
)

NOT_PLANTED = {
    "FE-B2": "no text of the core: bytes are moved by the data plane, as a plan says",
    "FE-B3": "no text of the core: bytes are moved by the data plane, as a plan says",
    "FE-B5": "no text of the core: one manager knows the ids of one tier",
    "FE-B13": "no text of the core: callbacks run in the bindings, after their lock is dropped",
    "FE-B18": "no text of the core: the bindings bound a slot mapping by the sequence's length",
    "FE-B20": "no text of the core: bytes of a block are the configuration's",
    "FE-B24": "no text of the core: which tiers there are is the configuration's",
    "FE-B27": "a shape of the interface: there is no handle but a number",
    "FE-B29": "a cost, and no wrong answer: held by a timed test and by instruction counts",
    "FE-B30": "no text of the core: nothing is compressed",
    "MK-B9": "a shape of the language: the core copies what it borrows, or does not compile",
    "SA-B13": "a shape of the language: the core is one owner's, or does not compile",
}
"""Defects that one replacement in the core cannot bring back, and why; tests serve them as well."""


def replanted() -> dict[str, list[str]]:
    """Names of the mutants that bring back each defect."""
    found: dict[str, list[str]] = {}
    for mutant in MUTANTS:
        for row in mutant.rows:
            found.setdefault(row, []).append(mutant.name)
    return found
