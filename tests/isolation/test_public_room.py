"""What a tenant needs beside public blocks, which are not its own: what never fits, what waits."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kvframe import AllocStatus, GroupConfig, KVCacheManager, NeverFitsError, Request

PUBLIC = list(range(100, 116))
GROUPS: dict[str, list[GroupConfig]] = {
    "full": [GroupConfig(name="full")],
    "and a window": [
        GroupConfig(name="full"),
        GroupConfig(name="window", kind="sliding_window", window=8),
    ],
}


def made(folder: Path, quota: int, groups: str = "full", *, cached: bool = True) -> KVCacheManager:
    """A manager, in whose pool the public blocks are; tenant a has a quota."""
    file = folder / "public.jsonl"
    file.write_text(json.dumps(PUBLIC))
    floor = 4 * len(GROUPS[groups])
    kv = KVCacheManager(
        cache={"block_size": 4, "capacity": 64},
        groups=GROUPS[groups],
        prefix={"public": str(file)},
        tenants=[
            {"name": "all", "public": True, "floor": floor},
            {"name": "a", "quota": quota},
        ],
    )
    if cached:
        seq = kv.allocate(PUBLIC, tenant="b").seq
        kv.commit(seq, 16)
        kv.release(seq)
    return kv


@pytest.mark.parametrize("more", [{}, {"full_sequence_must_fit": True}, {"partial": True}])
def test_what_fits_beside_public_blocks_is_let_in(more: dict[str, Any], tmp_path: Path) -> None:
    kv = made(tmp_path, 3)
    request = Request([*PUBLIC, *range(9)], tenant="a", **more)
    assert kv.can_allocate(request) is AllocStatus.OK
    grant = kv.allocate(request)
    assert grant.cached_tokens == 16
    kv.commit(grant.seq, 25)
    kv.append(grant.seq, [1] * 3)
    kv.check_integrity()
    # Its fourth block of its own is above the quota, whatever others do.
    with pytest.raises(NeverFitsError, match='needs 4 blocks, but tenant "a" has a quota of 3'):
        kv.append(grant.seq, [1])
    kv.release(grant.seq)
    longer = Request([*PUBLIC, *range(13)], tenant="a")
    assert kv.can_allocate(longer) is AllocStatus.NEVER
    with pytest.raises(NeverFitsError, match="needs 4 blocks"):
        kv.allocate(longer)


def test_it_waits_for_others_of_its_tenant(tmp_path: Path) -> None:
    kv = made(tmp_path, 3)
    running = kv.allocate([1] * 4, tenant="a").seq
    request = Request([*PUBLIC, *range(9)], tenant="a")
    assert kv.can_allocate(request) is AllocStatus.LATER
    kv.release(running)
    assert kv.can_allocate(request) is AllocStatus.OK


def test_where_they_are_not_there_yet_all_is_its_own(tmp_path: Path) -> None:
    kv = made(tmp_path, 3, cached=False)
    request = Request([*PUBLIC, *range(9)], tenant="a")
    with pytest.raises(NeverFitsError, match="needs 7 blocks"):
        kv.allocate(request)
    unread = request.replace(read_cache=False)
    assert made(tmp_path, 3).can_allocate(unread) is AllocStatus.NEVER


@pytest.mark.parametrize("groups", GROUPS)
def test_alone_nothing_is_told_to_wait(groups: str, tmp_path: Path) -> None:
    """Where nobody else runs, a request is let in, or never is; and so is each of its tokens."""
    dice, seen = Random(11), set()
    for _ in range(150):
        quota = dice.randrange(2, 12)
        kv = made(tmp_path, quota, groups)
        front = PUBLIC[: dice.choice([0, 3, 8, 13, 16])]
        prompt = [*front, *range(500, 500 + dice.randrange(1, 30))]
        chunk = dice.choice([None, 4, 7])
        request = Request(prompt, tenant="a", chunk=chunk, max_seq_len=len(prompt) + 8)
        status = kv.can_allocate(request)
        assert status in (AllocStatus.OK, AllocStatus.NEVER)
        seen.add((status, len(front) >= 4))
        if groups == "full":
            own = -(-(len(prompt) + 8) // 4) - len(front) // 4
            assert (status is AllocStatus.OK) == (own <= quota)
        if status is AllocStatus.NEVER:
            with pytest.raises(NeverFitsError):
                kv.allocate(request)
            continue
        grant = kv.allocate(request)
        upto = kv.lengths(grant.seq).slots
        while upto < len(prompt):
            kv.commit(grant.seq, upto)
            upto = min(upto + (chunk or len(prompt)), len(prompt))
            kv.extend(grant.seq, upto)
        kv.commit(grant.seq, upto)
        for token in range(8):
            kv.append(grant.seq, [token])
            kv.commit(grant.seq, upto + token + 1)
        kv.check_integrity()
        assert kv.tenants.rows()[2].used <= quota
    assert len(seen) == 4
