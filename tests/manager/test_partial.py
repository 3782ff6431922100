"""Hits that end inside a block, by a copy, under the radix index."""

from __future__ import annotations

import pytest

from kvframe import ConfigError, KVCacheManager

from .helpers import cached, manager

PROMPT = list(range(12))


def radix(blocks: int = 8) -> KVCacheManager:
    return manager(blocks, index="radix", partial_hits=True)


def test_a_hit_may_end_inside_a_block() -> None:
    kv = radix()
    cached(kv, PROMPT)
    asked = [*PROMPT[:6], 99, 99, 99]
    assert kv.lookup(asked).tokens == 6
    grant = kv.allocate(asked)
    assert grant.cached_tokens == 6
    plan = kv.take_plan()
    assert plan
    target = int(kv.block_table(grant.seq)[1])
    assert plan.copies.tolist() == [[1, target, 2, 0]]
    assert target != 1, "nobody writes into what others find"
    kv.check_integrity()
    kv.evict_until(8)
    assert kv.lookup([*PROMPT[:8], 0]).tokens >= 8, "the source stays until the copy is done"
    kv.done(plan.ticket)
    kv.commit(grant.seq, 9)
    kv.release(grant.seq)
    kv.check_integrity()
    assert kv.lookup([*asked[:8], 0]).tokens == 8


def test_what_goes_on_behind_a_copy_of_a_hit_is_found() -> None:
    kv = radix()
    first, second = kv.allocate([*PROMPT[:4], 99]), kv.allocate(PROMPT[:8])
    kv.commit(first.seq, 4)
    kv.commit(second.seq, 8)
    ours, theirs = (kv.block_table(grant.seq).tolist() for grant in (first, second))
    assert list(kv.lookup(PROMPT[:5]).blocks) == [ours[0]], "of copies the lowest"
    grant = kv.allocate([*PROMPT[:6], 99])
    assert grant.cached_tokens == 6
    assert kv.block_table(grant.seq)[0] == theirs[0], "the copy that the source follows"
    kv.check_integrity()
    kv.release(first.seq)
    kv.release(second.seq)
    kv.evict_until(8)
    kv.check_integrity()


@pytest.mark.scenario("I6")
def test_a_prompt_is_never_found_whole() -> None:
    kv = radix()
    cached(kv, PROMPT)
    grant = kv.allocate(PROMPT[:8])
    assert (grant.cached_tokens, grant.prompt_tokens) == (7, 8)
    kv.check_integrity()


def test_a_failed_copy_is_computed_again() -> None:
    kv = radix()
    cached(kv, PROMPT)
    grant = kv.allocate([*PROMPT[:6], 99, 99, 99])
    plan = kv.take_plan()
    assert plan
    assert kv.failed(plan.ticket) == [grant.seq]
    assert kv.lengths(grant.seq).committed == 4
    kv.extend(grant.seq, 9)
    kv.commit(grant.seq, 9)
    kv.release(grant.seq)
    kv.check_integrity()


@pytest.mark.parametrize("salt", ["", "a"])
def test_namespaces_stay_apart(salt: str) -> None:
    kv = radix()
    cached(kv, PROMPT, cache_salt="b")
    assert kv.lookup(PROMPT[:3], cache_salt=salt).tokens == 0


def test_who_fits_without_a_copy_is_not_refused_for_it() -> None:
    kv = radix(3)
    cached(kv, PROMPT[:4])
    asked = [0, 1, *range(50, 60)]
    assert kv.lookup(asked).tokens == 2
    grant = kv.allocate(asked)
    assert (grant.cached_tokens, grant.granted_tokens) == (0, 12)
    assert not kv.take_plan()
    kv.check_integrity()


def test_fork_cut_reset_and_resize_beside_a_copy() -> None:
    kv = radix()
    cached(kv, PROMPT)
    grant = kv.allocate([*PROMPT[:6], 99, 99, 99])
    child = kv.fork(grant.seq)
    kv.check_integrity()
    kv.truncate(child, 5)
    kv.reset_prefix_cache()
    kv.check_integrity()
    plan = kv.take_plan()
    assert plan
    kv.release(grant.seq)
    kv.check_integrity()
    kv.done(plan.ticket)
    kv.release(child)
    kv.check_integrity()
    assert kv.counts().free == 8
    kv.resize(4)


def test_off_by_default_and_remapping_needs_keys() -> None:
    kv = manager(8, index="radix")
    cached(kv, PROMPT)
    assert kv.lookup([*PROMPT[:6], 99]).tokens == 4
    with pytest.raises(ConfigError, match="remap_duplicates"):
        manager(8, index="radix", remap_duplicates=True)
