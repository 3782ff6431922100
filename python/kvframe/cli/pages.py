"""Where the documentation of each command is, as its help and its errors say it."""

from __future__ import annotations

INDEX = "docs/index.md"
PAGES = {
    "bench": "docs/reference/bench.md",
    "bench answer": "docs/reference/bench.md",
    "bench check": "docs/how-to/write-a-policy.md",
    "bench compare": "docs/reference/bench.md",
    "bench curve": "docs/reference/bench.md",
    "bench experiment": "docs/how-to/experiments.md",
    "bench plot": "docs/how-to/report.md",
    "bench report": "docs/how-to/report.md",
    "bench reuse": "docs/reference/indexes.md",
    "bench run": "docs/reference/bench.md",
    "bench serve": "docs/how-to/simulate-a-server.md",
    "bench tune": "docs/reference/bench.md",
    "bench verify": "docs/how-to/simulate-a-server.md",
    "calibrate": "docs/how-to/simulate-a-server.md",
    "check": "docs/reference/configuration.md",
    "events": "docs/reference/wire.md",
    "events index": "docs/how-to/route.md",
    "events record": "docs/reference/traces.md",
    "events tail": "docs/reference/wire.md",
    "new-plugin": "docs/tutorial/your-first-policy.md",
    "plugins": "docs/reference/policies.md",
    "plugins lock": "docs/reference/configuration.md",
    "shadow": "docs/how-to/shadow.md",
    "tiers": "docs/how-to/tiers.md",
    "tiers clear": "docs/how-to/tiers.md",
    "tiers list": "docs/how-to/tiers.md",
    "top": "docs/reference/metrics.md",
    "trace": "docs/reference/traces.md",
    "trace convert": "docs/reference/traces.md",
    "trace info": "docs/reference/traces.md",
    "trace merge": "docs/reference/traces.md",
    "trace sample": "docs/reference/traces.md",
    "trace synth": "docs/reference/traces.md",
    "trace validate": "docs/reference/traces.md",
}
"""Paths in kvframe's repository, by the command's words."""


def where(command: str) -> str:
    """Where the page of a command is; the command by its words after ``kvframe``."""
    return f"{PAGES.get(command, INDEX)} in kvframe's repository"


def told(command: str) -> str:
    """The line below a command's help."""
    return f"Documentation: {where(command)}."
