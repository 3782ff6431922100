"""What the slot allocator and its radix cache got wrong (SA-B), where the core has a like."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "inner-blocks-evicted",
        "pool.rs",
        ".is_some_and(|b| b.is_cached() && b.children == 0)",
        ".is_some_and(Block::is_cached)",
        "what follows an evicted block takes room and cannot be found",
        ("SA-B2",),
    ),
    Mutant(
        "asks-until-there-is-room",
        "store/mod.rs",
        "        if needed > available || acquired > all {\n",
        "        if needed > available || acquired > all {\n"
        "            if self.pool.referenced() == self.pool.capacity() {\n"
        # Not in tail position: the stack ends, which names the test, where a loop never would.
        "                let asked = self.check_room(needed, acquired, tenant);\n"
        "                return std::hint::black_box(asked);\n"
        "            }\n",
        "with everything in use a request is never answered",
        ("SA-B3",),
    ),
    Mutant(
        "capacity-in-tokens",
        "manager/allocate/needs.rs",
        "    fn needs_alone(&self, request: &Attempt<'_>, known: u32) -> u64 {\n"
        "        let (encoder, longest) = (request.encoder_tokens, "
        "known.max(request.max_seq_len));\n",
        "    fn needs_alone(&self, request: &Attempt<'_>, known: u32) -> u64 {\n"
        "        let (encoder, longest) = (request.encoder_tokens, "
        "known.max(request.max_seq_len));\n"
        "        let longest = longest.saturating_mul(self.options.block_size);\n",
        "a prompt is refused that would fit block_size times over",
        ("SA-B4",),
    ),
    Mutant(
        "only-the-end-owned",
        "pool/chains.rs",
        "        for &block in blocks {\n"
        "            let b = &mut column[block as usize];\n            debug_assert",
        "        for &block in blocks.iter().rev().take(1) {\n"
        "            let b = &mut column[block as usize];\n            debug_assert",
        "the way to a block in use is evicted",
        ("SA-B5",),
    ),
    Mutant(
        "cut-keeps-old-keys",
        "manager/end/release.rs",
        "        sequence.keys.truncate(full);\n",
        "",
        "what is written after a cut is found under what stood there before",
        ("SA-B6",),
    ),
    Mutant(
        "older-copy-forgotten",
        "index/hash.rs",
        "                let place = |block| Ages::place(self.ages.as_deref(), block);\n"
        "                let copies = self.copies.entry(key).or_default();\n"
        "                copies.extend([place(first), place(block)]);\n"
        "                self.more += 1;\n"
        "                if place(block) < place(first) {\n"
        "                    self.table.replace(pool, key, block);\n"
        "                }\n",
        "                self.table.replace(pool, key, block);\n",
        "with the second copy of a block, the first is lost as well",
        ("SA-B7",),
    ),
    Mutant(
        "a-node-a-block",
        "index/radix/mod.rs",
        "        } else if children == 0 && mark == PLAIN && above != NIL {\n",
        "        } else if block == NIL && children == 0 && mark == PLAIN && above != NIL {\n",
        "the tree has a node for each block: a long prompt is a long walk",
        ("SA-B14",),
    ),
    Mutant(
        "source-not-kept",
        "manager/grow/mod.rs",
        "        self.transfers.copy(&mut self.store, copy);\n",
        "        self.store.drop_owners(0, &[src]);\n"
        "        self.transfers.copy(&mut self.store, copy);\n",
        "a page is written while it is copied from",
        ("SA-B12",),
    ),
    Mutant(
        "loan-not-marked",
        "pool/moves.rs",
        "Block { refs: 1, state: State::Lent, ..UNUSED }",
        "Block { refs: 1, state: State::Pending, ..UNUSED }",
        "a block that is out cannot come back",
        ("SA-B8",),
    ),
    Mutant(
        "length-without-places",
        "manager/allocate/lookup.rs",
        "        let mut tokens_found = units as u32 * self.block_size();\n",
        "        let mut tokens_found = (units as u32 + 1) * self.block_size();\n",
        "a lookup tells of tokens that are nowhere",
        ("SA-B10",),
    ),
    Mutant(
        "settled-twice",
        "transfers/tickets.rs",
        "        let gone = self.outstanding.remove(&ticket)?;\n",
        "        let kept = self.outstanding.get(&ticket)?;\n"
        "        let (copies, held) = (kept.copies.clone(), kept.held.clone());\n"
        "        let (name, joiners) = (None, BTreeSet::new());\n"
        "        let loading =\n"
        "            kept.load().map(|load| LoadState { load, opened_for: 0, name, joiners });\n"
        "        let loading = loading.map(Box::new);\n"
        "        let gone = Ticket { copies, held, loading, ..Ticket::default() };\n",
        "letting go of a pin twice takes away somebody else's",
        ("SA-B11", "FE-B23"),
    ),
    Mutant(
        "whole-slots",
        "manager/mod.rs",
        "        tokens.div_ceil(self.options.block_size)\n",
        "        tokens.div_ceil(self.options.block_size).next_multiple_of(4)\n",
        "a short request takes the room of a long one",
        ("SA-B16",),
    ),
)
