"""``python -m perf.soak``: a router beside two engines that restart, over many requests.

A KVCacheManager with a host tier and Redis, and vLLM's scheduler with its CPU tier and kvframe's
store in the same Redis, where ``$VLLM_PYTHON`` names a Python that imports vLLM 0.33 and
kvframe-vllm; otherwise a second KVCacheManager stands in for it. Each publishes what it holds, and
a `RouterIndex` reads both. They serve the same prompts in rounds. In every round one of them, in
turn, is killed, with its last batches perhaps on their way, and started again with empty memory and
a Redis that still has its pages. At each quiet point, when nothing is being served, the router's
answers are compared with what the caches themselves say: GPU, host and any tier, prompt by prompt.

Of pages that an engine finds in Redis after a restart, readers learn as soon as their tokens are
known. Until then the router may only know less; of prompts that were served since, it must know
all. Redis is Debian's, on a free port of this machine. It ends with 1 if an answer differs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from kvframe import RouterIndex
from kvframe.testing import ServerProcess, free_port
from kvframe.wire import Subscriber
from perf.peers import SIDES, Peer, PeerError

sys.path.insert(0, str(SIDES))

from soak_traffic import BLOCK, prompt

ASKED = 60
"""Prompts that are compared at a quiet point."""

ROUND = 1_000
"""Requests of each engine between two quiet points."""


@dataclass
class Engine:
    """A program that serves, and what it served since it was started.

    Attributes:
        side: Its program.
        python: That runs it.
        ports: Of its events, their replay, and Redis.
    """

    side: str
    python: str
    ports: dict[str, int]
    since: set[int] = field(default_factory=set)
    peer: Peer | None = None

    def start(self) -> None:
        """Start it, in place of the one that runs."""
        if self.peer is not None:
            self.peer.kill()
        self.since.clear()
        self.peer = Peer(self.side, self.python, json.dumps(self.ports))

    def serve(self, first: int, end: int) -> int:
        """Serve the prompts of these numbers; blocks that it has evicted, if it says so."""
        assert self.peer is not None
        self.since.update(range(first, end))
        return int(self.peer.ask(serve=[first, end])["evictions"])

    def reach(self, numbers: Sequence[int]) -> list[list[int]]:
        """How far its caches reach into each: GPU, host, disk, anywhere."""
        assert self.peer is not None
        return self.peer.ask(reach=list(numbers))["reach"]  # type: ignore[no-any-return]


@dataclass
class Outcome:
    """What a soak has seen.

    Attributes:
        served: Requests.
        compared: Answers.
        unknown: Among these, those that know less of Redis than an engine started again does.
        restarts: Of engines.
        wrong: The first answers that differ.
    """

    served: int = 0
    compared: int = 0
    unknown: int = 0
    restarts: int = 0
    wrong: list[str] = field(default_factory=list)


class Soak:
    """Engines and their router.

    Args:
        engines: By worker.
        seed: Of the prompts that are compared.
    """

    def __init__(self, engines: Sequence[Engine], seed: int = 0) -> None:
        self.engines, self.done = engines, Outcome()
        self._random = random.Random(seed)
        self.reader = Subscriber(RouterIndex(BLOCK))
        for worker, engine in enumerate(engines):
            engine.start()
            ends = (f"tcp://127.0.0.1:{engine.ports[name]}" for name in ("events", "replay"))
            self.reader.add(worker, *ends)

    def run(self, requests: int, each: int = ROUND) -> Outcome:
        """Serve so many, of all engines together."""
        turn = 0
        while self.done.served < requests and not self.done.wrong:
            first = self.done.served // len(self.engines)
            for engine in self.engines:
                engine.serve(first, first + each)
                self.reader.poll(0)
            self.done.served += each * len(self.engines)
            self.compare(first + each)
            self.engines[turn % len(self.engines)].start()
            self.done.restarts += 1
            turn += 1
            self.compare(first + each)
        return self.done

    def compare(self, upto: int) -> None:
        """Hold the router's answers against the caches, of some of the prompts up to a number."""
        if not self.reader.sync():
            self.done.wrong.append("a publisher's replay does not answer")
        recent = range(max(0, upto - ROUND), upto + ASKED // 6)
        numbers = [self._random.choice(recent) for _ in range(ASKED)]
        found = [self.reader.index.match_tokens(prompt(number)) for number in numbers]
        for worker, engine in enumerate(self.engines):
            for number, answer, caches in zip(numbers, found, engine.reach(numbers), strict=True):
                self._judge(worker, number, list(answer.get(worker, (0, 0, 0, 0))), caches)

    def _judge(self, worker: int, number: int, told: list[int], caches: list[int]) -> None:
        self.done.compared += 1
        below = [mine <= its for mine, its in zip(told, caches, strict=True)]
        near, told_all = told[:2] == caches[:2], told == caches
        new = number not in self.engines[worker].since
        if told_all:
            return
        if near and all(below) and new:
            self.done.unknown += 1
            return
        self.done.wrong.append(f"worker {worker}, prompt {number}: {told}, and it has {caches}")

    def close(self) -> None:
        """End everything."""
        for engine in self.engines:
            if engine.peer is not None:
                engine.peer.kill()
        self.reader.close()


@contextmanager
def redis(folder: str) -> Iterator[int]:
    """Redis on a free port; its port.

    Raises:
        PeerError: It is not installed.
    """
    program, port = shutil.which("redis-server"), free_port()
    if program is None:
        raise PeerError("redis-server is not there: apt-get install redis-server")
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
    with ServerProcess([*command, "--loglevel", "warning"], port):
        yield port


def soak(requests: int, python: str | None, each: int = ROUND, seed: int = 0) -> Outcome:
    """Run one; ``python`` is vLLM's, if there is one."""
    with ExitStack() as stack:
        port = stack.enter_context(redis(stack.enter_context(tempfile.TemporaryDirectory())))
        second = ("for_soak_vllm.py", python) if python else ("for_soak.py", sys.executable)
        engines = [
            Engine(side, runs, {"events": free_port(), "replay": free_port(), "redis": port})
            for side, runs in (("for_soak.py", sys.executable), second)
        ]
        made = Soak(engines, seed)
        stack.callback(made.close)
        return made.run(requests, each)


def main() -> int:
    """Soak, print, judge."""
    parser = argparse.ArgumentParser(prog="python -m perf.soak", description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--round", type=int, default=ROUND, help="requests between quiet points")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    start = time.perf_counter()
    try:
        done = soak(asked.requests, os.environ.get("VLLM_PYTHON"), asked.round, asked.seed)
    except (PeerError, subprocess.SubprocessError) as error:
        print(error, file=sys.stderr)
        return 2
    second = "vLLM's scheduler" if os.environ.get("VLLM_PYTHON") else "another KVCacheManager"
    print(
        f"{done.served:,} requests of a KVCacheManager and {second}, {done.restarts} restarts, "
        f"{done.compared:,} answers compared, {done.unknown:,} of them short of Redis alone, "
        f"{len(done.wrong)} wrong, {time.perf_counter() - start:.0f} s"
    )
    for line in done.wrong[:10]:
        print(line)
    return int(bool(done.wrong))


if __name__ == "__main__":
    raise SystemExit(main())
