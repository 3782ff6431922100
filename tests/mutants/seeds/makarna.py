"""What makarna's manager got wrong (MK-B)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "refused-keeps-its-hits",
        "manager/allocate/mod.rs",
        "        let refused = |error: &Error| self.count_refusal(error, request.tenant);\n",
        "        if counted.is_err() {\n"
        "            hits.iter().for_each(|hit| self.store.hold(0, hit));\n"
        "        }\n"
        "        let refused = |error: &Error| self.count_refusal(error, request.tenant);\n",
        "each try that fails leaves blocks that nobody can free",
        ("MK-B1",),
    ),
    Mutant(
        "hit-of-the-first-group",
        "manager/allocate/lookup.rs",
        "                count = whole(found.len() * units);\n",
        "                count = if group == 0 { whole(found.len() * units) } else { count };\n",
        "tables of one sequence have several lengths, and positions are wrong",
        ("MK-B2",),
    ),
    Mutant(
        "generated-not-cached",
        "manager/commit/mod.rs",
        "            Index::Hash(_) => sequence.keys.len(),\n",
        "            Index::Hash(_) => sequence.keys.len().min(sequence.cached as usize + 2),\n",
        "what is decoded is never found by the next turn",
        ("MK-B4", "SA-B15"),
    ),
    Mutant(
        "several-at-once-dropped",
        "manager/commit/mod.rs",
        "        if sequence.private || (from >= until && ",
        "        let several = from > 0 && until > from + 1;\n"
        "        if sequence.private || several || (from >= until && ",
        "a commit that fills several blocks leaves none of them",
        ("MK-B5",),
    ),
    Mutant(
        "tokens-before-room",
        "manager/grow/mod.rs",
        "        self.make_slots(seq, until)?;\n"
        "        self.note_append(seq, until, ids);\n"
        "        ids.enter(self.sequences.get_mut(seq)?);\n",
        "        ids.enter(self.sequences.get_mut(seq)?);\n"
        "        self.make_slots(seq, until)?;\n"
        "        self.note_append(seq, until, ids);\n",
        "an append that fails leaves its tokens: a retry has them twice",
        ("MK-B6",),
    ),
    Mutant(
        "room-of-one-group",
        "manager/grow/mod.rs",
        "        let needed = more + copies.len() as u64;\n",
        "        let needed = more.min(1) + copies.len() as u64;\n",
        "one group gets its block and the next one does not",
        ("MK-B6",),
    ),
    Mutant(
        "all-hashed-anew",
        "hash.rs",
        "        keys.reserve(full - keys.len());\n",
        "        keys.clear();\n        keys.reserve(full);\n",
        "each block costs the hashing of all before it, and keys that were given are lost",
        ("MK-B7",),
    ),
    Mutant(
        "counted-a-group",
        "manager/allocate/mod.rs",
        "            self.count_allocation(request, &allocation, miss);\n",
        "            hits.iter().for_each(|_| "
        "self.count_allocation(request, &allocation, miss));\n",
        "a model of 32 layers has 32 times the hits",
        ("MK-B8",),
    ),
    Mutant(
        "any-number-of-groups",
        "options.rs",
        "        if self.groups.is_empty() || self.groups.len() > MAX_GROUPS {\n",
        "        if self.groups.is_empty() {\n",
        "more groups are accepted than there are bits for, and some are taken for others",
        ("MK-B11",),
    ),
    Mutant(
        "tail-without-a-block",
        "manager/mod.rs",
        "        tokens.div_ceil(self.options.block_size)\n",
        "        tokens / self.options.block_size\n",
        "tokens behind the last full block have no slots",
        ("MK-B12",),
    ),
    Mutant(
        "asleep-and-admitting",
        "manager/mod.rs",
        "        if self.capacity.is_asleep() {\n",
        "        if self.capacity.is_asleep() && self.store.pool().created() == 0 {\n",
        "pages are given out whose memory the engine has given away",
        ("MK-B13",),
    ),
    Mutant(
        "second-copy-stays",
        "store/owners.rs",
        "        if self.keeps_copies || !self.pool.may_be_copy(block) {\n",
        "        if !self.pool.may_be_copy(block) || self.pool.depth(block) < u32::MAX {\n",
        "each request that computes a block again leaves one more copy of it",
        ("MK-B15",),
    ),
    Mutant(
        "key-without-adapter",
        "hash.rs",
        "            field(&mut hasher, ADAPTER, space.lora_name);\n",
        "",
        "what one adapter computed is served to another",
        ("MK-B16",),
    ),
    Mutant(
        "key-without-items",
        "hash.rs",
        "            field(&mut hasher, ITEM, &item.id);\n",
        "",
        "one image is taken for another",
        ("MK-B16",),
    ),
    Mutant(
        "policy-not-asked",
        "store/mod.rs",
        "        let named = self.policy.victim(view).filter(|&b| self.pool.is_evictable(b));\n",
        "        let named = self.policy.victim(view).filter(|_| false);\n",
        "whatever policy is chosen, the lowest id is evicted",
        ("MK-B17",),
    ),
)
