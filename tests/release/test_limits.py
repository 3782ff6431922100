"""What docs/explanation/memory.md says of waiting and of faults that have a name."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

from kvframe.tiers import Tiers

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "memory.md").read_text("utf-8")

ENDLESS = re.compile(
    r"\.(?:join|wait|get|acquire|result|communicate|recv_multipart)\(\)|poller\.poll\(\)"
)
"""Calls that wait, without a limit."""

KNOWN = {
    "metrics/collector.py": 1,  # a thread whose loop has been told to end
    "testing/servers.py": 1,  # a process that has been killed
    "tiers/worker.py": 2,  # a thread that waits for jobs; one that has none, as it is closed
    "wire/publisher.py": 2,  # a thread that waits for work, and reads what the poll saw
    "wire/stream.py": 1,  # with rcvtimeo
    "bench/executors.py": 1,  # a replay that has ended
}


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    named = re.findall(r"(\d+) s[^|]*?\(`(kvframe(?:\.\w+)+)\.([A-Z]+_S)`\)", PAGE)
    assert len(named) >= 7
    for seconds, module, name in named:
        source = (ROOT / "python" / Path(*module.split("."))).with_suffix(".py").read_text("utf-8")
        (value,) = re.findall(rf"^{name} = ([\d.]+)", source, re.M)
        assert float(value) == float(seconds), name
    for call in (Tiers.drain, Tiers.close, Tiers.verify):
        default = inspect.signature(call).parameters["limit"].default
        assert default == importlib.import_module("kvframe.tiers.work").LIMIT_S


def test_nothing_else_waits_without_a_limit() -> None:
    found: dict[str, int] = {}
    package = ROOT / "python" / "kvframe"
    for path in package.rglob("*.py"):
        waits = ENDLESS.findall(path.read_text("utf-8"))
        if waits:
            found[path.relative_to(package).as_posix()] = len(waits)
    assert found == KNOWN


def test_every_test_that_the_page_names_is_there() -> None:
    named = re.findall(r"`((?:tests|rust)/[\w/.-]+)(?:::(\w+))?`", PAGE)
    assert len(named) > 30
    for path, name in named:
        assert (ROOT / path).exists(), path
        if name:
            assert f"def {name}(" in (ROOT / path).read_text("utf-8"), f"{path}::{name}"
