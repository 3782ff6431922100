"""What a store contains as a tier is opened: its pages by prefix, and counts of other objects."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvframe.tiers.codec import HEAD_BYTES, Codec, CorruptError, Head
from kvframe.tiers.object_keys import FORMAT, Key, parse
from kvframe.tiers.store import PageStore
from kvframe.tiers.tier_index import TierIndex, as_keys


@dataclass
class Found:
    """Pages of one name space in a store, and counts of everything else.

    Attributes:
        pages: Whole pages whose prefix is there too, with what each says of itself.
        turn: Of these: which was used after which; a page may lie behind one that follows it.
        wrong: Keys of this space under which something else lies: cut short, or another page.
        orphans: Pages of this space that no request finds: a page before them, or one of their own
            parts, is not there.
        foreign: Objects of other name spaces, formats or programs.
        other_spaces: Of these, those of kvframe in this format.
        old_format: Of these, those of kvframe in an earlier format.
    """

    pages: dict[Key, Head] = field(default_factory=dict)
    turn: dict[Key, int] = field(default_factory=dict)
    wrong: list[Key] = field(default_factory=list)
    orphans: int = 0
    foreign: int = 0
    other_spaces: int = 0
    old_format: int = 0

    def forget(self) -> None:
        """Keep the counts alone."""
        self.pages, self.turn, self.wrong = {}, {}, []


def listed(store: PageStore, codec: Codec) -> Found:
    """What a store lists.

    Raises:
        Exception: What the store raises.
    """
    found = Found()
    heads: dict[Key, dict[int, Head]] = {}
    wrong: dict[Key, None] = {}
    for turn, (name, data) in enumerate(store.recover(HEAD_BYTES)):
        named = parse(name)
        if named is None or not codec.owns(named):
            found.foreign += 1
            found.old_format += named is not None and named.format < FORMAT
            found.other_spaces += named is not None and named.format == FORMAT
            continue
        try:
            head = codec.head(data)
            if (head.key, head.part) != (named.key, named.part):
                raise CorruptError(f"{name} holds another page")
        except CorruptError:  # cut short by a power failure, say
            wrong[named.key] = None
            continue
        heads.setdefault(named.key, {})[named.part] = head
        found.turn[named.key] = turn
    found.wrong = list(wrong)
    whole = {key: parts[0] for key, parts in heads.items() if is_whole(parts)}
    found.pages = connected(whole)
    found.orphans = len(heads.keys() - found.pages.keys() - wrong.keys())
    return found


def is_whole(parts: dict[int, Head]) -> bool:
    """Whether all parts of a page are there, and say the same of it."""
    first = next(iter(parts.values()))
    same = all(head._replace(part=0) == first._replace(part=0) for head in parts.values())
    return same and len(parts) == first.parts


def connected(heads: dict[Key, Head]) -> dict[Key, Head]:
    """Those of some pages whose prefix is among them, each behind the one before it."""
    pages: dict[Key, Head] = {}
    for key, head in sorted(heads.items(), key=lambda item: item[1].depth):
        before = None if head.parent is None else pages.get(head.parent)
        if head.parent is None or (before is not None and before.depth + 1 == head.depth):
            pages[key] = head
    return pages


def adopt(index: TierIndex, found: Found) -> tuple[int, list[Key]]:
    """Take pages into the index, those used last first, as far as there is room.

    Their order in the index is that of their last use.

    Returns:
        How many, and those that are left.
    """
    pages, turn = found.pages, found.turn
    # A page is at least as recent as the pages that follow it, because it is evicted after them.
    latest = dict(turn)
    for key in reversed(pages):  # by depth, the deepest first
        parent = pages[key].parent
        if parent is not None:
            latest[parent] = max(latest[parent], latest[key])
    order = sorted(pages, key=lambda key: (-latest[key], pages[key].depth))
    room = index.tier.pages
    chosen, taken = set(order[:room]), set[Key]()
    for key in sorted(chosen, key=lambda key: (turn[key], pages[key].depth)):
        if key in taken:
            index.touch(as_keys([key]))  # it came in with a page that was used before it
            continue
        chain, above = [key], pages[key].parent
        while above is not None and above not in taken:
            chain.append(above)
            above = pages[above].parent
        behind = None if above is None else as_keys([above])
        count = index.adopt(as_keys(chain[::-1]), behind)
        taken.update(chain[::-1][:count])
    return len(taken), [key for key in order if key not in taken]
