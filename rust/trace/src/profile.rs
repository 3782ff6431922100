//! What a trace could reuse, from one pass that keeps no requests' blocks: the ceiling of hits, by class, by distance and
//! by age, and the whole curve of lru.
//!
//! The distance of a block is how many distinct blocks were used since, itself included: the smallest cache in which lru,
//! which evicts a request's last block first, still has it. A request's blocks that were last used together lie together
//! on lru's stack, so one look-up in a Fenwick tree over requests answers for all of them.

use std::io::Read;

use crate::build::{Builder, Sink};
use crate::error::TraceError;
use crate::forest::{NO_SESSION, Trace};
use crate::load::{TraceDefaults, read_into};
use crate::plan::Mode;

const NEVER: u32 = u32::MAX;
/// Ages are counted by powers of two of a millisecond.
const AGES: usize = 64;

/// Requests of one class, or of none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCount {
    /// Requests.
    pub requests: u64,
    /// Their prompt tokens.
    pub input_tokens: u64,
    /// Those that a cache without a limit has.
    pub hit_tokens: u64,
}

/// See the head of this module. Hits are as in the mode's replay: `engine` counts full blocks, and computes the last token
/// of every prompt.
#[derive(Clone, Debug)]
pub struct Profile {
    mode: Mode,
    /// The last request that used each node.
    last: Vec<u32>,
    /// Fenwick tree over requests: how many nodes each was the last to use.
    tree: Vec<i64>,
    /// Differences of the tokens that become hits at each capacity, in blocks.
    gained: Vec<i64>,
    /// Distinct blocks.
    pub unique: u64,
    /// Blocks asked for.
    pub block_accesses: u64,
    /// Blocks of the longest prompt: lru's curve holds from this capacity on.
    pub longest: u32,
    /// Prompt tokens that a cache without a limit has.
    pub hit_tokens: u64,
    /// Hit tokens whose block was last used by the same session.
    pub same_session: u64,
    /// Hit tokens by age: `ages[n]` of blocks unused for 2^(n-1) to 2^n milliseconds, `ages[0]` for 0.
    pub ages: [u64; AGES],
    /// By class, as [`Trace::class_of`] numbers them; the first is of requests without one.
    pub classes: Vec<ClassCount>,
    /// Requests without a full block, in which nothing can hit.
    pub without_blocks: u64,
}

impl Profile {
    fn new(mode: Mode) -> Self {
        Self {
            mode,
            last: Vec::new(),
            tree: Vec::new(),
            gained: Vec::new(),
            unique: 0,
            block_accesses: 0,
            longest: 0,
            hit_tokens: 0,
            same_session: 0,
            ages: [0; AGES],
            classes: vec![ClassCount::default()],
            without_blocks: 0,
        }
    }

    /// Of a trace in memory.
    #[must_use]
    pub fn of(trace: &Trace, mode: Mode) -> Self {
        let mut profile = Self::new(mode);
        for index in 0..trace.requests.len() {
            profile.add(trace, index, trace.chain(index));
        }
        profile
    }

    /// Of a stream, and the trace without its blocks: [`Trace::nodes`] is empty.
    ///
    /// # Errors
    /// As [`Trace::load`].
    pub fn read(
        raw: impl Read,
        path: &str,
        given: TraceDefaults,
        mode: Mode,
    ) -> Result<(Self, Trace), TraceError> {
        let mut profile = Self::new(mode);
        let builder = Builder::new(path.to_owned(), given).into_sink(&mut profile);
        let trace = read_into(raw, path, builder, given)?;
        Ok((profile, trace))
    }

    /// Tokens that lru hits with each of these capacities, in blocks.
    #[must_use]
    pub fn lru_hits(&self, capacities: &[u64]) -> Vec<u64> {
        let hits = self.curve();
        let most = hits.last().copied().unwrap_or(0);
        capacities.iter().map(|&c| hits.get(c as usize).copied().unwrap_or(most)).collect()
    }

    /// The smallest capacity, in blocks, with which lru hits this share of the ceiling; 0 where nothing hits.
    #[must_use]
    pub fn capacity_for(&self, share: f64) -> u64 {
        let wanted = (self.hit_tokens as f64 * share).ceil() as u64;
        self.curve().partition_point(|&hits| hits < wanted) as u64
    }

    fn curve(&self) -> Vec<u64> {
        let (mut rate, mut hits) = (0, 0);
        let add = |&change: &i64| {
            rate += change;
            hits += rate;
            hits as u64
        };
        self.gained.iter().map(add).collect()
    }

    /// Counts request `index`; `trace` has it and those before it, without their blocks.
    fn add(&mut self, trace: &Trace, index: usize, chain: &[u32]) {
        let (request, size) = (&trace.requests[index], trace.block_size);
        let full = request.input_tokens / size;
        let (used, usable) = match self.mode {
            Mode::Trace => (request.blocks, request.blocks),
            Mode::Engine | Mode::Timed => {
                (request.blocks.min(full), request.input_tokens.saturating_sub(1) / size)
            }
        };
        self.block_accesses += u64::from(used);
        self.longest = self.longest.max(used);
        self.without_blocks += u64::from(used == 0);
        let mut hit_tokens = 0;
        let mut at = 0;
        while at < used as usize {
            let user = self.last_user(chain[at]);
            if user == NEVER {
                break;
            }
            let start = at;
            while at < used as usize && self.last_user(chain[at]) == user {
                self.last[chain[at] as usize] = index as u32;
                at += 1;
            }
            let end = at.min(usable as usize).max(start);
            let newer = self.unique - self.below(user);
            let tokens = self.reuse(newer, start..end, request.input_tokens, size);
            self.change(user, start as i64 - at as i64);
            hit_tokens += tokens;
            let since = request.timestamp_ms.abs_diff(trace.requests[user as usize].timestamp_ms);
            self.ages[(u64::BITS - since.leading_zeros()).min(AGES as u32 - 1) as usize] += tokens;
            let session = trace.requests[user as usize].session;
            if session == request.session && session != NO_SESSION {
                self.same_session += tokens;
            }
        }
        for &node in &chain[at..used as usize] {
            self.last_user(node);
            self.last[node as usize] = index as u32;
            self.unique += 1;
        }
        self.append(used.into());
        self.hit_tokens += hit_tokens;
        let class = usize::from(trace.class_of.get(index).copied().unwrap_or(0));
        if class >= self.classes.len() {
            self.classes.resize(class + 1, ClassCount::default());
        }
        let class = &mut self.classes[class];
        class.requests += 1;
        class.input_tokens += u64::from(request.input_tokens);
        class.hit_tokens += hit_tokens;
    }

    fn last_user(&mut self, node: u32) -> u32 {
        if node as usize >= self.last.len() {
            self.last.resize(node as usize + 1, NEVER);
        }
        self.last[node as usize]
    }

    /// Notes that the blocks at these depths hit with more than `newer` blocks: the first with one more. The tokens.
    fn reuse(&mut self, newer: u64, depths: std::ops::Range<usize>, input: u32, size: u32) -> u64 {
        let most = newer as usize + depths.len() + 2;
        if self.gained.len() < most {
            self.gained.resize(most, 0);
        }
        let mut tokens = 0;
        let tail = (u64::from(input) < depths.end as u64 * u64::from(size)) && !depths.is_empty();
        let whole = depths.len() - usize::from(tail);
        let from = newer as usize + 1;
        self.gained[from] += i64::from(size);
        self.gained[from + whole] -= i64::from(size);
        tokens += whole as u64 * u64::from(size);
        if tail {
            let left = u64::from(input) - (depths.end as u64 - 1) * u64::from(size);
            self.gained[from + whole] += left as i64;
            self.gained[from + whole + 1] -= left as i64;
            tokens += left;
        }
        tokens
    }

    /// Nodes whose last user is request `index` or one before it.
    fn below(&self, index: u32) -> u64 {
        let (mut at, mut sum) = (index as usize + 1, 0);
        while at > 0 {
            sum += self.tree[at - 1];
            at &= at - 1;
        }
        sum as u64
    }

    fn change(&mut self, index: u32, by: i64) {
        let mut at = index as usize + 1;
        while at <= self.tree.len() {
            self.tree[at - 1] += by;
            at += at & at.wrapping_neg();
        }
    }

    fn append(&mut self, nodes: i64) {
        let at = self.tree.len() + 1;
        let (mut from, stop, mut sum) = (at - 1, at - (at & at.wrapping_neg()), nodes);
        while from > stop {
            sum += self.tree[from - 1];
            from &= from - 1;
        }
        self.tree.push(sum);
    }
}

impl Sink for Profile {
    fn request(&mut self, trace: &Trace, chain: &[u32]) -> Result<(), String> {
        self.add(trace, trace.requests.len() - 1, chain);
        Ok(())
    }
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
