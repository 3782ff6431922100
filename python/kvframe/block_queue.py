"""The unowned blocks of an engine's own pool by the engine's ids, ranked by any eviction policy.

For an engine that keeps its block tables, owners and index: vLLM's ``free_block_queue``. Every call
takes a batch, and does all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvframe._core import BlockQueue as Core
from kvframe.arguments import shown
from kvframe.config import Resolved
from kvframe.drivers.asker import Terms
from kvframe.drivers.eviction import driver
from kvframe.errors import UsageError
from kvframe.flat import UNKNOWN, Access, resolve, row_of


class BlockQueue:
    """The blocks that an engine gets next, the first in front.

    ::

        free: hold nothing, last freed first | cached: the policy's order | deferred

    Blocks are 0 to ``capacity - 1``, and each has an owner until `free` or `defer`; that it has
    several only the engine knows. Several threads may share a queue. A policy in Python that is
    asked which block is evicted next may read the queue but not change it.

    Args:
        resolved: The configuration, of which only ``[eviction]`` is used.
        capacity: Blocks of the pool.
        block_size: Tokens in a block, for policies that count them; ``cache.block_size`` if None.

    Attributes:
        resolved: The configuration that names the policy.

    Raises:
        PluginError, PolicyError: The policy cannot be found, or not be made.
    """

    def __init__(self, resolved: Resolved, capacity: int, *, block_size: int | None = None) -> None:
        _check(resolved)
        self.resolved = resolved
        self._capacity = capacity
        self._block_size = resolved.config.cache.block_size if block_size is None else block_size
        self._core = self._made(resolved)

    @classmethod
    def named(cls, policy: str, capacity: int, **options: Any) -> BlockQueue:
        """A queue under the policy of that name, with its options; no file or variable is read."""
        return cls(resolve(policy, options), capacity)

    def renewed(self) -> BlockQueue:
        """A queue of the same policy and size that has learnt nothing: all blocks have an owner."""
        return BlockQueue(self.resolved, self._capacity, block_size=self._block_size)

    def switch(self, resolved: Resolved) -> None:
        """Have another policy rank the blocks from now on; it can be switched back in the same way.

        Owners, keys, and which blocks hold nothing stay. The policy is told of every findable
        block, the next victim first, and as often as it was used (255 times at most); of what the
        last policy had learnt it knows nothing.

        Args:
            resolved: The configuration, of which only ``[eviction]`` is used.

        Raises:
            PluginError, PolicyError: The policy cannot be found, or not be made; nothing changes.
        """
        _check(resolved)
        made = self._made(resolved)
        made.adopt(self._core)
        self._core, self.resolved = made, resolved

    @property
    def policy(self) -> str:
        """The policy's name."""
        return self.resolved.eviction.name

    @property
    def available(self) -> int:
        """Blocks without an owner."""
        return self._core.available()

    @property
    def evictions(self) -> int:
        """Findable blocks that `take` has taken for something else."""
        return self._core.evictions()

    @property
    def failures(self) -> int:
        """Decisions that the built-in order took because the policy failed."""
        return self._core.failures()

    def take(self, n: int) -> list[int]:
        """Take the first ``n`` blocks: they have an owner now, and are not findable any more.

        Raises:
            CapacityError: There are fewer.
        """
        return self._core.take(n)

    def insert(
        self,
        blocks: Sequence[int],
        keys: Sequence[bytes],
        depths: Sequence[int],
        use: Access = UNKNOWN,
    ) -> None:
        """Blocks with an owner became findable, given in the order of their prefix; what they held
        before is forgotten.

        Args:
            blocks: Their ids.
            keys: What each holds, of any length; ghosts recognise it. Several may hold the same.
            depths: The place of each in its prefix, in blocks.
            use: The request that computed them.

        Raises:
            UsageError: One has no owner.
        """
        self._core.insert(blocks, keys, depths, row_of(use))

    def hit(self, blocks: Sequence[int], use: Access = UNKNOWN) -> None:
        """A request found these blocks, in the order of their prefix: each has an owner now.

        Raises:
            UsageError: One is not findable.
        """
        self._core.hit(blocks, row_of(use))

    def free(self, blocks: Sequence[int]) -> None:
        """The last owner of each of these blocks left, given in the order of a block table.

        Those that are findable stay cached; the last of them is evicted first.

        Raises:
            UsageError: One has no owner.
        """
        self._core.free(blocks)

    def defer(self, blocks: Sequence[int]) -> None:
        """The same, but they are taken after all others, findable or not: they are still read.

        Raises:
            UsageError: One has no owner.
        """
        self._core.defer(blocks)

    def remove(self, blocks: Sequence[int]) -> None:
        """These blocks are not findable any more, owned or not; those that were not stay as they
        are.

        Raises:
            UsageError: The pool has not such a block.
        """
        self._core.remove(blocks)

    def order(self) -> list[int]:
        """Blocks without an owner, in the order in which they would be taken now."""
        return self._core.order()

    def check_integrity(self) -> None:
        """Recount the queue's state: O(blocks).

        Raises:
            IntegrityError: Something disagrees, which is a bug in kvframe.
        """
        self._core.check_integrity()

    def _made(self, resolved: Resolved) -> Core:
        config, chosen = resolved.config.eviction, resolved.eviction
        terms = Terms.of(config, chosen.options, self._block_size)
        return Core(
            blocks=self._capacity,
            block_size=self._block_size,
            policy=driver(chosen.loaded, terms) or chosen.name,
            policy_options=chosen.values,
        )


def _check(resolved: object) -> None:
    if not isinstance(resolved, Resolved):
        limit = "must be a Resolved; a policy's name goes to BlockQueue.named"
        raise UsageError(f"resolved = {shown(resolved)}: {limit}")
