"""The interface of tier plugins: what keeps the bytes of a lower tier."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence


class PageStore(ABC):
    """Objects by name: a folder, a server, a distributed store.

    kvframe keeps track of what is in the tier, what is in flight and what dies; a store keeps
    bytes. Calls come in batches, from one thread at a time, and may block. A call that raises has
    failed for its whole batch; what it left behind is removed, or never asked for again.

    Names are short: letters, digits, ``-`` and ``+``. An object never changes once it is put.
    """

    @abstractmethod
    def put(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        """Keep the bytes of each (name, bytes); returns whether each is there now, whole.

        A name is put only once.
        """

    @abstractmethod
    def get(self, names: Sequence[str]) -> Sequence[bytes | None]:
        """The bytes of each name; None for one that is gone."""

    @abstractmethod
    def remove(self, names: Sequence[str]) -> None:
        """Forget objects; a name that is not there is no error."""

    def place(self) -> str | None:
        """Where the objects are, told apart from every other place; None if nobody may ask.

        Two tiers of a manager cannot have the same place and the same names.
        """
        return None

    def contains(self, names: Sequence[str]) -> Sequence[bool]:
        """Whether each name is there."""
        return [found is not None for found in self.get(names)]

    def recover(self, head: int) -> Iterable[tuple[str, bytes]]:
        """What was there before this process: each name with the first ``head`` bytes of it.

        A store that cannot list what it has yields nothing.
        """
        return ()

    def close(self) -> None:  # noqa: B027 - most stores hold nothing open
        """Close files and connections; no other call follows."""
