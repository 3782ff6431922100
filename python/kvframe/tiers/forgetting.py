"""Makes KV unfindable in every tier: all of old weights, or that of one adapter, salt or
session.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakSet

from kvframe.request import session_id
from kvframe.tiers.base import Level, Levels
from kvframe.tiers.object_keys import Key
from kvframe.tiers.store_tier import StoreTier
from kvframe.tiers.swap import Swapped
from kvframe.tiers.tier_index import Keys, as_keys, as_tuples

SPARE = 4096
"""Keys that are remembered beyond twice the pages that there are."""


class Origins:
    """Who computed and used the pages of all tiers, by key.

    Attributes:
        heads: Salt and adapter of each prefix, by its first page's key.
    """

    def __init__(self) -> None:
        self.heads: dict[Key, tuple[bytes, bytes]] = {}
        self._users: dict[Key, tuple[int, Key]] = {}

    @property
    def tells_sessions(self) -> bool:
        """Whether any request had a session."""
        return bool(self._users)

    def note(self, keys: Keys, salt: bytes, adapter: bytes, session: int) -> None:
        """A request computes or uses pages, from a prefix's first on."""
        names = as_tuples(keys if session or self._users else keys[:1])
        if not names:
            return
        head = names[0]
        self.heads[head] = salt, adapter
        if session or self._users:
            for name in names:
                if self._users.setdefault(name, (session, head))[0] != session:
                    self._users[name] = 0, head

    def share(self, keys: list[Key]) -> None:
        """Pages that there were before any request had a session."""
        self._users.update((key, (0, key)) for key in keys)

    def of(self, session: int, covers: Callable[[bytes, bytes], bool]) -> list[Key]:
        """Pages that a session alone used, of the prefixes that are covered."""
        return [
            key
            for key, (user, head) in self._users.items()
            if user == session and head in self.heads and covers(*self.heads[head])
        ]

    def prune(self, pages: int, is_there: Callable[[Key], bool]) -> None:
        """Forget pages that no tier has any more, once they are many."""
        most = 2 * pages + SPARE
        if len(self.heads) > most or len(self._users) > most:
            self._users = {key: told for key, told in self._users.items() if is_there(key)}
            kept = {head for _, head in self._users.values()}
            self.heads = {
                head: name for head, name in self.heads.items() if head in kept or is_there(head)
            }


class Forgetting(Levels):
    """How a part of what tiers hold is forgotten."""

    _origins: Origins
    _swapped: WeakSet[Swapped]

    def reset_prefix_cache(
        self,
        *,
        lora_name: str | None = None,
        cache_salt: str | None = None,
        session: int | str | None = None,
    ) -> int:
        """Forget in the pool and in every tier what all of the given applies to; else everything.

        Pages on their way are dropped when they arrive, and sequences that were swapped out are
        computed again. A tier's pages from before this process started, of which no request has
        come since, may be of any adapter: they are forgotten with each adapter or salt.

        In a store that others write to, what others wrote stays. Unless a session is given, this
        engine calls its pages of what is forgotten by new names from then on: it never finds the
        old pages, nor do others find its new ones. A process that starts later knows nothing of
        this: give an adapter's new version another name, or another ``cache.weight_version``.

        Args:
            lora_name: As in `KVCacheManager.reset_prefix_cache`, and so are the other two.
            cache_salt: As there.
            session: As there; in tiers, pages that requests of this session alone asked for.

        Returns:
            Blocks freed in the pool.
        """
        self._check_open()
        freed = self.kv.reset_prefix_cache(
            lora_name=lora_name, cache_salt=cache_salt, session=session
        )
        number = None if session is None else session_id(session)
        name = None if lora_name is None else lora_name.encode()

        def covers(its_salt: bytes, its_adapter: bytes) -> bool:
            fits = cache_salt is None or self.kv._prompts.salt_of(its_salt) == cache_salt
            return fits and name in (None, its_adapter)

        for level in self.levels:
            if lora_name is None and cache_salt is None and number is None:
                gone = level.index.clear()
            elif number is None:
                heads = [head for head, told in self._origins.heads.items() if covers(*told)]
                gone = level.index.forget(as_keys([*heads, *self._nameless(level)]))
            else:
                gone = level.index.forget(as_keys(self._origins.of(number, covers)))
            self._left(level, gone)
        if number is None and any(below.shared for below in self.below):
            self._names.renew(cache_salt, lora_name, covers)
        for swapped in self._swapped:
            its_salt, its_adapter, its_session = swapped.request.origin()
            if covers(its_salt, its_adapter) and number in (None, its_session):
                swapped._weights = None
        return freed

    def _note_origin(self, keys: Keys, salt: bytes, adapter: bytes, session: int) -> None:
        """A request of that salt, adapter and session computes or uses pages."""
        origins = self._origins
        if session and not origins.tells_sessions:
            for level in self.levels:
                origins.share([key for key, _ in level.index.stored()])
        origins.note(keys, salt, adapter, session)
        pages = sum(level.index.tier.pages for level in self.levels)
        origins.prune(pages, self._is_there)

    def _is_there(self, key: Key) -> bool:
        return any(level.index.present(as_keys([key])) for level in self.levels)

    def _nameless(self, level: Level) -> list[Key]:
        """First pages of prefixes that a tier had before, and that no request has asked for."""
        if not isinstance(level, StoreTier) or not level.recovered:
            return []
        heads = {as_tuples(level.index.prefix(page)[:1])[0] for _, page in level.index.stored()}
        return [head for head in heads if head not in self._origins.heads]
