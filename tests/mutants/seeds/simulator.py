"""What the simulator's manager got wrong (IL-B)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "keys-count-tokens",
        "hash/message.rs",
        "bytes.copy_from_slice(&token.to_le_bytes());",
        "bytes.copy_from_slice(&(token & 0).to_le_bytes());",
        "prompts of one length are taken for one another, whatever they say",
        ("IL-B1",),
    ),
    Mutant(
        "hit-not-owned",
        "store/owners.rs",
        "self.pool.share_chain(found) < found.len();",
        "self.pool.count_cached(found) < found.len();",
        "a hit is a length only: its blocks go to others while they are read",
        ("IL-B3",),
    ),
    Mutant(
        "hit-of-one-block",
        "manager/allocate/lookup.rs",
        "let mut count = whole(wanted.limit.min(wanted.keys.len()));",
        "let mut count = whole(wanted.limit.min(wanted.keys.len()).min(unit));",
        "of a long prefix that is cached, its first block is used",
        ("IL-B4",),
    ),
    Mutant(
        "nothing-published",
        "manager/commit/mod.rs",
        "        if sequence.private || (from >= until && ",
        "        if sequence.private || until > 0 || (from >= until && ",
        "what was computed is never found: every lookup misses",
        ("IL-B5", "CB-B18"),
    ),
    Mutant(
        "refused-tries-counted",
        "manager/allocate/mod.rs",
        "        let counted = self.count_needs(request, known, &start, &hits);\n",
        "        let counted = self.count_needs(request, known, &start, &hits);\n"
        "        self.store.stats_mut().requests += u64::from(counted.is_err());\n",
        "a request that waits adds a miss each time it is tried",
        ("IL-B6",),
    ),
    Mutant(
        "freed-is-forgotten",
        "manager/end/release.rs",
        "        self.cut_tables(seq, None)?;\n        self.leave_computation(seq)?;\n",
        "        self.cut_tables(seq, None)?;\n"
        "        self.leave_computation(seq)?;\n"
        "        while let Some(block) = self.store.next_victim() {\n"
        "            self.store.invalidate(block);\n"
        "        }\n",
        "a prefix is found only while somebody runs on it",
        ("IL-B8",),
    ),
    Mutant(
        "last-freed-first",
        "policy/eviction/lru.rs",
        "        if self.head != NIL && pool.is_evictable(self.head) {\n"
        "            return Some(self.head);\n",
        "        if self.tail != NIL && pool.is_evictable(self.tail) {\n"
        "            return Some(self.tail);\n",
        "what was used last is recycled first",
        ("IL-B9",),
    ),
    Mutant(
        "no-blocks-accepted",
        "options.rs",
        "        if self.blocks <= reserved {\n",
        "        if self.blocks < reserved {\n",
        "a pool of no blocks is built, and its use is not a number",
        ("IL-B10",),
    ),
    Mutant(
        "computed-kept-without-kv",
        "manager/allocate/mod.rs",
        "        sequence.committed = cached;\n",
        "        sequence.committed = if request.resumed { until.min(slots) } else { cached };\n",
        "what was preempted goes on as if its KV had come along",
        ("IL-B12",),
    ),
    Mutant(
        "answer-counted-as-prompt",
        "manager/inspect/account.rs",
        "            stats.prompt_tokens += u64::from(known);\n",
        "            stats.prompt_tokens += u64::from(known.max(request.max_seq_len));\n",
        "a prompt's length is counted with the answer that is still to come",
        ("IL-B13",),
    ),
    Mutant(
        "chunk-told-as-prompt",
        "manager/allocate/mod.rs",
        "            prompt_tokens: known,\n",
        "            prompt_tokens: granted_tokens,\n",
        "a prompt that comes in by chunks is told to be as long as its first one",
        ("IL-B13",),
    ),
    Mutant(
        "id-out-of-range-panics",
        "pool.rs",
        "        self.blocks.get(block as usize).map(|b| b.refs)\n",
        "        Some(self.blocks[block as usize].refs)\n",
        "a block id that the pool never had brings the process down",
        ("IL-B14",),
    ),
)
