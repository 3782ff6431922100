"""An engine's radix tree, its nodes ranked by any eviction policy.

For an engine whose prefix cache is a tree of its own, such as SGLang's: a node is a part of a
prompt of any length, nodes split where prompts part, a request locks the path that it reads, and
leaves are evicted as room is needed. The engine keeps what a node stands for under the node's
number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kvframe._core import PrefixTree as Core
from kvframe.arguments import shown
from kvframe.config import Resolved
from kvframe.drivers.asker import Terms
from kvframe.drivers.eviction import driver
from kvframe.errors import UsageError
from kvframe.flat import resolve

Split = tuple[int, int, int]
"""Of a node that was split: the number of the new node that has its first tokens, its own, and how
many tokens the new one has.
"""


class Found(NamedTuple):
    """What a lookup found.

    Attributes:
        tokens: How many, a multiple of the page.
        node: The node that they end with; the root for none.
        split: The node that was split for it.
    """

    tokens: int
    node: int
    split: Split | None


class Stored(NamedTuple):
    """A prompt that was stored.

    Attributes:
        found: Tokens that were there before.
        tokens: Tokens that are there now: whole pages.
        node: The node that they end with.
        split: The node that was split for it.
        new: The number of the node that holds what was not there.
    """

    found: int
    tokens: int
    node: int
    split: Split | None
    new: int | None


class PrefixTree:
    """A tree of token prefixes under one policy.

    A node has a *name*, which no other ever had, and a *number*, which is used again when the node
    is gone: numbers are small, and lists by number stay as long as the tree was large. Several
    threads may share a tree.

    Args:
        resolved: The configuration, of which only ``[eviction]`` is used.
        page_size: Tokens in a page; nodes begin and end at pages.
        bigrams: Each two neighbouring tokens count as one, as EAGLE's drafts are cached.

    Raises:
        UsageError: ``page_size`` is no positive integer.
        PluginError, PolicyError: The policy cannot be found, or not be made, or not grow.
    """

    def __init__(self, resolved: Resolved, page_size: int, *, bigrams: bool = False) -> None:
        if not isinstance(resolved, Resolved):
            limit = "must be a Resolved; a policy's name goes to PrefixTree.named"
            raise UsageError(f"resolved = {shown(resolved)}: {limit}")
        self.resolved = resolved
        self._page_size = page_size
        self._bigrams = bigrams
        self._core = self._made(0)

    @classmethod
    def named(cls, policy: str, page_size: int, **options: Any) -> PrefixTree:
        """A tree under the policy of that name, with its options; no file or variable is read."""
        return cls(resolve(policy, options), page_size)

    def _made(self, before: int) -> Core:
        chosen = self.resolved.eviction
        terms = Terms.of(self.resolved.config.eviction, chosen.options, self._page_size)
        return Core(
            page_size=self._page_size,
            before=before,
            bigrams=self._bigrams,
            policy=driver(chosen.loaded, terms) or chosen.name,
            policy_options=chosen.values,
        )

    def clear(self) -> None:
        """Forget every node, and what the policy has learnt. Names are not given again."""
        self._core = self._made(self._core.serial())

    @property
    def policy(self) -> str:
        """The policy's name."""
        return self.resolved.eviction.name

    @property
    def root(self) -> int:
        """The name of the node where every prefix begins."""
        return self._core.root()

    @property
    def sizes(self) -> tuple[int, int]:
        """Tokens that no lock protects, and those that one does."""
        return self._core.sizes()

    @property
    def failures(self) -> int:
        """Decisions that the built-in order took because the policy failed."""
        return self._core.failures()

    # --- a request --------------------------------------------------------------------------------

    def find(self, tokens: Sequence[int], extra: str | None, salt: str | None) -> Found:
        """The longest cached prefix, which is recent from now on; it counts as no use.

        Args:
            tokens: Ids, best in a buffer of 64-bit integers.
            extra: A key that sets prefixes apart.
            salt: Another one.
        """
        return Found(*self._core.find(tokens, extra, salt))

    def peek(
        self, tokens: Sequence[int], extra: str | None, salt: str | None
    ) -> tuple[int, int, int]:
        """The same, and nothing changes: tokens, node, and tokens up to that node's end."""
        return self._core.peek(tokens, extra, salt)

    def store(
        self,
        tokens: Sequence[int],
        extra: str | None,
        salt: str | None,
        *,
        counted: int = 0,
        session: str | None = None,
        priority: int = 0,
    ) -> Stored:
        """Store a prompt's whole pages; what of it was there is used once more.

        Args:
            tokens: Ids.
            extra: A key that sets prefixes apart.
            salt: Another one.
            counted: The same request stored so many tokens before: their nodes do not count again.
            session: The conversation's name.
            priority: Larger is more important.
        """
        return Stored(*self._core.store(tokens, extra, salt, counted, session, priority))

    def lock(self, node: int) -> int:
        """One lock more on the path to a node; tokens that none protected before.

        Raises:
            UsageError: The node is not here.
        """
        return self._core.lock(node)

    def unlock(self, node: int) -> int:
        """One lock less; tokens that none protects any more.

        Raises:
            UsageError: The node is not here, or has no lock. Nothing has changed.
        """
        return self._core.unlock(node)

    def evict(self, tokens: int) -> tuple[int, list[int]]:
        """Evict until so many tokens are free, or nothing is left that may go.

        Returns:
            The tokens that went, and their nodes' numbers. A call that raised took some already:
            they come with the next one.

        Raises:
            PolicyError: The policy failed, and is strict.
        """
        return self._core.evict(tokens)

    def evict_leaf(self, node: int) -> int:
        """Evict one node, and no other; its tokens.

        Raises:
            UsageError: It is not here, is locked, or others follow it.
        """
        return self._core.evict_leaf(node)

    def evict_without_policy(self, tokens: int) -> tuple[int, list[int]]:
        """As `evict`, in the built-in order, where the policy has failed."""
        return self._core.evict_without(tokens)

    # --- looking ----------------------------------------------------------------------------------

    def path(self, node: int, until: int) -> list[int]:
        """The numbers of the nodes from behind ``until`` to ``node``.

        Raises:
            UsageError: One is not here, or they are not on one path.
        """
        return self._core.path(node, until)

    def path_nodes(self, node: int) -> list[tuple[int, int, int, int, int]]:
        """Name, that of what it follows, start, end and children of each node from the root on."""
        return self._core.path_nodes(node)

    def above(self, node: int) -> int:
        """What a node follows; the root follows itself."""
        return self._core.above(node)

    def check(self, node: int) -> None:
        """Refuse a node that is not here.

        Raises:
            UsageError: It is not.
        """
        self._core.check(node)

    def all(self) -> list[tuple[int, int, int, int, int]]:
        """Number, that of what it follows, start, tokens and locks of every node, in a walk down.

        What follows nothing has 4,294,967,295 there.
        """
        return self._core.all()

    def by_weight(self, nodes: Sequence[int]) -> list[int]:
        """The places of ``nodes`` in a walk that goes first where most of them are."""
        return self._core.by_weight(list(nodes))

    def order(self) -> list[int]:
        """Numbers of the nodes that may be evicted now, the next in front."""
        return self._core.order()

    def check_integrity(self) -> None:
        """Recount the tree's state: O(nodes).

        Raises:
            IntegrityError: Something disagrees, which is a bug in kvframe.
        """
        self._core.check_integrity()
