//! The requests of an engine, kept once for all shadows.

use hashbrown::HashMap;

use super::Grain;
use super::sample::{Sample, Sampler};
use super::step::{Begun, Progress};
use crate::hash::Key;
use crate::sequence::Meta;
use crate::tier::RequestInfo;

/// A request as far as the engine has come with it; lengths in blocks are of the shadows' blocks.
#[derive(Debug)]
pub(super) struct Tracked {
    /// Its followed blocks.
    sample: Sample,
    /// Blocks of the engine that may be found.
    findable: u32,
    /// Blocks that it has.
    pub rows: u32,
    /// Blocks that are findable, as far as they have keys.
    computed: usize,
    /// Blocks that all its known tokens need.
    pub whole: u32,
    /// Tokens that are known.
    pub tokens: u32,
    /// Tokens that the engine has found.
    pub really_found: u32,
    /// Whether it has ended; a shadow in which it still waits runs it afterwards.
    pub ended: bool,
    /// Shadows in which it waits.
    pub waits_in: u32,
    meta: Meta,
}

impl Tracked {
    /// What a policy may know of it.
    pub fn info(&self) -> RequestInfo<'static> {
        RequestInfo { meta: self.meta, tokens: self.tokens, next_use: &[] }
    }

    /// Keys of blocks that may be found.
    pub fn findable(&self) -> &[Key] {
        &self.sample.keys()[..self.sample.known(self.findable)]
    }

    /// How many blocks of the engine are found where so many followed ones are.
    pub fn found(&self, rows: u32, sampler: &Sampler) -> u32 {
        self.sample.found(rows, self.findable, false, sampler)
    }

    /// Keys of blocks that are findable.
    pub fn computed(&self) -> &[Key] {
        &self.sample.keys()[..self.computed]
    }

    fn reach(&mut self, slots: u32, computed: u32, grain: Grain) {
        self.computed = self.sample.known(computed / grain.block_size);
        let rows = self.sample.within(slots.div_ceil(grain.block_size));
        self.rows = rows.max(self.computed as u32);
        self.whole = self.whole.max(self.rows);
    }
}

/// All that are followed.
#[derive(Debug)]
pub(super) struct Requests {
    grain: Grain,
    /// Which of their blocks are followed.
    pub sampler: Sampler,
    /// Requests that began so far.
    began: u64,
    by_id: HashMap<u64, Tracked>,
}

impl Requests {
    pub fn new(grain: Grain) -> Self {
        Self { grain, sampler: Sampler::new(grain.stride), began: 0, by_id: HashMap::new() }
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn get(&self, id: u64) -> Option<&Tracked> {
        self.by_id.get(&id)
    }

    /// A request begins, or begins again.
    pub fn begin(&mut self, begun: &Begun) {
        let grain = self.grain;
        let waits_in = self.get(begun.id).map_or(0, |before| before.waits_in);
        self.began += 1;
        let sample = Sample::new(self.began, &begun.keys, &mut self.sampler);
        let mut tracked = Tracked {
            findable: begun.findable / grain.block_size,
            rows: 0,
            computed: 0,
            whole: sample.within(begun.tokens.div_ceil(grain.block_size)),
            sample,
            tokens: begun.tokens,
            really_found: begun.found,
            ended: false,
            waits_in,
            meta: begun.meta,
        };
        tracked.reach(begun.slots, begun.computed, grain);
        self.by_id.insert(begun.id, tracked);
    }

    /// A request has come further. False if it is not followed.
    pub fn advance(&mut self, progress: &Progress) -> bool {
        let grain = self.grain;
        let Some(tracked) = self.by_id.get_mut(&progress.id) else { return false };
        tracked.sample.extend(&progress.keys, &mut self.sampler);
        tracked.reach(progress.slots, progress.computed, grain);
        true
    }

    /// Notes that a request has ended. Its state is kept until no shadow has it waiting.
    pub fn forget(&mut self, id: u64) {
        if let Some(tracked) = self.by_id.get_mut(&id) {
            tracked.ended = true;
            if tracked.waits_in == 0 {
                self.by_id.remove(&id);
            }
        }
    }

    /// It waits in one shadow more.
    pub fn waits(&mut self, id: u64) {
        if let Some(tracked) = self.by_id.get_mut(&id) {
            tracked.waits_in += 1;
        }
    }

    /// It waits in one shadow less.
    pub fn waited(&mut self, id: u64) {
        if let Some(tracked) = self.by_id.get_mut(&id) {
            tracked.waits_in -= 1;
            if tracked.ended && tracked.waits_in == 0 {
                self.by_id.remove(&id);
            }
        }
    }
}
