"""Planted defects of the core: each is one replacement, and some test must notice it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One planted defect.

    Attributes:
        name: Short name, unique.
        file: Source file, below rust/core/src.
        old: Text that occurs in it exactly once.
        new: What takes its place.
        why: What the defect would do to a user.
    """

    name: str
    file: str
    old: str
    new: str
    why: str


MUTANTS = (
    Mutant(
        "skipped-decrement",
        "pool.rs",
        "            b.state = State::Committed;\n            self.cached -= 1;",
        "            b.state = State::Committed;",
        "a block that got an owner still counts as cached: capacity is promised twice",
    ),
    Mutant(
        "head-first-free",
        "manager/release.rs",
        "            self.drop_owners(seq, &table[keep..]);",
        "            table[keep..].reverse();\n            self.drop_owners(seq, &table[keep..]);",
        "the head of a prefix dies before its tail, and the tail is of no use any more",
    ),
    Mutant(
        "stale-hash-entry",
        "manager/mod.rs",
        "        self.index.remove(&self.pool, block);\n        let parent",
        "        let parent",
        "a recycled block is found under the key of what it held before",
    ),
    Mutant(
        "lost-copy",
        "manager/grow.rs",
        "            self.tickets.add(Copy { src, dst, tokens, seq, group: group as u8 });\n",
        "            if group == 0 {\n"
        "                self.tickets.add(Copy { src, dst, tokens, seq, group: 0 });\n"
        "            }\n",
        "only the first group's page is copied before the write",
    ),
    Mutant(
        "copy-not-counted",
        "manager/grow.rs",
        " + u64::from(copies);",
        " + u64::from(copies) * 0;",
        "room for the copy is not counted: the write goes through and fails half way",
    ),
    Mutant(
        "whole-prompt-hit",
        "manager/lookup.rs",
        "tokens - u32::from(self.options.compute_last_token && tokens > 0)",
        "tokens",
        "nothing is left to compute, so there are no logits for the first token",
    ),
    Mutant(
        "commit-past-end",
        "manager/commit.rs",
        "if upto > sequence.len {",
        "if upto > sequence.len + 1 {",
        "a token without a slot counts as computed",
    ),
    Mutant(
        "publish-before-commit",
        "manager/commit.rs",
        "(slot.committed / size) as usize",
        "(slot.len / size) as usize",
        "drafts, and pages not computed yet, are shared",
    ),
    Mutant(
        "child-not-uncounted",
        "pool.rs",
        "            self.blocks[parent as usize].children -= 1;\n",
        "",
        "a parent whose children are gone never becomes a leaf: it cannot die",
    ),
    Mutant(
        "generation-not-bumped",
        "pool.rs",
        "generation.wrapping_add(1)",
        "generation.wrapping_add(0)",
        "a late answer of a policy names a block's next life",
    ),
    Mutant(
        "key-without-salt",
        "hash.rs",
        "            field(&mut hasher, SALT, space.salt);\n",
        "",
        "tenants share blocks that a salt should keep apart",
    ),
    Mutant(
        "key-without-group",
        "hash.rs",
        "Self(self.0 ^ (group as u128).wrapping_mul(",
        "Self(self.0 ^ (group as u128 & 0).wrapping_mul(",
        "one layer group is served another's pages",
    ),
    Mutant(
        "claim-not-told",
        "manager/admit.rs",
        "        self.policy.claim(if some_owned { &cached } else { found }, view);\n",
        "",
        "the policy ranks a block that has an owner",
    ),
    Mutant(
        "release-order-wrong",
        "policy/lru.rs",
        "let Some((&root, &leaf)) = blocks.first().zip(blocks.last()) else { return };",
        "let blocks: Vec<BlockId> = blocks.iter().rev().copied().collect();\n"
        "        let blocks = &blocks[..];\n"
        "        let Some((&root, &leaf)) = blocks.first().zip(blocks.last()) else { return };",
        "lru kills the head of a prefix first as soon as it may",
    ),
    Mutant(
        "copy-freed-under-children",
        "pool.rs",
        "b.duplicated && b.children == 0",
        "b.duplicated",
        "a second copy is freed although findable blocks follow it",
    ),
    Mutant(
        "window-off-by-one",
        "manager/commit.rs",
        "(sequence.committed + 1).saturating_sub(window)",
        "(sequence.committed + 2).saturating_sub(window)",
        "a window gives up a block that the next token attends to",
    ),
    Mutant(
        "refusal-ticks",
        "manager/loans.rs",
        "        self.check_room(count, 0)?;\n        self.tick += 1;\n",
        "        self.tick += 1;\n        self.check_room(count, 0)?;\n",
        "a refused operation moves the clock: logs of two runs differ",
    ),
    Mutant(
        "double-free-accepted",
        "manager/loans.rs",
        "!= Some(1) || self.pool.state(block)",
        "!= Some(1) && self.pool.state(block)",
        "a block given back twice is handed out twice",
    ),
    Mutant(
        "plan-forgets-a-copy",
        "tickets.rs",
        "        self.outstanding.push(plan.clone());\n        self.held",
        "        self.outstanding.push(plan.clone());\n"
        "        let mut plan = plan;\n"
        "        plan.copies.truncate(1);\n"
        "        self.held",
        "of several copies the data plane is told of one",
    ),
    Mutant(
        "collision-accepted",
        "index/hash.rs",
        "self.links.get(i) == Some(&proof.link)\n            &&",
        "self.links.get(i).is_some()\n            ||",
        "under a hash that is not cryptographic somebody else's KV is served",
    ),
    Mutant(
        "hit-of-two-chains",
        "manager/lookup.rs",
        "                self.follow_chain(found);\n",
        "",
        "a block is owned while the one it follows is not: room is counted that cannot be had",
    ),
    Mutant(
        "unfilled-page-found",
        "manager/commit.rs",
        "if copying && self.tickets.holds(block) > 0 {",
        "if false && copying && self.tickets.holds(block) > 0 {",
        "a page is findable although the copy into it may still fail",
    ),
    Mutant(
        "failure-stops-at-first-copy",
        "tickets.rs",
        "            pages.extend(from.collect::<Vec<_>>());\n",
        "            drop(from.collect::<Vec<_>>());\n",
        "a page copied from one that was never filled goes on as if it were good",
    ),
    Mutant(
        "window-leaves-unfilled-page",
        "manager/commit.rs",
        "                gone = kept.unwrap_or(gone);\n",
        "                gone = kept.map_or(gone, |_| gone);\n",
        "what was computed over a page that never got filled is not found and cut",
    ),
    Mutant(
        "lost-part-of-a-load-kept",
        "manager/load.rs",
        "self.tickets.keep_only(ticket, (blocks * groups) as usize);",
        "self.tickets.keep_only(ticket, (all * groups) as usize);",
        "of a load that came in part, the sequence goes on over pages that never came",
    ),
    Mutant(
        "cut-inside-a-load",
        "manager/release.rs",
        "let partial = len < has && ",
        "let partial = len > has && ",
        "new tokens are written where a load still writes, and found under the wrong key",
    ),
    Mutant(
        "load-forgets-forks",
        "manager/load.rs",
        "        for (seq, blocks) in owners {\n",
        "        for (seq, blocks) in owners.into_iter().take(1) {\n",
        "a fork computes again what has come",
    ),
    Mutant(
        "lease-without-owner",
        "manager/load.rs",
        "Ok(self.tickets.lease(held))",
        "held.iter().for_each(|&block| {\n            self.pool.unshare(block);\n        });\n"
        "        Ok(self.tickets.lease(Vec::new()))",
        "what somebody elsewhere reads is given to others",
    ),
    Mutant(
        "fence-too-early",
        "manager/fence.rs",
        ".partition(|&(at, _)| at <= fence)",
        ".partition(|&(at, _)| at <= fence.saturating_add(1))",
        "a block is given to others while a step in flight still writes it",
    ),
    Mutant(
        "fence-leaves-the-path",
        "manager/fence.rs",
        "self.pool.state(b) == State::Committed || self.pool.refs(b) > 1;",
        "self.pool.state(b) == State::Committed;",
        "a block that waits is owned while the one it follows is not",
    ),
    Mutant(
        "commit-past-unknown-ids",
        "sequence.rs",
        "        if upto <= filled {\n",
        "        if upto <= filled + 1 {\n",
        "a block is found under ids that nobody knows yet",
    ),
    Mutant(
        "cut-keeps-unknown",
        "manager/release.rs",
        "        sequence.unknown = sequence.unknown.saturating_sub(gone);\n",
        "        let _ = gone;\n",
        "after a cut, ids that are known count as missing",
    ),
    Mutant(
        "sharers-counted-as-gain",
        "manager/pressure.rs",
        "b != NIL && self.pool.refs(b) == 1;",
        "b != NIL && self.pool.refs(b) >= 1;",
        "sequences are preempted although their blocks stay with others",
    ),
    Mutant(
        "shrink-under-a-child",
        "manager/pressure.rs",
        "if block >= end || doomed.contains(&self.pool.parent(block)) {",
        "if block >= end {",
        "a cached block follows one that the pool no longer has",
    ),
    Mutant(
        "generations-start-again",
        "pool.rs",
        "        self.depth.truncate(kept);\n        self.free.retain",
        "        self.depth.truncate(kept);\n        self.generation.truncate(kept);\n"
        "        self.free.retain",
        "an old handle fits a block that went and came back",
    ),
    Mutant(
        "no-hysteresis",
        "manager/pressure.rs",
        "            Pressure::Normal if usage < marks.high => Pressure::Normal,\n",
        "            _ if usage < marks.high => Pressure::Normal,\n",
        "the pressure level flickers around its mark",
    ),
    Mutant(
        "promise-forgotten",
        "manager/admit.rs",
        "        if self.promised {\n",
        "        if self.promised && self.tick == 0 {\n",
        "a sequence let in with its whole length is pushed out later",
    ),
    Mutant(
        "old-weights-found",
        "manager/pressure.rs",
        "        let freed = self.clear_cache();\n        self.options.fingerprint",
        "        let freed = 0;\n        self.options.fingerprint",
        "what ran under the old weights is found when they come back",
    ),
    Mutant(
        "reset-leaves-what-runs",
        "sequence.rs",
        "            sequence.private |= *live;\n",
        "            sequence.private |= *live && sequence.len == 0;\n",
        "what runs leaves KV of the old weights under a key of theirs",
    ),
)
