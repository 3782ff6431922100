"""Planted defects of retention: priorities, their ends, pins, leases and sessions."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "highest-priority-first",
        "policy/adapters/heap.rs",
        "(u64::from(bucket) << 56)",
        "(u64::from(100 - bucket) << 56)",
        "what was to be kept longest is evicted first",
    ),
    Mutant(
        "retention-ignored",
        "policy/adapters/heap.rs",
        "Self::new(pool.priority(block), rank, block)",
        "Self::new(pool.priority(block) & 0, rank, block)",
        "a policy ranks all blocks alike, whatever was asked for them",
    ),
    Mutant(
        "lru-deaf-to-a-new-priority",
        "policy/adapters/priority_buckets.rs",
        "        if self.remove(block) {\n",
        "        if self.remove(block) && pool.priority(block) > 35 {\n",
        "a block whose priority fell stands in no order any more: it cannot die",
    ),
    Mutant(
        "sieve-moves-the-hand-of-another-priority",
        "policy/eviction/sieve.rs",
        "        let hand = self.hand_mut(bucket);\n        let is_lowest",
        "        let hand = self.hand_mut(bucket.max(35));\n        let is_lowest",
        "what is evicted at a low priority decides which block of the default one is next",
    ),
    Mutant(
        "priority-a-tick-too-long",
        "retention/term.rs",
        "            until if now >= until => self.then,\n",
        "            until if now > until => self.then,\n",
        "at the end of its time a block is still kept",
    ),
    Mutant(
        "priority-never-expires",
        "retention/state.rs",
        "        while let Some(block) = self.timers.pop_until(self.time) {\n",
        "        while let Some(block) = self.timers.pop_until(self.time & 0) {\n",
        "what was kept for a minute is kept for ever",
    ),
    Mutant(
        "priority-of-an-earlier-life",
        "retention/term.rs",
        "        self.life == u64::from(generation) + 1\n",
        "        self.life <= u64::from(generation) + 1\n",
        "a recycled block has the priority of what it held before",
    ),
    Mutant(
        "anothers-block-lowered",
        "retention/state.rs",
        "let other = || (!own).then(||",
        "let other = || (own && !own).then(||",
        "whoever asks for little takes from what others computed",
    ),
    Mutant(
        "next-block-kept-too",
        "retention/term.rs",
        "r.start < end && tokens.start < r.end",
        "r.start < end && tokens.start <= r.end",
        "the block behind a range has the range's priority",
    ),
    Mutant(
        "cap-of-each-pin",
        "manager/retain/lock.rs",
        "        self.pin_cap().saturating_sub(self.locks.blocks())\n",
        "        self.pin_cap()\n",
        "many pins together hold the whole pool, and nothing can be admitted",
    ),
    Mutant(
        "pin-owns-nothing",
        "store/owners.rs",
        "path.iter().copied().filter(|&block| self.pool.share(block));\n",
        "path.iter().copied().filter(|&block| self.pool.refs(block) == 0);\n",
        "what is pinned is evicted like all else",
    ),
    Mutant(
        "lease-from-the-epoch",
        "manager/retain/lock.rs",
        "pinner.lease.map(|lease| now.saturating_add(lease));",
        "pinner.lease.map(|lease| (now & 0).saturating_add(lease));",
        "a lease is over as soon as it is given",
    ),
    Mutant(
        "lease-a-tick-too-long",
        "locks.rs",
        "        let over = self.ends.range(..=(now, u32::MAX));\n",
        "        let over = self.ends.range(..(now, 0));\n",
        "a pin outlives its lease",
    ),
    Mutant(
        "shared-block-taken-for-own",
        "retention/sessions.rs",
        "        if before != session && before != SHARED {\n",
        "        if before != session && before != SHARED && session == 0 {\n",
        "the end of one session throws away what another one goes on with",
    ),
    Mutant(
        "hint-lost-while-running",
        "retention/sessions.rs",
        "            entry.due = Some(hint);\n",
        "            entry.due = entry.due.take().filter(|&due| due == hint);\n",
        "a session that ends while a request of it runs is kept as if it went on",
    ),
)
