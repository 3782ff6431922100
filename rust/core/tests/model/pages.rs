//! Pages with bytes in them: what a data plane would hold, one number a token slot.
//!
//! A slot's number is a digest of everything the token's KV depends on: namespace, group and all
//! tokens up to it. So one wrong, stale or foreign page anywhere shows up as a wrong number.

use std::collections::HashMap;

use kvframe_core::pool::State;
use kvframe_core::transfers::CopyPlan;
use kvframe_core::{BlockId, GroupKind, Key, Manager};

use super::tails::Tails;

/// Whatever an earlier tenant left.
pub const STALE: u64 = 1;
/// What a failed copy leaves, and what is computed from it.
pub const POISON: u64 = 0;

/// The number of a slot: `digest`, and how many resets came before its sequence.
pub fn value(digest: u64, epoch: u64) -> u64 {
    (digest & !0xFFFF) | (epoch & 0xFF) << 8 | 2
}

fn epoch_of(value: u64) -> u64 {
    value >> 8 & 0xFF
}

/// The bytes of every block, and what is known of outstanding copies.
#[derive(Clone)]
pub struct Pages {
    slots: Vec<Vec<u64>>,
    generations: Vec<u32>,
    by_key: HashMap<Key, Vec<u64>>,
    /// Tickets given out, and whether their copies failed.
    pub tickets: Vec<(u64, bool)>,
    /// Copies seen in plans.
    pub copied: u64,
    /// Whether part of a load that is not settled yet was lost.
    pub lost_load: bool,
}

impl Pages {
    pub fn new(blocks: u32, size: u32) -> Self {
        Self {
            slots: vec![vec![STALE; size as usize]; blocks as usize],
            generations: vec![0; blocks as usize],
            by_key: HashMap::new(),
            tickets: Vec::new(),
            copied: 0,
            lost_load: false,
        }
    }

    pub fn read(&self, block: BlockId, slot: u32) -> u64 {
        self.slots[block as usize][slot as usize]
    }

    /// Whether a copy or a load that failed has not been reported yet.
    pub fn failing(&self) -> bool {
        self.tickets.iter().any(|&(_, failed)| failed) || self.lost_load
    }

    /// All of a page.
    pub fn page(&self, block: BlockId) -> &[u64] {
        &self.slots[block as usize]
    }

    /// What comes from elsewhere lands.
    pub fn land(&mut self, m: &Manager, block: BlockId, page: &[u64]) {
        self.spoil_freed(m);
        self.slots[block as usize][..page.len()].copy_from_slice(page);
    }

    /// What a block holds that somebody publishes by itself.
    pub fn fill(&mut self, block: BlockId, m: &Manager, epoch: u64) {
        self.spoil_freed(m);
        self.slots[block as usize].fill(value(u64::from(block + 1) << 20, epoch));
    }

    /// The pool has that many blocks now.
    pub fn resize(&mut self, blocks: u32) {
        let (blocks, size) = ((blocks as usize).max(self.slots.len()), self.slots[0].len());
        self.slots.resize(blocks, vec![STALE; size]);
        self.generations.resize(blocks, 0);
    }

    /// What was found is found no more; a key may stand for other bytes from now on.
    pub fn forget_keys(&mut self) {
        self.by_key.clear();
    }

    /// Rule 3: a write that changes anything goes to a block that nobody can find.
    pub fn write(&mut self, m: &Manager, block: BlockId, slot: u32, value: u64) {
        let state = m.pool().state(block);
        let present = &mut self.slots[block as usize][slot as usize];
        assert!(
            state == State::Pending || (state == State::Committed && *present == value),
            "slot {slot} of block {block}: {value:x} is written over {present:x} while the block is {}",
            state.name()
        );
        *present = value;
    }

    /// Recurrent layers move their state on: what it was before is gone.
    pub fn write_state(&mut self, m: &Manager, block: BlockId, slot: u32, value: u64) {
        let page = &mut self.slots[block as usize];
        if page[slot as usize] != value {
            page.fill(STALE);
        }
        self.write(m, block, slot, value);
    }

    /// A block that was freed since the last look holds nothing of use.
    pub fn spoil_freed(&mut self, m: &Manager) {
        for (block, generation) in self.generations.iter_mut().enumerate() {
            let now = m.pool().generation(block as BlockId);
            if std::mem::replace(generation, now) != now {
                self.slots[block].fill(STALE);
            }
        }
    }

    /// Carries a plan out at once; `fail` loses every page of it.
    pub fn carry_out(&mut self, m: &Manager, plan: &CopyPlan, fail: bool) {
        self.spoil_freed(m);
        for copy in &plan.copies {
            assert_ne!(copy.src, copy.dst, "a page is copied onto itself");
            let source = self.slots[copy.src as usize].clone();
            let target = &mut self.slots[copy.dst as usize];
            let tokens = copy.tokens as usize;
            target.fill(if fail { POISON } else { STALE });
            if !fail {
                target[..tokens].copy_from_slice(&source[..tokens]);
            }
            self.copied += 1;
        }
        self.tickets.push((plan.ticket, fail));
    }

    /// Every findable block holds what its key says, nothing half-made, nothing of earlier weights.
    pub fn check_findable(&mut self, m: &Manager, tails: &Tails, epoch: u64) {
        for block in 0..m.pool().created() {
            if !matches!(m.pool().state(block), State::Committed | State::Cached) {
                continue;
            }
            let reach = m.layout().groups()[m.pool().group(block) as usize];
            let part = if m.wants_keys() { tails.tokens(m.pool().key(block)) } else { None };
            let whole = &self.slots[block as usize][..part.unwrap_or(reach.span) as usize];
            let page = whole.to_vec();
            // Of a state, the last one counts.
            let matters =
                if reach.kind == GroupKind::State { &whole[whole.len() - 1..] } else { whole };
            let bad = matters.iter().any(|&v| v == STALE || v == POISON);
            assert!(!bad, "block {block} is findable and holds {page:?}");
            let old = matters.iter().any(|&v| epoch_of(v) != epoch & 0xFF);
            assert!(!old, "block {block} is findable and holds what a reset should have forgotten");
            if !m.wants_keys() {
                continue;
            }
            let known = self.by_key.entry(m.pool().key(block)).or_insert_with(|| page.clone());
            assert_eq!(*known, page, "block {block} holds other tokens than its key stands for");
        }
    }
}
