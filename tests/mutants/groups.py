"""Planted defects of layer groups: windows, chunks, states, sinks, other inputs, unequal blocks."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "window-a-block-too-wide",
        "groups/reach.rs",
        "        let end = (needs.from / self.span) as usize;\n",
        "        let end = (needs.from / self.span).saturating_sub(1) as usize;\n",
        "each sequence keeps a block that no token to come attends to",
    ),
    Mutant(
        "shared-window-taken-for-its-own",
        "manager/allocate/promises.rs",
        "                    self.pool().refs(block) > 1 || found(group, at, block)\n",
        "                    found(group, at, block)\n",
        "who leaves a window that others share frees nothing: what it was promised is not there",
    ),
    Mutant(
        "peak-sought-in-half-a-period",
        "groups/peak.rs",
        "        let first = start.max(end.saturating_sub(self.period()));\n",
        "        let first = start.max(end.saturating_sub(self.period() / 2));\n",
        "a prompt that cannot run to its end alone is let in",
    ),
    Mutant(
        "hit-of-full-groups-alone",
        "manager/allocate/lookup.rs",
        "            count = self.find_ends(wanted, count, blocks);\n",
        "            self.find_ends(wanted, count, blocks);\n",
        "a hit is as long as full attention can serve, where a window has lost what it needs",
    ),
    Mutant(
        "groups-agree-once",
        "manager/allocate/lookup.rs",
        "            if count == before {\n",
        "            if count <= before {\n",
        "one group shortens the hit, and another that needs more for the shorter one is not asked",
    ),
    Mutant(
        "chunk-off-by-one",
        "groups/kind.rs",
        "Self::Chunked { chunk } => (0, len - len % chunk),",
        "Self::Chunked { chunk } => (0, (len + 1) - (len + 1) % chunk),",
        "the last token of a chunk is computed without the chunk",
    ),
    Mutant(
        "state-without-a-checkpoint",
        "manager/allocate/lookup.rs",
        "                KeyMatch::Nothing | KeyMatch::Collision => true,\n",
        "                KeyMatch::Nothing | KeyMatch::Collision => "
        "reach.kind != GroupKind::State,\n",
        "a recurrent group is told to go on at a length of which it has no state",
    ),
    Mutant(
        "left-window-not-freed",
        "manager/grow/windows.rs",
        "            self.store.drop_owners(seq, &blocks);\n"
        "            self.scratch.blocks = blocks;\n",
        "            self.scratch.blocks = blocks;\n",
        "blocks that left a window are nobody's, and never free again",
    ),
    Mutant(
        "window-left-head-first",
        "manager/grow/windows.rs",
        "            self.store.drop_owners(seq, &blocks);\n"
        "            self.scratch.blocks = blocks;\n",
        "            blocks.reverse();\n"
        "            self.store.drop_owners(seq, &blocks);\n"
        "            self.scratch.blocks = blocks;\n",
        "of what left a window the head is evicted first, which every longer hit needs",
    ),
    Mutant(
        "found-in-anothers-unit",
        "manager/allocate/lookup.rs",
        "                found.truncate(count / reach.units as usize);\n",
        "                found.truncate(count);\n",
        "a group with larger blocks takes over more of them than the hit has tokens",
    ),
    Mutant(
        "counted-in-anothers-unit",
        "groups/reach.rs",
        "        tokens.div_ceil(self.span)\n",
        "        tokens.div_ceil(self.span / self.units)\n",
        "a group with larger blocks gets as many of them as one with small ones",
    ),
    Mutant(
        "key-of-the-first-unit",
        "manager/allocate/lookup.rs",
        "        keys[(i + 1) * units - 1].for_group(group)\n",
        "        keys[i * units].for_group(group)\n",
        "of two prompts that part inside a large block, one is served the other's",
    ),
    Mutant(
        "hit-in-the-largest-unit",
        "groups/layout.rs",
        "                unit = lcm(unit, u64::from(group.units));\n",
        "                unit = unit.max(u64::from(group.units));\n",
        "a hit ends inside a block of the group whose size does not divide the largest",
    ),
    Mutant(
        "no-window-where-prompts-part",
        "groups/layout.rs",
        "            && !self.serves(group, block, branch.into())\n",
        "            && branch < u32::MAX\n",
        "the window at the end of a shared beginning goes first, and each prompt computes it again",
    ),
    Mutant(
        "inner-blocks-always-go-first",
        "retention/inner.rs",
        "        let is_starved = self.attended > LEAST * self.found;\n",
        "        let is_starved = self.attended > u64::MAX / 2 - LEAST * self.found;\n",
        "prompts that share their beginning with one other find nothing where memory is short",
    ),
    Mutant(
        "unequal-blocks-counted-as-equal",
        "groups/layout.rs",
        "            uniform: !lagging && cross == 0 && groups.iter().all(|g| g.units == 1),\n",
        "            uniform: !lagging && cross == 0,\n",
        "every group gets a block a row, however many rows a block of it spans",
    ),
    Mutant(
        "cross-under-the-plain-key",
        "manager/grow/cross.rs",
        "                self.store_cross(seq, block, key.for_group(group), i);\n",
        "                let plain = sequence.keys.get(i as usize).copied();\n"
        "                self.store_cross(seq, block, plain.unwrap_or(key.for_group(group)), i);\n",
        "an encoder's blocks are found as those of the text, and never as its own",
    ),
    Mutant(
        "cross-of-any-input",
        "hash.rs",
        "            field(&mut hasher, ENCODER, space.encoder);\n",
        "",
        "what was computed over one recording is served to the next one",
    ),
    Mutant(
        "sink-goes-with-the-window",
        "groups/reach.rs",
        "        start.min(end)..end\n",
        "        (start.min(end) * 0)..end\n",
        "the attention sink is given up: what is generated falls apart",
    ),
    Mutant(
        "cut-text-published",
        "manager/grow/windows.rs",
        "            sequence.private |= is_sink && !blocks.is_empty();\n",
        "",
        "what was computed without the middle is found by prompts that have it",
    ),
    Mutant(
        "draft-told-as-computed",
        "groups/reach.rs",
        "        committed.saturating_sub(self.lag).max(cached.min(committed))\n",
        "        committed.max(cached.min(committed))\n",
        "blocks of a draft model are found before it has written them",
    ),
)
