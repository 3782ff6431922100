"""Who computed and used the pages of all tiers: what a reset of an adapter, salt or session
forgets.
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from kvframe.results import Origin
from kvframe.tiers.base import Level, Levels
from kvframe.tiers.names import Names, Scope
from kvframe.tiers.object_keys import Key
from kvframe.tiers.store_tier import StoreTier
from kvframe.tiers.tier_index import Keys, Owners, as_keys, as_tuples

SPARE = 4096
"""Keys that are remembered beyond twice the pages that there are."""


class Origins:
    """The salt, adapter and session of pages, by key, and the pages' names since a reset."""

    def __init__(self, levels: Levels) -> None:
        self._levels, self._names = levels, Names()
        self._apart = levels.tells_tenants
        levels.tell_tenants(self._tenant)
        levels.owners = self._owners
        self._heads: dict[Key, Origin] = {}
        """Of each prefix, by its first page's key, and by that of the first behind public ones; of
        each public page, too.
        """
        self._public: set[Key] = set()
        """Public pages: whose a page behind one of them is, that page's own entry alone says."""
        self._users: dict[Key, tuple[int, Key]] = {}
        """The session that alone used a page (0: several did), and the prefix's first page."""

    def named(self, keys: Keys, origin: Origin) -> Keys:
        """What pages of these keys are called now.

        Where tenants have shares of tiers, public pages are there once for each.
        """
        if not origin.public:
            return self._names.of(keys, origin)
        public, own = keys[: origin.public], keys[origin.public :]
        named = self._names.of(public, self._of_front(origin))
        if self._apart:
            told = b"kvframe: public pages of a tenant" + origin.tenant.encode()
            named = named ^ np.frombuffer(sha256(told).digest()[:16], np.uint64)
        return np.concatenate([named, self._names.of(own, origin)])

    def note(self, keys: Keys, origin: Origin) -> None:
        """A request computes or uses pages, from a prefix's first on."""
        self._prune(origin.public)
        session = origin.session
        if session and not self._users:  # the first one: what there is already is of no session
            stored = (key for level in self._levels.all for key, _ in level.index.stored())
            self._users.update((key, (0, key)) for key in stored)
        parts = [(keys, origin)]
        if origin.public:
            front, whose = keys[: origin.public], self._of_front(origin)
            parts = [(front, whose), (keys[len(front) :], origin)]
            self._note_public(front, whose)
        for some, whose in parts:
            names = as_tuples(some if session or self._users else some[:1])
            if names:
                self._note(names, whose)

    def _note(self, names: list[Key], origin: Origin) -> None:
        head, session = names[0], origin.session
        self._heads[head] = origin
        if session or self._users:
            for name in names:
                if self._users.setdefault(name, (session, head))[0] != session:
                    self._users[name] = 0, head

    def _note_public(self, front: Keys, origin: Origin) -> None:
        if not self._public.issuperset(as_tuples(front[-1:])):
            names = as_tuples(front)
            self._public.update(names)
            self._heads.update(dict.fromkeys(names, origin))

    def _of_front(self, origin: Origin) -> Origin:
        """Whose public pages are: no tenant's, or where tiers tell tenants apart each one's."""
        public = origin.of_public()
        return public._replace(tenant=origin.tenant) if self._apart else public

    def _tenant(self, keys: Keys) -> int:
        head = self._heads.get(as_tuples(keys[:1])[0]) if len(keys) else None
        return 0 if head is None else self._levels.number(head.tenant)

    def _owners(self, keys: Keys) -> Owners:
        owners: list[str | None] = []
        owner, is_behind = None, False
        for key in as_tuples(keys):
            head = self._heads.get(key)
            if head is not None:
                owner = head.tenant
            elif is_behind:
                owner = None
            owners.append(owner)
            is_behind = key in self._public
        return owners

    def forget(self, scope: Scope) -> list[int]:
        """Forget in every tier what a scope covers. Returns the pages that left each."""
        levels, counts = self._levels, []
        for level in levels.all:
            if scope == Scope(None, None):
                gone = level.index.clear()
            elif scope.session is None:
                heads = [head for head, origin in self._heads.items() if scope.covers(origin)]
                gone = level.index.forget(as_keys([*heads, *self._nameless(level)]))
            else:
                gone = level.index.forget(as_keys(self._of_session(scope)))
            levels.left(level, gone)
            counts.append(len(gone))
        if scope.session is None and any(below.shared for below in levels.below):
            self._names.renew(scope)
        return counts

    def _of_session(self, scope: Scope) -> list[Key]:
        """Pages that a session alone used, of the prefixes that are covered."""
        return [
            key
            for key, (user, head) in self._users.items()
            if user == scope.session and head in self._heads and scope.covers(self._heads[head])
        ]

    def _nameless(self, level: Level) -> list[Key]:
        """First pages of prefixes, and first behind public ones, that a tier recovered and that no
        request has asked for.
        """
        if not isinstance(level, StoreTier) or not level.recovered:
            return []
        ends = (as_tuples(level.index.prefix(page)[-2:]) for _, page in level.index.stored())
        heads = [end[-1] for end in ends if self._public.issuperset(end[:-1])]
        return [head for head in heads if head not in self._heads]

    def _prune(self, public: int) -> None:
        """Forget pages that no tier has any more, once they are many: of a request with so many
        ``public`` ones, more than it brings itself.
        """
        pages = sum(level.index.tier.pages for level in self._levels.all)
        most = 2 * (pages + public) + SPARE
        if len(self._heads) > most or len(self._users) > most:
            self._users = {key: told for key, told in self._users.items() if self._is_there(key)}
            kept = {head for _, head in self._users.values()}
            self._heads = {
                head: origin
                for head, origin in self._heads.items()
                if head in kept or self._is_there(head)
            }
            self._public &= self._heads.keys()

    def _is_there(self, key: Key) -> bool:
        return any(level.index.present(as_keys([key])) for level in self._levels.all)
