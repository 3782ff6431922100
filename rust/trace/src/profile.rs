//! What a trace could reuse, from one pass that keeps no requests' blocks: the ceiling of hits, by class, by distance and
//! by age, and the whole curve of lru.
//!
//! The distance of a block is how many distinct blocks were used since, itself included: the smallest cache in which lru,
//! which evicts a request's last block first, still has it. A request's blocks that were last used together lie together
//! on lru's stack, so one look-up in a Fenwick tree over requests answers for all of them.

use std::collections::VecDeque;
use std::io::Read;
use std::ops::Range;

use hashbrown::HashMap;

use crate::build::{Builder, Sink};
use crate::error::TraceError;
use crate::forest::{NO_SESSION, ROOT, Trace};
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
    /// Fenwick tree over requests: how many nodes each was the last to use. Sums are below 2^32, parts of them wrap.
    tree: Vec<u32>,
    /// Differences of the number of whole blocks that become hits at each capacity, in blocks: a request changes one
    /// place by one at most.
    gained: Vec<i32>,
    /// Tokens of partial blocks that become hits at a capacity.
    tails: HashMap<usize, u64>,
    block_size: u32,
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
    /// Requests whose blocks are all those of an earlier one, and no others: the same prompt again.
    pub repeated: u64,
    /// What hit in the later half of the requests, as far as they go.
    late: VecDeque<Reuse>,
    /// How often each node was used; given up where there are too many.
    uses: Option<Vec<u32>>,
}

/// Blocks of a request that hit from a capacity on: whole blocks, of which each further block of capacity
/// adds one, and then a partial one.
#[derive(Clone, Copy, Debug)]
struct Reuse {
    request: u32,
    from: u32,
    blocks: u32,
    tail_tokens: u32,
}

/// Most nodes of which uses and parents are kept.
pub(crate) const COUNTED: usize = 1 << 24;

/// A prefix that several requests have, and beyond which they part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPrefix {
    /// Its length in tokens.
    pub tokens: u64,
    /// Requests that have it.
    pub requests: u32,
}

impl SharedPrefix {
    /// Tokens that all but the first of them need not compute.
    #[must_use]
    pub fn reuse_tokens(&self) -> u64 {
        self.tokens * u64::from(self.requests - 1)
    }
}

impl Profile {
    fn new(mode: Mode) -> Self {
        Self {
            mode,
            last: Vec::new(),
            tree: Vec::new(),
            gained: Vec::new(),
            tails: HashMap::new(),
            block_size: 0,
            unique: 0,
            block_accesses: 0,
            longest: 0,
            hit_tokens: 0,
            same_session: 0,
            ages: [0; AGES],
            classes: vec![ClassCount::default()],
            without_blocks: 0,
            repeated: 0,
            late: VecDeque::new(),
            uses: Some(Vec::new()),
        }
    }

    /// Of a trace in memory.
    #[must_use]
    pub fn of(trace: &Trace, mode: Mode) -> Self {
        let mut profile = Self::new(mode);
        for index in 0..trace.requests.len() {
            profile.add(trace, index, &trace.chain(index));
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
        let mut hits = vec![self.hit_tokens; capacities.len()];
        let mut wanted: Vec<usize> = (0..capacities.len()).collect();
        wanted.sort_by_key(|&at| capacities[at]);
        let mut wanted = wanted.into_iter().peekable();
        for (capacity, tokens) in self.curve().enumerate() {
            while let Some(at) = wanted.next_if(|&at| capacities[at] == capacity as u64) {
                hits[at] = tokens;
            }
            if wanted.peek().is_none() {
                break;
            }
        }
        hits
    }

    /// [`Self::lru_hits`] of the later half of the requests, those with index n / 2 and above.
    #[must_use]
    pub fn lru_hits_last_half(&self, capacities: &[u64]) -> Vec<u64> {
        let size = u64::from(self.block_size);
        let hits = |&capacity: &u64| {
            let tokens = |reuse: &Reuse| {
                let room = (capacity + 1).saturating_sub(reuse.from.into());
                let tail = if room > reuse.blocks.into() { reuse.tail_tokens.into() } else { 0 };
                room.min(reuse.blocks.into()) * size + tail
            };
            self.late.iter().map(tokens).sum()
        };
        capacities.iter().map(hits).collect()
    }

    /// Prefixes that several requests share, each as far as all of them have it: at most `n` of those that save most and
    /// `n` of those that most requests have. `None` where there are more than 2^24 distinct blocks, or none are known.
    #[must_use]
    pub fn shared_prefixes(&self, trace: &Trace, n: usize) -> Option<[Vec<SharedPrefix>; 2]> {
        let uses = self.uses.as_ref().filter(|uses| uses.len() <= trace.parents.len())?;
        let mut depths = vec![0_u32; uses.len()];
        let mut goes_on = vec![false; uses.len()];
        for (node, &used) in uses.iter().enumerate() {
            let parent = trace.parents[node];
            depths[node] = if parent == ROOT { 1 } else { depths[parent as usize] + 1 };
            if parent != ROOT && uses[parent as usize] == used {
                goes_on[parent as usize] = true;
            }
        }
        let ends = (0..uses.len()).filter(|&node| uses[node] > 1 && !goes_on[node]);
        let size = u64::from(self.block_size);
        let mut found: Vec<SharedPrefix> = ends
            .map(|node| SharedPrefix {
                tokens: u64::from(depths[node]) * size,
                requests: uses[node],
            })
            .collect();
        let mut most = |key: fn(&SharedPrefix) -> (u64, u64)| {
            found.sort_by_key(|prefix| std::cmp::Reverse(key(prefix)));
            found.iter().copied().take(n).collect()
        };
        Some([
            most(|prefix| (prefix.reuse_tokens(), prefix.tokens)),
            most(|prefix| (prefix.requests.into(), prefix.tokens)),
        ])
    }

    /// The smallest capacity, in blocks, with which lru hits this share of the ceiling; 0 where nothing hits.
    #[must_use]
    pub fn capacity_for(&self, share: f64) -> u64 {
        let wanted = (self.hit_tokens as f64 * share).ceil() as u64;
        self.curve().take_while(|&hits| hits < wanted).count() as u64
    }

    /// Tokens that lru hits with no block, one, two and so on, until it hits all that it can.
    fn curve(&self) -> impl Iterator<Item = u64> + '_ {
        let (mut blocks, mut hits) = (0_i64, 0_u64);
        self.gained.iter().enumerate().map(move |(capacity, &change)| {
            blocks += i64::from(change);
            hits += blocks as u64 * u64::from(self.block_size);
            if !self.tails.is_empty() {
                hits += self.tails.get(&capacity).copied().unwrap_or(0);
            }
            hits
        })
    }

    /// Counts request `index`; `trace` has it and those before it, without their blocks.
    fn add(&mut self, trace: &Trace, index: usize, chain: &[u32]) {
        let (request, size) = (&trace.requests[index], trace.block_size);
        self.block_size = size;
        let used = trace.blocks(index, self.mode);
        let usable = match self.mode {
            Mode::Trace => used,
            Mode::Engine | Mode::Timed => request.input_tokens.saturating_sub(1) / size,
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
            let again = start == 0 && at == used as usize;
            self.repeated += u64::from(again && trace.blocks(user as usize, self.mode) == used);
            let end = at.min(usable as usize).max(start);
            let newer = self.unique - self.below(user);
            let tokens = self.reuse(newer, start..end, request.input_tokens, index);
            self.change(user, (at - start) as u32);
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
        self.append(used);
        let half = (index as u32).div_ceil(2);
        while self.late.front().is_some_and(|reuse| reuse.request < half) {
            self.late.pop_front();
        }
        self.count_uses(&chain[..used as usize]);
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

    fn count_uses(&mut self, nodes: &[u32]) {
        let Some(uses) = &mut self.uses else { return };
        for &node in nodes {
            if node as usize >= uses.len() {
                uses.resize(node as usize + 1, 0);
            }
            uses[node as usize] += 1;
        }
        if uses.len() > COUNTED {
            self.uses = None;
        }
    }

    fn last_user(&mut self, node: u32) -> u32 {
        if node as usize >= self.last.len() {
            self.last.resize(node as usize + 1, NEVER);
        }
        self.last[node as usize]
    }

    /// Notes that the blocks at these depths hit in a cache of more than `newer` blocks: the first with one
    /// block more, the next with two, and so on. Returns their tokens.
    fn reuse(&mut self, newer: u64, depths: Range<usize>, input: u32, index: usize) -> u64 {
        let size = self.block_size;
        let most = newer as usize + depths.len() + 2;
        if self.gained.len() < most {
            self.gained.resize(most, 0);
        }
        let mut left = 0;
        let tail = (u64::from(input) < depths.end as u64 * u64::from(size)) && !depths.is_empty();
        let whole = depths.len() - usize::from(tail);
        let from = newer as usize + 1;
        self.gained[from] += 1;
        self.gained[from + whole] -= 1;
        if tail {
            left = u64::from(input) - (depths.end as u64 - 1) * u64::from(size);
            *self.tails.entry(from + whole).or_default() += left;
        }
        let tokens = whole as u64 * u64::from(size) + left;
        if tokens > 0 {
            self.late.push_back(Reuse {
                request: index as u32,
                from: from as u32,
                blocks: whole as u32,
                tail_tokens: left as u32,
            });
        }
        tokens
    }

    /// The number of nodes that were last used by request `index` or an earlier one.
    fn below(&self, index: u32) -> u64 {
        let (mut at, mut sum) = (index as usize + 1, 0_u32);
        while at > 0 {
            sum = sum.wrapping_add(self.tree[at - 1]);
            at &= at - 1;
        }
        sum.into()
    }

    /// Request `index` is no longer the last user of `nodes` nodes.
    fn change(&mut self, index: u32, nodes: u32) {
        let mut at = index as usize + 1;
        while at <= self.tree.len() {
            self.tree[at - 1] = self.tree[at - 1].wrapping_sub(nodes);
            at += at & at.wrapping_neg();
        }
    }

    fn append(&mut self, nodes: u32) {
        let at = self.tree.len() + 1;
        let (mut from, stop, mut sum) = (at - 1, at - (at & at.wrapping_neg()), nodes);
        while from > stop {
            sum = sum.wrapping_add(self.tree[from - 1]);
            from &= from - 1;
        }
        self.tree.push(sum);
    }
}

impl Sink for Profile {
    fn request(&mut self, trace: &Trace, index: usize, chain: &[u32]) -> Result<(), String> {
        self.add(trace, index, chain);
        Ok(())
    }
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
