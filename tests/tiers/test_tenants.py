"""A tenant erased in the pool and in every tier, with a receipt."""

from __future__ import annotations

from kvframe.tiers import TierErasure

from .helpers import Engine, Shelf, below, host, text

TEXT = text(1, 13)


def found(engine: Engine, tenant: str) -> int:
    return engine.tiers.lookup(TEXT, tenant=tenant).best


def test_tenants_share_no_page_and_one_is_erased_everywhere() -> None:
    engine = Engine([host(), below()], stores=[Shelf()], blocks=32)
    for tenant in ("a", "b", ""):
        engine.run(TEXT, tenant=tenant)
    engine.only_below()
    assert [found(engine, tenant) for tenant in ("a", "b", "", "c")] == [12, 12, 12, 0]
    engine.run(TEXT, tenant="a")
    receipt = engine.tiers.erase_tenant("a")
    assert (receipt.pool.tenant, receipt.pool.held, receipt.swapped) == ("a", 0, 0)
    assert receipt.pool.freed == 3
    assert [(row.tier, row.pages) for row in receipt.tiers] == [("host", 3), ("below", 3)]
    assert [found(engine, tenant) for tenant in ("a", "b", "")] == [0, 12, 12]
    engine.settle()
    again = engine.tiers.erase_tenant("a")
    assert again.complete
    assert again.tiers == (TierErasure("host", 0, 0, False), TierErasure("below", 0, 0, False))
    engine.tiers.check_integrity()


def test_the_receipt_says_what_still_runs() -> None:
    engine = Engine([host(), below()], stores=[Shelf()], blocks=32)
    grant = engine.start(TEXT, tenant="a")
    engine.compute(grant.seq)
    receipt = engine.tiers.erase_tenant("a")
    assert receipt.pool.running == (grant.seq,)
    assert receipt.pool.held == 4
    assert not receipt.complete
    # It leaves nothing behind, in no tier.
    engine.kv.release(grant.seq)
    engine.settle()
    assert found(engine, "a") == 0
    assert engine.tiers.erase_tenant("a").complete
