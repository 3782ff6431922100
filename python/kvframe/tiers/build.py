"""The parts of `Tiers`, made from a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary, ref

from kvframe.arguments import is_int, shown
from kvframe.config import Config, Resolved, TierConfig
from kvframe.config.tiers import ResolvedTier
from kvframe.errors import ConfigError, UsageError
from kvframe.manager import KVCacheManager
from kvframe.pages.layout import PageShape
from kvframe.request import name_bytes
from kvframe.tiers.moves import Part, dtype_of
from kvframe.tiers.object_keys import Space
from kvframe.tiers.store_tier import StoreTier, check_apart
from kvframe.tiers.work import Work
from kvframe.tiers.worker import Worker

_WORK: WeakKeyDictionary[KVCacheManager, ref[Work]] = WeakKeyDictionary()
"""Of the tiers that a manager has, or had last."""


def tiers_of(kv: KVCacheManager) -> Sequence[ResolvedTier]:
    """The tiers of a manager's configuration; if all are off, host memory without a page.

    Raises:
        ConfigError: It has none, or they do not serve its layer groups.
        UsageError: It is no manager, or has tiers that are not closed.
    """
    if not isinstance(kv, KVCacheManager):
        raise UsageError(f"kv = {shown(kv)}: must be a KVCacheManager")
    other = _WORK[kv]() if kv in _WORK else None
    if other is not None and not other.is_shut:
        # Erasures, resets and new weights would reach those tiers alone that are told of them.
        raise UsageError(f"kv = {shown(kv)}: has tiers already: close them first")
    resolved = kv.inspect.resolved
    if not resolved.config.tiers:
        raise ConfigError("tiers: the configuration has none; say [[tiers]]")
    tiers = kv.inspect.take_tiers() or (_pageless(resolved.config.tiers[0].name),)
    first, *_ = tiers
    if first.admission.name == "write-back" and len(resolved.config.groups) > 1:
        raise ConfigError(f"tier {first.config.name}: write-back serves one layer group")
    return tiers


def keep(kv: KVCacheManager, work: Work) -> None:
    """These are the manager's tiers from now on, until their work is shut."""
    _WORK[kv] = ref(work)


def _pageless(name: str) -> ResolvedTier:
    (host,) = Config(tiers=[TierConfig(name=name, capacity=1)]).resolve().tiers
    return replace(host, pages=0)


def space_of(
    kv: KVCacheManager, parts: Sequence[Part], *, model: str, rank: int, ranks: int, salt: str
) -> Space:
    """What all pages of these tiers have in common.

    Raises:
        ConfigError: There is a store, and neither the model nor its weights have a name.
        UsageError: A name or a rank is wrong, or the pools' pages are not those of ``[model]``.
    """
    for name, number in (("rank", rank), ("ranks", ranks)):
        if not is_int(number):
            raise UsageError(f"{name} = {shown(number)}: must be an integer")
    if not 0 <= rank < ranks:
        raise UsageError(f"rank = {rank}: must be at least 0 and below ranks = {ranks}")
    for name, text in (("model", model), ("salt", salt)):
        name_bytes(name, text)
    resolved = kv.inspect.resolved
    if ranks == 1:  # of several, each may have a part of the model's layers
        _check_widths(parts, resolved)
    shapes = [part.pool.layout.shape for part in parts]
    space = Space(
        model=model,
        fingerprint=kv.inspect.weight_version,
        dtype=dtype_of(parts, resolved),
        block_size=kv.block_size,
        parts=tuple((s.layers, s.parts, s.heads, s.row_bytes) for s in shapes),
        hash=resolved.config.cache.hash,
        rank=rank,
        ranks=ranks,
        salt=salt,
    )
    for tier in resolved.tiers[1:]:
        space.check_weights(tier.config.name, tier.config.store)
    return space


def _check_widths(parts: Sequence[Part], resolved: Resolved) -> None:
    """The pages are as wide as ``[model]`` says, if there is one.

    It says it of one rank: the parts of a group may be several.

    Raises:
        UsageError: A group's are not.
    """
    if resolved.config.model is None:
        return
    widths = resolved.page_bytes
    for place, (group, width) in enumerate(zip(resolved.config.groups, widths, strict=True)):
        its = [part.pool for part in parts if part.group == place]
        found = sum(pool.layout.shape.page_bytes for pool in its)
        ranks = [count for count in range(1, len(its) + 1) if len(its) % count == 0]
        # A pool that several groups share has pages of the largest of them.
        if not any(found == count * wide for count in ranks for wide in (width, max(widths))):
            raise UsageError(
                f"pools: a page of group {group.name!r} has {found} bytes in them, and "
                f"{width} as [model] says: it is of another model, or of more or fewer layers"
            )


def prefetched_pages(tokens: int, block_size: int) -> int:
    """Most pages that prefetches bring at once.

    Raises:
        UsageError: It is no number of tokens, or less than a page.
    """
    if not is_int(tokens):
        raise UsageError(f"prefetch_tokens = {shown(tokens)}: must be an integer")
    if tokens < block_size:
        raise UsageError(f"prefetch_tokens = {tokens}: must be at least {block_size}")
    return tokens // block_size


def open_stores(
    below: list[StoreTier],
    tiers: Sequence[ResolvedTier],
    shapes: Sequence[PageShape],
    space: Space,
    workers: Sequence[Worker],
) -> None:
    """Open the stores below host memory, one after the other, into ``below``.

    Raises:
        ConfigError: Two tiers keep the same pages in one place.
        TierError: A store cannot be opened.
    """
    for tier, worker in zip(tiers, workers, strict=True):
        below.append(StoreTier(tier, shapes, space, worker))
    check_apart(below)
