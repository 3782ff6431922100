"""What cbtop's cache got wrong (CB-B)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "fork-without-copy",
        "manager/grow/mod.rs",
        "        self.has_other_owner(block) || (block",
        "        (self.has_other_owner(block) && false) || (block",
        "two sequences write on in one page: each reads the other's token",
        ("CB-B1", "FE-B8"),
    ),
    Mutant(
        "a-block-more-for-the-sink",
        "groups/reach.rs",
        "        let start = needs.head.div_ceil(self.span) as usize;\n",
        "        let sink = matches!(self.kind, super::GroupKind::SinkWindow { .. });\n"
        "        let start = needs.head / self.span + u32::from(sink);\n"
        "        let start = start as usize;\n",
        "a sink of whole blocks, or of no token, keeps a block that nobody reads",
        ("CB-B3",),
    ),
    Mutant(
        "window-by-count-of-blocks",
        "groups/reach.rs",
        "        let end = (needs.from / self.span) as usize;\n",
        "        let mut end = (needs.from / self.span) as usize;\n"
        "        if let super::GroupKind::SinkWindow { sink, window } = self.kind {\n"
        "            let kept = self.blocks(sink.saturating_add(window));\n"
        "            end = needs.head.div_ceil(self.span) as usize\n"
        "                + self.blocks(len).saturating_sub(kept) as usize;\n"
        "        }\n",
        "of a window that starts inside a block, that block is given up",
        ("CB-B3",),
    ),
    Mutant(
        "table-closes-its-gap",
        "manager/grow/windows.rs",
        "            let is_sink = matches!(reach.kind, GroupKind::SinkWindow { .. });\n",
        "            let is_sink = matches!(reach.kind, GroupKind::SinkWindow { .. });\n"
        "            if is_sink {\n"
        "                let left = sequence.tables[group].iter().copied().filter(|&b| b != NIL);\n"
        "                let left: Vec<BlockId> = left.collect();\n"
        "                sequence.tables[group].truncate(0);\n"
        "                sequence.tables[group].extend_from_slice(&left);\n"
        "            }\n",
        "places move up behind a cut: the next token is written into another one's slot",
        ("CB-B4",),
    ),
    Mutant(
        "dropped-told-as-freed",
        "manager/commit/mod.rs",
        "            done.freed = self.leave_windows(seq, upto)?;\n",
        "            let gaps = |m: &Self| {\n"
        '                let tables = &m.sequences.get(seq).expect("it was found").tables;\n'
        "                let entries = tables.iter().flatten();\n"
        "                entries.filter(|&&b| b == crate::pool::NIL).count() as u32\n"
        "            };\n"
        "            let before = gaps(self);\n"
        "            self.leave_windows(seq, upto)?;\n"
        "            done.freed = gaps(self) - before;\n",
        "what others still hold is told as room",
        ("CB-B5",),
    ),
    Mutant(
        "a-pass-for-each-block",
        "manager/grow/windows.rs",
        "            blocks.extend_from_slice(&table[gone.clone()]);\n",
        "            while blocks.len() < gone.len() {\n"
        "                let (at, rows) = (blocks.len(), table[gone.clone()].iter().enumerate());\n"
        "                blocks.extend(rows.filter(|&(i, _)| i == at).map(|(_, &b)| b));\n"
        "            }\n",
        "giving up many blocks takes the square of their number",
        ("CB-B17",),
    ),
    Mutant(
        "victims-without-gain",
        "manager/end/preemption.rs",
        "        order.retain(|candidate| candidate.frees > 0);\n",
        "",
        "empty sequences are preempted first, for nothing",
        ("CB-B13",),
    ),
    Mutant(
        "nothing-gives-way",
        "store/mod.rs",
        "        let available = all.saturating_sub(acquired);\n",
        "        let available = all.saturating_sub(acquired).min(self.pool.free());\n",
        "a pool full of cached blocks refuses everybody",
        ("CB-B7", "FE-B17"),
    ),
    Mutant(
        "reads-not-counted",
        "store/owners.rs",
        "        self.policy.own(found, if some_owned { &first } else { found }, access, view);\n",
        "        self.policy.acquire(if some_owned { &first } else { found }, view);\n",
        "policies see what is written, not what is read",
        ("CB-B8",),
    ),
    Mutant(
        "frequency-never-ages",
        "policy/eviction/lfuda.rs",
        "        self.age = (rank >> 96) as u32;\n",
        "        let _ = rank;\n",
        "what was popular once stays for ever",
        ("CB-B8",),
    ),
    Mutant(
        "priority-ignored",
        "manager/end/preemption.rs",
        "PreemptionOrder::LowestPriority => (sequence.meta.priority.into(), last, 0),",
        "PreemptionOrder::LowestPriority => (0, last, 0),",
        "an engine's priorities change nothing",
        ("CB-B9",),
    ),
    Mutant(
        "ties-by-chance",
        "manager/end/preemption.rs",
        "        let last = u64::MAX - sequence.allocated;\n",
        "        let chance = std::collections::hash_map::RandomState::new();\n"
        "        let last = std::hash::BuildHasher::hash_one(&chance, sequence.allocated);\n",
        "which of two equal sequences goes differs from run to run",
        ("CB-B10",),
    ),
    Mutant(
        "hit-may-still-be-evicted",
        "pool.rs",
        "        self.refs == 0 && self.state == State::Committed\n",
        "        self.state == State::Committed\n",
        "blocks of a running sequence give way to others",
        ("CB-B11",),
    ),
    Mutant(
        "evicted-without-a-word",
        "store/mod.rs",
        "        self.note_block(Kind::Evict, 0, victim, cause as u64);\n",
        "",
        "nobody who keeps books learns that a block is gone",
        ("CB-B12",),
    ),
    Mutant(
        "marks-unchecked",
        "options.rs",
        '("low", low, low > 0.0,',
        '("low", low, low >= 0.0,',
        "a mark of zero makes an empty pool scarce",
        ("CB-B14",),
    ),
    Mutant(
        "blocks-of-no-tokens",
        "options.rs",
        "        if self.block_size == 0 || self.block_size > MAX_BLOCK_SIZE {\n",
        "        if self.block_size > MAX_BLOCK_SIZE {\n",
        "options that no manager can work with pass the check of a configuration",
        ("CB-B15",),
    ),
    Mutant(
        "half-a-return",
        "manager/blocks/loans.rs",
        "            self.store.mark_lent(ended);\n",
        "",
        "a list with one wrong id is taken back up to it: the rest leaks",
        ("CB-B16", "FE-B26"),
    ),
)
