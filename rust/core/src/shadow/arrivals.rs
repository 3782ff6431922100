//! The requests that an engine was given, kept once for all shadows that make up their own steps.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::sample::{Sample, Sampler};
use super::step::{Arrived, Generated};
use crate::sequence::Meta;
use crate::tier::RequestInfo;

/// The place of a request in the order of arrival.
pub(super) type Number = u64;

/// A request as far as the engine has come with it.
#[derive(Debug)]
pub(super) struct Arrival {
    /// Its followed blocks.
    pub sample: Sample,
    /// The first step that may schedule it.
    pub step: u64,
    /// See [`Arrived::after_rest`].
    pub after_rest: bool,
    /// Tokens of its prompt.
    pub prompt: u32,
    /// Tokens that it generates at the most.
    pub most_outputs: u32,
    /// Whether it looks in the cache.
    pub reads: bool,
    /// Tokens that it has generated in the engine.
    pub outputs: u32,
    /// Whether these are all.
    pub ended: bool,
    /// Tokens that the engine has found, once it has begun.
    pub found: Option<u32>,
    /// Shadows that are not done with it.
    users: usize,
    meta: Meta,
}

impl Arrival {
    /// What a policy may know of it.
    pub fn info(&self, tokens: u32) -> RequestInfo<'static> {
        RequestInfo { meta: self.meta, tokens, next_use: &[] }
    }

    /// Whether a request that has generated so much has nothing more to do.
    pub fn is_over(&self, outputs: u32) -> bool {
        self.ended && outputs >= self.outputs
    }

    fn take(&mut self, generated: &Generated, sampler: &mut Sampler) {
        self.sample.extend(&generated.keys, sampler);
        self.outputs = self.outputs.max(generated.outputs);
    }
}

/// All that any shadow still needs.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// Which of their blocks are followed.
    pub sampler: Sampler,
    /// In the order of arrival.
    line: VecDeque<Arrival>,
    /// The number of the first of them.
    first: Number,
    by_id: HashMap<u64, Number>,
}

impl Arrivals {
    pub fn new(stride: u32) -> Self {
        let sampler = Sampler::new(stride);
        Self { sampler, line: VecDeque::new(), first: 0, by_id: HashMap::new() }
    }

    /// Requests that have not ended.
    pub fn live(&self) -> usize {
        self.by_id.len()
    }

    /// The number of the next that will come.
    pub fn end(&self) -> Number {
        self.first + self.line.len() as Number
    }

    /// The number after the last request that had come by `step`, and the request of that number.
    pub fn line_at(&self, step: u64) -> (Number, Option<&Arrival>) {
        let came = self.line.partition_point(|arrival| arrival.step <= step);
        (self.first + came as Number, self.line.get(came))
    }

    /// Request `number`, unless all are done with it, or it has not come.
    pub fn get(&self, number: Number) -> Option<&Arrival> {
        self.line.get(number.checked_sub(self.first)? as usize)
    }

    fn get_mut(&mut self, number: Number) -> Option<(&mut Arrival, &mut Sampler)> {
        let arrival = self.line.get_mut(number.checked_sub(self.first)? as usize)?;
        Some((arrival, &mut self.sampler))
    }

    /// A request has come, for so many shadows.
    pub fn add(&mut self, arrived: &Arrived, users: usize) {
        let sample = Sample::new(self.end(), &arrived.keys, &mut self.sampler);
        self.by_id.insert(arrived.id, self.end());
        self.line.push_back(Arrival {
            sample,
            step: arrived.step,
            after_rest: arrived.after_rest,
            prompt: arrived.tokens,
            most_outputs: arrived.most_outputs,
            reads: arrived.reads,
            outputs: 0,
            ended: false,
            found: None,
            users,
            meta: arrived.meta,
        });
    }

    /// The engine has begun a request. Its number.
    pub fn begin(&mut self, id: u64, found: u32) -> Option<Number> {
        let number = *self.by_id.get(&id)?;
        let (arrival, _) = self.get_mut(number)?;
        arrival.found.get_or_insert(found);
        Some(number)
    }

    /// The engine has come further with a request.
    pub fn advance(&mut self, generated: &Generated) {
        if let Some(&number) = self.by_id.get(&generated.id)
            && let Some((arrival, sampler)) = self.get_mut(number)
        {
            arrival.take(generated, sampler);
        }
    }

    /// A request has ended.
    pub fn end_one(&mut self, generated: &Generated) {
        if let Some(number) = self.by_id.remove(&generated.id)
            && let Some((arrival, sampler)) = self.get_mut(number)
        {
            arrival.take(generated, sampler);
            arrival.ended = true;
            self.forget();
        }
    }

    /// A shadow is done with a request.
    pub fn leave(&mut self, number: Number) {
        if let Some((arrival, _)) = self.get_mut(number) {
            arrival.users -= 1;
            if arrival.users == 0 {
                arrival.sample = Sample::none();
            }
            self.forget();
        }
    }

    /// Drops requests that no shadow needs.
    fn forget(&mut self) {
        while self.line.front().is_some_and(|first| first.ended && first.users == 0) {
            self.line.pop_front();
            self.first += 1;
        }
    }
}
