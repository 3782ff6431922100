"""What a lower tier asks of whatever keeps its bytes: the interface of tier plugins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence


class PageStore(ABC):
    """Objects by name: a folder, a server, a distributed store.

    kvframe keeps the books of the tier: what is there, what is on its way, what dies. A store keeps
    bytes. Its calls come in batches, from one thread at a time, and may block. One that raises has
    failed for its whole batch; what it left behind is removed, or never asked for again.

    Names are short: letters, digits, ``-`` and ``+``. An object is never changed once it is put.
    """

    @abstractmethod
    def put(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        """Keep (name, bytes) each; whether each is there now, whole. A name is put once."""

    @abstractmethod
    def get(self, names: Sequence[str]) -> Sequence[bytes | None]:
        """The bytes of each; None for one that is gone."""

    @abstractmethod
    def remove(self, names: Sequence[str]) -> None:
        """Forget objects; those that are not there are no error."""

    def place(self) -> str | None:
        """Where the objects are, told apart from every other place; None if nobody may ask.

        Two tiers of a manager cannot have the same place and the same names.
        """
        return None

    def contains(self, names: Sequence[str]) -> Sequence[bool]:
        """Whether each is there."""
        return [found is not None for found in self.get(names)]

    def recover(self, head: int) -> Iterable[tuple[str, bytes]]:
        """What was there before this process: each name with the first ``head`` bytes.

        A store that cannot list what it has yields nothing.
        """
        return ()

    def close(self) -> None:  # noqa: B027 - most stores hold nothing open
        """Let go of files and connections; nothing is asked afterwards."""
