"""Dynamo's standalone indexer reads kvframe's publisher: do its answers equal `kv.lookup`?

Usage, from a checkout (make setup): .venv/bin/python -m tests.peers.dynamo [--python P] [--save]

P is a Python that has ai-dynamo-runtime 1.6.1 and uvloop; a CPU will do. It serves HTTP on a free
port of every interface, since it has no option for the host, and ends with this program. Exit
status: 0 if all answers are equal, 1 if one is not, 2 if Dynamo cannot be run.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any, Self

from perf.peers import CACHE, PeerError
from perf.results import save

from kvframe.wire import Announcer, Publisher
from tests.wire.lossy import Lossy
from tests.wire.traffic import BLOCK, Traffic

ANY = "tcp://127.0.0.1:*"
WORKER, MODEL = 7, "m"
QUERIES = 1_000
PATIENCE_S = 10.0
"""Seconds that the indexer may take to apply what was published."""


def dynamo_python() -> str | None:
    """A Python that has Dynamo: ``$DYNAMO_PYTHON``, or the environment in perf's cache."""
    kept = CACHE / "dynamo" / "bin" / "python"
    return os.environ.get("DYNAMO_PYTHON") or (str(kept) if kept.exists() else None)


class Indexer:
    """Dynamo's indexer in a process of its own.

    Raises:
        PeerError: It does not start.
    """

    def __init__(self, python: str, threads: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        ask = "from importlib.metadata import version; print(version('ai-dynamo-runtime'))"
        try:
            told = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise PeerError(f"{python}: has no ai-dynamo-runtime: {error}") from None
        self.name = f"Dynamo {told.stdout.strip()}"
        command = [python, "-m", "dynamo.indexer", "--port", str(self._port)]
        more = ["--threads", str(threads), "--block-size", str(BLOCK), "--model-name", MODEL]
        self._program = subprocess.Popen(
            [*command, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        if not within(lambda: self._is_up()):
            self.close()
            raise PeerError("Dynamo's indexer does not answer")

    def _is_up(self) -> bool:
        try:
            return bool(self._ask("/workers"))
        except OSError:
            return False

    def register(self, endpoint: str, replay: str | None) -> None:
        """Read a publisher."""
        body = {"instance_id": WORKER, "endpoint": endpoint, "replay_endpoint": replay}
        self._ask("/register", **body, model_name=MODEL, block_size=BLOCK)

    def unregister(self) -> None:
        """Read it no more, and forget what it told."""
        self._ask("/unregister", instance_id=WORKER, model_name=MODEL)

    def matched(self, prompt: Sequence[int], **names: str) -> int:
        """Tokens of a prompt that it says the worker holds."""
        answer = json.loads(self._ask("/query", token_ids=list(prompt), model_name=MODEL, **names))
        scores: dict[str, int] = answer["scores"].get(str(WORKER), {})
        return scores.get("0", 0)

    def _ask(self, path: str, **body: Any) -> bytes:
        url = f"http://127.0.0.1:{self._port}{path}"
        head = {"content-type": "application/json"}
        data = json.dumps(body).encode() if body else None
        with urllib.request.urlopen(urllib.request.Request(url, data, head), timeout=5) as answer:
            found: bytes = answer.read()
        return found

    def close(self) -> None:
        """End the process."""
        self._program.terminate()
        self._program.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def within(is_so: Callable[[], bool]) -> bool:
    """Whether it becomes so in time."""
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class Run:
    """One publisher after another, one indexer, and what it answers."""

    def __init__(self, indexer: Indexer, seed: int) -> None:
        self.indexer, self.traffic = indexer, Traffic(seed)
        self.publisher = Publisher(ANY, ANY)
        self.announcer = Announcer(self.traffic.kv, self.publisher)

    def serve(self, requests: int) -> None:
        for _ in range(requests):
            self.traffic.serve(**self.traffic.draw.choice(({}, {"cache_salt": "s"})))
            self.announcer.flush()

    def restart(self) -> None:
        """The engine comes back with an empty cache, at the same addresses."""
        ends = self.publisher.endpoint, self.publisher.replay
        self.publisher.close()
        self.publisher = Publisher(*ends)
        self.traffic.kv = self.traffic.manager()
        self.announcer = Announcer(self.traffic.kv, self.publisher)

    def unequal(self, queries: int) -> int:
        """How many of so many answers differ from what the manager finds, once it is quiet."""
        asked: list[tuple[list[int], dict[str, Any]]] = [
            (self.traffic.draw.choice(self.traffic.prompts), names)
            for _ in range(queries)
            for names in [self.traffic.draw.choice(({}, {"cache_salt": "s"}))]
        ]
        right = [self.traffic.kv.lookup([*prompt, 1_000_000], **names) for prompt, names in asked]

        end = time.monotonic() + PATIENCE_S
        while True:
            pairs = zip(asked, right, strict=True)
            left = sum(
                self.indexer.matched(one, **apart) != hit.tokens for (one, apart), hit in pairs
            )
            if not left or time.monotonic() > end:
                return left

    def close(self) -> None:
        self.publisher.close()


def evicted(run: Run) -> None:
    """Everything arrives; blocks are evicted all the time."""
    run.indexer.register(run.publisher.endpoint, run.publisher.replay)
    run.serve(200)


def lost(run: Run) -> None:
    """A third of the batches is lost on the way."""
    run.indexer.unregister()
    lossy = Lossy(run.publisher.endpoint)
    try:
        run.indexer.register(lossy.endpoint, run.publisher.replay)
        settle(run)
        lossy.loses = 0.3
        run.serve(200)
        lossy.loses = 0.0
        settle(run)
        assert lossy.lost > 0
    finally:
        lossy.close()


def late(run: Run) -> None:
    """The indexer comes after the fact: the first batches come with the replay."""
    run.indexer.unregister()
    run.serve(100)
    run.indexer.register(run.publisher.endpoint, run.publisher.replay)
    settle(run)


def restarted(run: Run) -> None:
    """The engine starts again; its operator registers it anew, as Dynamo wants it."""
    run.restart()
    run.indexer.unregister()
    run.indexer.register(run.publisher.endpoint, run.publisher.replay)
    run.serve(100)
    settle(run)


def settle(run: Run) -> None:
    """Batches without events: a gap shows with the next one, and a subscription takes a moment."""
    for _ in range(20):
        run.publisher.publish([])
        time.sleep(0.02)


PHASES = (evicted, lost, late, restarted)


def compare(indexer: Indexer, seed: int) -> list[dict[str, Any]]:
    """A row for each phase."""
    run = Run(indexer, seed)
    rows = []
    try:
        for phase in PHASES:
            phase(run)
            queries = QUERIES // len(PHASES)
            evictions = run.traffic.kv.stats.counters()["evictions"]
            row = {"phase": phase.__name__, "queries": queries, "unequal": run.unequal(queries)}
            rows.append(
                {**row, "evictions": evictions, "publisher": run.publisher.counts()._asdict()}
            )
    finally:
        run.close()
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Compare, print, and save if asked."""
    parser = argparse.ArgumentParser(
        "python -m tests.peers.dynamo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--python", default=dynamo_python(), help="default: $DYNAMO_PYTHON")
    parser.add_argument("--save", action="store_true", help="write perf/results")
    given = parser.parse_args(argv)
    if given.python is None:
        print("error: no Python that has Dynamo; name one with --python", file=sys.stderr)
        return 2
    rows, name = [], ""
    try:
        # With one thread it keeps a radix tree, with more a compressed one.
        for threads in (1, 4):
            with Indexer(given.python, threads) as indexer:
                name = indexer.name
                rows += [{"threads": threads, **row} for row in compare(indexer, seed=threads)]
    except PeerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for row in rows:
        print(
            f"{name}, {row['threads']} threads, {row['phase']}: {row['unequal']} of "
            f"{row['queries']} answers differ ({row['publisher']['replayed']} batches replayed)"
        )
    if given.save:
        command = " ".join(["python -m tests.peers.dynamo", *sys.argv[1:]])
        print(f"wrote {save('dynamo', [name], rows, command=command).name}")
    return 1 if any(row["unequal"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
