"""Planted defects of a tier's books: room, what is on its way, what failed, whole prefixes."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "page-in-flight-found",
        "tier/pages.rs",
        "            self.enter(key, page, false);\n",
        "            self.enter(key, page, true);\n",
        "a page is read that nobody has written yet",
    ),
    Mutant(
        "prefix-in-flight-not-owned",
        "tier/pages.rs",
        "        self.tier.claim(&chain)?;\n        self.tier.missed(",
        "        self.tier.missed(",
        "the pages that a store follows are evicted while it comes in",
    ),
    Mutant(
        "given-up-page-handed-on",
        "tier/transfers.rs",
        "            if front.parts == 0 {\n",
        "            if front.parts == 0 || front.cancelled {\n",
        "a place is given to others while the mover of a transfer given up still writes it",
    ),
    Mutant(
        "failed-load-counted-as-loaded",
        "tier/transfers.rs",
        "            *count += u64::from(ended.good);\n",
        "            *count += (fine.len() + bad.len()) as u64;\n",
        "pages that could not be read count as hits of the tier",
    ),
    Mutant(
        "one-part-speaks-for-all",
        "tier/transfers.rs",
        "        transfer.good = transfer.good.min(good);\n",
        "        transfer.good = good;\n",
        "a page counts as there although its values never came",
    ),
    Mutant(
        "failed-load-still-found",
        "tier/transfers.rs",
        "                && (store || !keep)\n",
        "                && store\n",
        "a page that is gone or wrong is promised again and again",
    ),
    Mutant(
        "flight-without-limit",
        "tier/room.rs",
        "self.moving > 0 && self.moving + wanted > self.limits.in_flight",
        "self.moving > 0 && self.moving > self.limits.in_flight",
        "more is on its way than the buffers hold",
    ),
    Mutant(
        "flight-never-lands",
        "tier/transfers.rs",
        "        self.moving -= fine.len() as u32 + bad.len() as u32;\n",
        "        self.moving -= fine.len() as u32;\n",
        "each failure takes a little of what may be on its way, until all is refused",
    ),
    Mutant(
        "own-prefix-counted-as-room",
        "tier/room.rs",
        "pool.free() + pool.cached() - self.tier.unowned(chain);",
        "pool.free() + pool.cached() - self.tier.unowned(chain) * 0;",
        "a store evicts the prefix that it follows, or fails half way",
    ),
    Mutant(
        "children-outlive-a-failed-parent",
        "tier/pages.rs",
        "            if named.contains(&pool.parent(block)) {\n",
        "            if named.contains(&pool.parent(block)) && false {\n",
        "what follows a page that failed takes room and cannot be read",
    ),
    Mutant(
        "forgotten-head-first",
        "tier/pages.rs",
        "        gone.reverse();\n",
        "",
        "a tier below hears of a parent's end before that of its children",
    ),
    Mutant(
        "adopted-without-its-parent",
        "tier/pages.rs",
        "        if full || above == Some(None) || self.by_key.contains_key(&key) {\n",
        "        if full || self.by_key.contains_key(&key) {\n",
        "after a restart a page without what comes before it takes room for nothing",
    ),
    Mutant(
        "found-behind-a-gap",
        "tier/pages.rs",
        "        keys.iter().take_while(there).count() as u32\n",
        "        keys.iter().filter(there).count() as u32\n",
        "a later page that came in first is counted as if it were the front",
    ),
    Mutant(
        "backed-in-an-earlier-life",
        "tier/pages.rs",
        "        self.backed[page as usize] = false;\n",
        "",
        "a page dies first for a copy below that is of another one",
    ),
    Mutant(
        "backed-dies-under-its-children",
        "tier/room.rs",
        "self.backed[page as usize] && self.tier.pool().is_evictable(page);",
        "self.backed[page as usize];",
        "a prefix loses its front while its end stays",
    ),
    Mutant(
        "lent-and-given-back-twice",
        "tier/check.rs",
        "state != State::Lent || pages[..i].contains(&page)",
        "state != State::Lent && pages[..i].contains(&page)",
        "a swapped sequence's page is given to two",
    ),
    Mutant(
        "order-of-movers",
        "tier/transfers.rs",
        "                break;\n",
        "                at += 1;\n",
        "what dies next depends on which mover was faster: no two runs are alike",
    ),
)
