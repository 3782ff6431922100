"""Planted defects of what sequences share while they wait, and of what is forgotten for some."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "join-forgets-a-sequence",
        "transfers/computing.rs",
        "        self.offered.insert(seq, offered);\n",
        "        if self.offered.is_empty() {\n"
        "            self.offered.insert(seq, offered);\n"
        "        } else {\n"
        "            self.retract(seq, &mut offered);\n"
        "        }\n",
        "two samples of one prompt compute it twice although the second asked to join",
    ),
    Mutant(
        "join-finds-what-has-ended",
        "transfers/mod.rs",
        "            self.computing.forget(seq);\n        }\n    }\n\n",
        "            self.computing.is_on();\n        }\n    }\n\n",
        "names of a sequence that ended stay, and the next with its slot is taken for it",
    ),
    Mutant(
        "joined-load-taken-for-computed",
        "manager/inflight/join_load.rs",
        "        sequence.brought = sequence.brought.max(rows * size);\n",
        "        sequence.brought = sequence.brought.max(good * size);\n",
        "a second request counts blocks of a load as its own before they have come",
    ),
    Mutant(
        "fenced-block-in-use",
        "manager/blocks/pressure.rs",
        "self.pool().usable() - self.pool().available() - self.pool().coming()",
        "self.pool().usable() - self.pool().available()",
        "blocks on their way count as in use: more is preempted than pressure asks for",
    ),
    Mutant(
        "wait-counted-for-one-owner",
        "pool/waits.rs",
        "        self.coming += u32::from(self.waits[at] == self.blocks[at].refs);\n",
        "        self.coming += u32::from(self.waits[at] == 1);\n",
        "a block that waits and has another owner counts as room to come",
    ),
    Mutant(
        "clear-leaves-a-block",
        "origins.rs",
        "        let found = (0..pool.created()).filter(",
        "        let found = (1..pool.created()).filter(",
        "a reloaded adapter hits KV of its old weights",
    ),
    Mutant(
        "clear-forgets-what-runs",
        "manager/blocks/clear.rs",
        "        for seq in self.sequences.disown(scope) {\n",
        '        let none = Scope { cache_salt: Some(b"no such"), ..scope };\n'
        "        for seq in self.sequences.disown(none) {\n",
        "what runs under the old adapter leaves its KV for the new one",
    ),
    Mutant(
        "clear-of-shared-blocks",
        "origins.rs",
        "                && *user != session\n",
        "                && *user != session && session == SHARED\n",
        "the end of one session forgets what another one's requests go on with",
    ),
    Mutant(
        "rematch-counts-twice",
        "manager/inspect/account.rs",
        "        let more = u64::from(cached - before);\n",
        "        let more = u64::from(cached);\n",
        "tokens found at admission count as hits once more when the prompt is looked up again",
    ),
    Mutant(
        "rematch-frees-under-a-fence",
        "transfers/mod.rs",
        "        if self.fences.is_up() {\n            self.fences.put_places_behind",
        "        if false {\n            self.fences.put_places_behind",
        "a block that a step in flight still writes is given to others",
    ),
    Mutant(
        "rematch-leaves-what-follows",
        "manager/allocate/rematch.rs",
        "let follows = |block| changes && self.pool",
        "let follows = |block| !changes && self.pool",
        "a findable block outlives the one before it, which is traded away and evicted",
    ),
    Mutant(
        "failed-copy-frees-under-a-fence",
        "manager/end/release.rs",
        "        self.transfers.drop_owners(&mut self.store, 0, &plan.owned());\n",
        "        self.store.drop_owners(0, &plan.owned());\n",
        "the source of a copy that failed is given to others while a step in flight reads it",
    ),
    Mutant(
        "weak-chain-in-windows",
        "options.rs",
        "{ self.hash } else { HashAlgo::Sha256 }",
        "{ self.hash } else { HashAlgo::Xxh3 }",
        "where a window has given up what would be compared, two prompts that collide share KV",
    ),
    Mutant(
        "head-dropped-first",
        "router/chain.rs",
        "            if !here || *self.children(row) > 0 {\n",
        "            if !here || *self.children(row) > 0 && self.parents[row as usize] != NONE {\n",
        "a full router forgets the front of a prefix, and what is left of it matches nothing",
    ),
)
