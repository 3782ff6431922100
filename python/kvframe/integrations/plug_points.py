"""The facts that the plug points of other engines pass to a policy.

A policy at a plug point has to do without the facts that its engine does not tell.
Engines are not imported here; the adapters keep to this, and docs/how-to/other-engines.md says it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

FACTS: Mapping[str, str] = {
    "parents": "turns that built the prefix",
    "depth": "place in the prompt",
    "tokens": "length of the request",
    "session": "session",
    "turn": "turn",
    "request_class": "class",
    "priority": "priority",
    "next_use": "next use",
}
"""What a policy may go by besides recency and uses, which every plug point tells."""


class PlugPoint(msgspec.Struct, frozen=True):
    """A plug point.

    Attributes:
        name: What it is called in tables.
        parents: Whether a block is only offered after those that follow it.
        tells: Facts that the engine always tells.
        asked: Facts that it tells if the request brings them.
    """

    name: str
    parents: bool
    tells: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()

    def lost(self, needs: Iterable[str]) -> list[str]:
        """Those of ``needs`` that it never tells, in the order of `FACTS`."""
        known = self.tells | self.asked
        return [fact for fact in FACTS if fact in needs and fact not in known]


PLUG_POINTS = (
    PlugPoint(
        "vLLM",
        parents=False,
        tells=frozenset({"depth"}),
        asked=frozenset({"tokens", "session", "turn", "request_class", "priority"}),
    ),
    PlugPoint("SGLang", parents=True, tells=frozenset({"depth", "tokens", "priority"})),
    PlugPoint("LMCache backend", parents=False),
    PlugPoint("LMCache MP server", parents=False, tells=frozenset({"depth"})),
)
"""The plug points that the modules of this package fill."""
