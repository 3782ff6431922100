"""The unowned blocks of an engine's own pool ranked by any eviction policy.

For an engine that keeps its block tables, owners and index: vLLM's ``free_block_queue``. Every call
takes a batch, and does all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from kvframe._core import BlockQueue as Core
from kvframe.arguments import shown
from kvframe.config import Resolved
from kvframe.drivers.asker import Terms
from kvframe.drivers.eviction import driver
from kvframe.errors import UsageError
from kvframe.flat import UNKNOWN, Access, resolve, row_of

B = TypeVar("B")


class BlockQueue(Generic[B]):
    """The blocks that an engine gets next, the first in front.

    ::

        free: hold nothing, last freed first | cached: the policy's order

    Blocks are 0 to ``capacity - 1``, or the engine's own objects for them, and each has an owner
    until `free`; that it has several only the engine knows. Several threads may share a queue. A
    policy in Python that is asked which block is evicted next may read the queue but not change it.

    Args:
        resolved: The configuration, of which only ``[eviction]`` is used.
        capacity: Blocks of the pool.
        block_size: Tokens in a block, for policies that count them; ``cache.block_size`` if None.
        handles: The engine's objects for the blocks, by id: all calls take and return these. They
            are told apart by identity, which is quicker than to ask each for its id.

    Attributes:
        resolved: The configuration that names the policy.
        native: The compiled queue, whose `take`, `insert`, `hit`, `free` and `remove` take the same
            arguments, and know of the request `Access.row` or only its number of tokens: for an
            engine that calls one for every request. `switch` puts another in its place.

    Raises:
        PluginError, PolicyError: The policy cannot be found, or not be made.
    """

    def __init__(
        self,
        resolved: Resolved,
        capacity: int,
        *,
        block_size: int | None = None,
        handles: Sequence[B] | None = None,
    ) -> None:
        _check(resolved)
        self.resolved = resolved
        self._capacity = capacity
        self._handles = handles
        self._block_size = resolved.config.cache.block_size if block_size is None else block_size
        self.native = self._made(resolved, handles)

    @classmethod
    def named(cls, policy: str, capacity: int, **options: Any) -> BlockQueue[int]:
        """A queue under the policy of that name, with its options; no file or variable is read."""
        return BlockQueue[int](resolve(policy, options), capacity)

    def renewed(self) -> BlockQueue[B]:
        """A queue of the same policy and size that has learnt nothing: all blocks have an owner."""
        size, handles = self._block_size, self._handles
        return BlockQueue(self.resolved, self._capacity, block_size=size, handles=handles)

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
        # It takes over what stands for the blocks, too.
        made = self._made(resolved, None)
        made.adopt(self.native)
        self.native, self.resolved = made, resolved

    @property
    def policy(self) -> str:
        """The policy's name."""
        return self.resolved.eviction.name

    @property
    def available(self) -> int:
        """Blocks without an owner."""
        return self.native.available()

    @property
    def evictions(self) -> int:
        """Findable blocks that `take` has taken for something else."""
        return self.native.evictions()

    @property
    def failures(self) -> int:
        """Decisions that the built-in order took because the policy failed."""
        return self.native.failures()

    def take(self, n: int) -> list[B]:
        """Take the first ``n`` blocks: they have an owner now, and are not findable any more.

        Raises:
            CapacityError: There are fewer.
        """
        taken: list[B] = self.native.take(n)
        return taken

    def insert(
        self,
        blocks: Sequence[B],
        keys: Sequence[bytes | None],
        depths: Sequence[int] | int,
        use: Access = UNKNOWN,
    ) -> None:
        """Blocks with an owner became findable, given in the order of their prefix; what they held
        before is forgotten.

        Args:
            blocks: They.
            keys: What each holds, of any length; ghosts recognise it. Several may hold the same. A
                block whose key is None is passed over.
            depths: The place of each in its prefix, in blocks; or of the first, where the others
                follow it.
            use: The request that computed them.

        Raises:
            UsageError: One has no owner.
        """
        self.native.insert(blocks, keys, depths, row_of(use))

    def hit(self, blocks: Sequence[B], use: Access = UNKNOWN) -> None:
        """A request found these blocks, in the order of their prefix: each has an owner now. One
        that is not findable only leaves the free ones, if it is among them.

        Raises:
            UsageError: One is not of this pool, or is named twice.
        """
        self.native.hit(blocks, row_of(use))

    def free(self, blocks: Sequence[B], empty: Sequence[B] = ()) -> None:
        """The last owner of each of these blocks left, given in the order of a block table.

        Args:
            blocks: They keep what they hold, and the last of them is evicted first. One that is not
                findable stays as if it were, under no key: an engine that kept its id may still
                read it.
            empty: They hold nothing any more; the last of them is taken first of all.

        Raises:
            UsageError: One has no owner.
        """
        self.native.free(blocks, empty)

    def remove(self, blocks: Sequence[B]) -> None:
        """These blocks are not findable any more, owned or not; those that were not stay as they
        are.

        Raises:
            UsageError: The pool has not such a block.
        """
        self.native.remove(blocks)

    def order(self) -> list[B]:
        """Blocks without an owner, in the order in which they would be taken now."""
        order: list[B] = self.native.order()
        return order

    def check_integrity(self) -> None:
        """Recount the queue's state: O(blocks).

        Raises:
            IntegrityError: Something disagrees, which is a bug in kvframe.
        """
        self.native.check_integrity()

    def _made(self, resolved: Resolved, handles: Sequence[B] | None) -> Core:
        config, chosen = resolved.config.eviction, resolved.eviction
        terms = Terms.of(config, chosen.options, self._block_size)
        return Core(
            blocks=self._capacity,
            block_size=self._block_size,
            policy=driver(chosen.loaded, terms) or chosen.name,
            policy_options=chosen.values,
            handles=handles,
        )


def _check(resolved: object) -> None:
    if not isinstance(resolved, Resolved):
        limit = "must be a Resolved; a policy's name goes to BlockQueue.named"
        raise UsageError(f"resolved = {shown(resolved)}: {limit}")
