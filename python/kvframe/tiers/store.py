"""The interface of tier plugins: what keeps the bytes of a lower tier."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

from kvframe.registry.descriptors import Kind


class PageStore(ABC):
    """Objects by name: a folder, a server, a distributed store.

    kvframe keeps track of what is in the tier, what is in flight and what is evicted; a store keeps
    bytes. Calls come in batches, from one thread at a time, and may block. A call that raises has
    failed for its whole batch; what it left behind is removed, or never asked for again. A store
    that fails, or that keeps nothing of what it is given, is left alone for a while.

    Names are short: letters, digits, ``-`` and ``+``. An object never changes once it is put.

    Attributes:
        largest: Bytes of the largest object that can be a page. kvframe sets it before the first
            call other than `place`; a store reads no more of an object than one byte beyond it.
    """

    kvframe_kind: ClassVar[Kind] = "store"
    largest: int = 1 << 40

    @abstractmethod
    def put(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        """Keep the bytes of each (name, bytes); returns whether each is there now, whole.

        A name is put again only where its object was gone or wrong: the new bytes replace it.
        """

    @abstractmethod
    def get(self, names: Sequence[str]) -> Sequence[bytes | None]:
        """The bytes of each name; None for one that is gone, or that is no plain object."""

    @abstractmethod
    def remove(self, names: Sequence[str]) -> None:
        """Forget objects; a name that is not there is no error."""

    def place(self) -> str | None:
        """A name for where the objects are, unlike that of any other place; None if it has none.

        Two tiers of a manager cannot have the same place and the same names.
        """
        return None

    def contains(self, names: Sequence[str]) -> Sequence[bool]:
        """Whether each name is there.

        A tier whose store is shared asks before it puts: what another engine has put is neither
        sent again nor removed by this one. Such a store needs a `contains` that sends no bytes.
        """
        return [found is not None for found in self.get(names)]

    def keep(self, names: Sequence[str]) -> None:  # noqa: B027 - most stores evict nothing
        """These were used, the one used last at the end; a name that is not there is no error.

        A store that evicts by itself is told here what to keep; one that lists what it has orders
        it by this. It is called at most once a second, and as the tiers are closed.
        """

    def recover(self, head: int) -> Iterable[tuple[str, bytes]]:
        """What is there under names of kvframe: each with the first ``head`` bytes of it.

        The one used last comes last, where the store knows. Names of every format (``kv`` and a
        number) belong to it. A store that cannot list what it has yields nothing.
        """
        return ()

    def close(self) -> None:  # noqa: B027 - most stores hold nothing open
        """Close files and connections; no other call follows."""
