"""Both loads in one process, in rounds, with what is resident after each."""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from perf.soak import redis

from .core import Core
from .pages import Pages
from .slope import Growth, growth, resident


@dataclass
class Load:
    """How much is done.

    Attributes:
        size: Sequences, sessions, pins and leases.
        blocks: Of the pool.
        core: Calls without bytes.
        pages: Operations with bytes.
        rounds: In which they are made; memory is sampled after each.
        hours: It goes on with such rounds for so long.
        seed: Of all that is random.
    """

    size: int
    blocks: int
    core: int
    pages: int
    rounds: int
    hours: float = 0
    seed: int = 0


@dataclass
class Outcome:
    """What came of it.

    Attributes:
        core: Calls without bytes, by kind of operation.
        pages: Operations with bytes, by kind.
        compared: Pages that were as computed.
        hits: Tokens found by the calls without bytes.
        rounds: After each of which everything was recounted.
        samples: Calls without bytes by then, and bytes resident.
        tiers: What the tiers counted.
    """

    core: dict[str, int] = field(default_factory=dict)
    pages: dict[str, int] = field(default_factory=dict)
    compared: int = 0
    hits: int = 0
    rounds: int = 0
    samples: list[tuple[float, float]] = field(default_factory=list)
    tiers: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def growth(self) -> Growth:
        """Bytes resident, by calls without bytes."""
        return growth(self.samples)


def run(load: Load, *, say: bool = False) -> Outcome:
    """Make the load; ``say`` prints a line now and then.

    Raises:
        AssertionError: A page was wrong, something was held at the end, or numbers disagree.
        IntegrityError: The books of a pool or a tier disagree.
        PeerError: There is no redis-server.
    """
    start = told = time.monotonic()
    done = Outcome()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        port = stack.enter_context(redis(folder))
        pages = Pages(Path(folder) / "pages", f"redis://127.0.0.1:{port}/0", load.seed)
        stack.enter_context(pages.tiers)
        core = Core(load.size, load.blocks, load.seed)
        while done.rounds < load.rounds or time.monotonic() - start < 3600 * load.hours:
            core.run(load.core // load.rounds)
            pages.run(load.pages // load.rounds)
            core.check()
            pages.check()
            done.rounds += 1
            done.samples.append((core.done, resident()))
            if say and time.monotonic() - told > 60:
                told = time.monotonic()
                print(
                    f"{told - start:6.0f} s  {core.done:,} calls, {pages.done:,} with bytes, "
                    f"{done.samples[-1][1] / 1e6:.1f} MB",
                    file=sys.stderr,
                    flush=True,
                )
        done.tiers = pages.finish()
        done.compared, done.hits = pages.compared, core.hits
        done.core, done.pages = dict(core.calls), dict(pages.kinds)
    return done
