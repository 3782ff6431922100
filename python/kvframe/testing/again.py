"""The same runs in another process, where Python hashes strings and bytes otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from kvframe.registry import Kind, Registry
from kvframe.registry.lookup import HERE, only
from kvframe.testing.report import PromiseError
from kvframe.testing.subject import Subject

_MAIN = "from kvframe.testing.again import main; main()"
_KINDS: tuple[Kind, ...] = ("eviction",)


def elsewhere(subject: Subject) -> Sequence[str] | None:
    """The digests of `kvframe.testing.trials.alone` in a process with another ``PYTHONHASHSEED``.

    None where a new process cannot find the policy: it was given as an object, neither by the name
    of a package's nor by its file and class.

    Raises:
        PromiseError: A run failed there.
    """
    loaded = subject.loaded
    if not loaded.place and loaded.distribution == HERE:
        return None
    asked = {
        "options": dict(subject.options),
        "place": loaded.place,
        "name": loaded.descriptor.name,
    }
    try:
        told = _asked(json.dumps(asked).encode())
    except (TypeError, ValueError):  # an option that no command line could give
        return None
    if told is None:
        return None
    if "finding" in told:
        raise PromiseError("deterministic", f"in another process: {told['finding']}")
    digests: Sequence[str] = told["digests"]
    return digests


def _asked(asked: bytes) -> dict[str, Any] | None:
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-c", _MAIN],
        input=asked,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if done.returncode:
        return None
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def main() -> None:
    """What the other process does."""
    from kvframe.testing.trials import alone

    subject = _subject(json.load(sys.stdin.buffer))
    try:
        told: Mapping[str, object] = {"digests": alone(subject)}
    except PromiseError as fault:
        told = {"finding": fault.finding}
    print("\n" + json.dumps(told), flush=True)  # whatever the policy has written before
    os._exit(0)  # nor may it write anything after


def _subject(asked: Mapping[str, Any]) -> Subject:
    if asked["place"]:
        found: Any = only(Registry().at(asked["place"]), _KINDS, asked["place"])
        return Subject.of(found, asked["options"])
    return Subject.of(asked["name"], asked["options"])
