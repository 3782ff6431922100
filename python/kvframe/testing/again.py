"""The same runs in another process, where Python hashes strings and bytes otherwise."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from kvframe.registry import Kind, Registry
from kvframe.registry.descriptors import EvictionPolicy
from kvframe.registry.lookup import HERE, only
from kvframe.testing.report import PromiseError
from kvframe.testing.subject import Subject

_MAIN = "from kvframe.testing.again import main; main()"
_KINDS: tuple[Kind, ...] = ("eviction",)


def elsewhere(subject: Subject) -> Sequence[str] | None:
    """The digests of `kvframe.testing.trials.alone` in a process with another ``PYTHONHASHSEED``.

    None where a new process cannot make the policy: its class stands in a function, or in
    ``__main__``.

    Raises:
        PromiseError: A run failed there.
    """
    loaded = subject.loaded
    asked: dict[str, Any] = {"options": dict(subject.options)}
    if loaded.place:
        asked["place"] = loaded.place
    elif loaded.distribution != HERE:
        asked["name"] = loaded.descriptor.name
    # Of a descriptor its object: `make` is often a lambda.
    made = subject.make() if loaded.distribution == HERE and not loaded.place else None
    try:
        data = pickle.dumps(asked if made is None else {"object": pickle.dumps(made)})
    except Exception:  # each type says in its own way that it cannot be pickled
        return None
    told = _asked(data)
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

    subject = _subject(pickle.load(sys.stdin.buffer))
    try:
        told: Mapping[str, object] = {"digests": alone(subject)}
    except PromiseError as fault:
        told = {"finding": fault.finding}
    print("\n" + json.dumps(told), flush=True)  # whatever the policy has written before
    os._exit(0)  # nor may it write anything after


def _subject(asked: Mapping[str, Any]) -> Subject:
    if "object" in asked:
        data = asked["object"]
        pickle.loads(data)  # fails here where its class cannot be imported, and not in a run
        made = EvictionPolicy(
            name="again", way="batched", summary="", make=lambda _: pickle.loads(data)
        )
        return Subject.of(made, {})
    if "place" in asked:
        found: Any = only(Registry().at(asked["place"]), _KINDS, asked["place"])
        return Subject.of(found, asked["options"])
    return Subject.of(asked["name"], asked["options"])
