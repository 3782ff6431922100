//! An engine with slots: what is in its memory tells of every token before it, so that a prefix taken
//! for another is noticed.

use kvframe_core::hash::Space;
use kvframe_core::policy::{PolicyOptions, by_name};
use kvframe_core::slots::{SlotAllocation, Slots};
use kvframe_core::tier::RequestInfo;
use kvframe_core::transfers::CopyPlan;
use kvframe_core::{Result, SeqId};

use crate::dice::mix;

/// Two namespaces.
pub const SPACES: [Space<'static>; 2] = [
    Space { tenant: b"", cache_salt: b"", lora_name: b"", encoder: b"", public: 0 },
    Space { tenant: b"", cache_salt: b"a", lora_name: b"", encoder: b"", public: 0 },
];

pub fn slots(count: u32, length: u32, least_copy: u32, policy: &str) -> Slots {
    let policy = by_name(policy, PolicyOptions::default()).expect("a shipped policy");
    Slots::new(count, length, least_copy, b"", policy).expect("sound")
}

pub fn place(seq: SeqId) -> usize {
    seq as u32 as usize
}

/// The KV of each token, given all before it.
pub fn kv_of(space: usize, tokens: &[u32]) -> Vec<u64> {
    let step = |state: &mut u64, token: &u32| {
        *state = mix(*state, u64::from(*token));
        Some(*state)
    };
    tokens.iter().scan(space as u64, step).collect()
}

/// Slots, and the memory behind them.
pub struct Engine {
    pub slots: Slots,
    pub memory: Vec<Vec<u64>>,
}

impl Engine {
    pub fn new(count: u32, length: u32, least_copy: u32, policy: &str) -> Self {
        let memory = vec![vec![0; length as usize]; count as usize];
        Self { slots: slots(count, length, least_copy, policy), memory }
    }

    pub fn allocate(&mut self, prompt: &[u32], space: usize) -> Result<SlotAllocation> {
        self.slots.allocate(prompt, SPACES[space], RequestInfo::default())
    }

    /// Carries out a plan.
    pub fn run(&mut self, plan: &CopyPlan) {
        for copy in &plan.copies {
            let prefix = self.memory[copy.src as usize][..copy.tokens as usize].to_vec();
            self.memory[copy.dst as usize][..prefix.len()].copy_from_slice(&prefix);
        }
    }

    /// Writes the KV of `tokens[from..to]`, and commits it.
    pub fn compute(&mut self, seq: SeqId, space: usize, tokens: &[u32], from: usize, to: usize) {
        let kv = kv_of(space, &tokens[..to]);
        self.memory[place(seq)][from..to].copy_from_slice(&kv[from..]);
        self.slots.commit(seq, to as u32).expect("known");
    }

    /// A prompt from its admission to its end, with any copy. Returns what it was given.
    pub fn serve(&mut self, prompt: &[u32]) -> SlotAllocation {
        let got = self.allocate(prompt, 0).expect("room");
        if let Some(plan) = self.slots.take_plan() {
            self.run(&plan);
            self.slots.done(plan.ticket).expect("outstanding");
        }
        let cached = got.cached as usize;
        assert_eq!(self.memory[place(got.seq)][..cached], kv_of(0, prompt)[..cached]);
        self.compute(got.seq, 0, prompt, cached, prompt.len());
        self.slots.release(got.seq).expect("live");
        self.slots.check_integrity().expect("sound");
        got
    }
}
