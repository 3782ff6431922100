//! What a replay needs to know ahead: how many blocks each request touches in a mode, and when each is touched next.

use std::sync::OnceLock;

use kvframe_core::Key;

use crate::forest::Trace;
use crate::replay::node_key;

/// [`ReplayPlan::next_uses`] of an access that is its node's last.
pub const NEVER: u32 = u32::MAX;

/// Which blocks of a request count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Every id of the trace, a partial tail too.
    Trace,
    /// Full blocks only, as an engine caches them.
    Engine,
    /// As an engine, while requests arrive by the clock and pin their blocks until their last token.
    Timed,
}

/// The accesses of a trace in one mode, in order: request after request, each from the root on.
#[derive(Clone, Debug)]
pub struct ReplayPlan {
    /// Where each request's accesses start; one more entry than requests, the last is `block_accesses`.
    pub offsets: Vec<u64>,
    /// By node, the key that stands for it; empty where there are so many that each is made when it is needed.
    pub keys: Vec<Key>,
    /// Distinct nodes touched.
    pub unique: u64,
    /// Accesses in all.
    pub block_accesses: u64,
    mode: Mode,
    /// Made when a policy asks for it, for it takes 4 bytes an access.
    next_use: OnceLock<Vec<u32>>,
}

/// Most nodes of which a plan keeps the keys, 16 bytes each.
const KEPT_KEYS: usize = 1 << 24;

impl ReplayPlan {
    /// For each access of `trace`, of which this is the plan, the index of the next request that can find the node;
    /// [`NEVER`] if none does. An engine computes a prompt's last token, so that a block which ends with it is
    /// not found there. Made once, from the trace's end: 4 bytes an access.
    pub fn next_uses(&self, trace: &Trace) -> &[u32] {
        self.next_use.get_or_init(|| {
            let mut next_use = vec![NEVER; self.block_accesses as usize];
            let mut coming = vec![NEVER; trace.parents.len()];
            for index in (0..trace.requests.len()).rev() {
                let places = self.offsets[index] as usize..self.offsets[index + 1] as usize;
                let nodes = trace.prefix(index, trace.blocks(index, self.mode) as usize);
                let findable = trace.findable(index, self.mode) as usize;
                for (at, (next, &node)) in next_use[places].iter_mut().zip(&*nodes).enumerate() {
                    *next = coming[node as usize];
                    if at < findable {
                        coming[node as usize] = index as u32;
                    }
                }
            }
            next_use
        })
    }

    /// Adds the keys of these nodes, a chain.
    pub(crate) fn extend_keys(&self, mut nodes: &[u32], keys: &mut Vec<Key>) {
        if self.keys.is_empty() {
            return keys.extend(nodes.iter().map(|&node| node_key(node)));
        }
        keys.reserve(nodes.len());
        while let Some(&node) = nodes.first() {
            let node = node as usize;
            // Numbers rise along a chain: eight that end seven behind the first are all those between.
            if nodes.get(7).is_some_and(|&eighth| eighth as usize == node + 7) {
                keys.extend_from_slice(&self.keys[node..node + 8]);
                nodes = &nodes[8..];
            } else {
                keys.push(self.keys[node]);
                nodes = &nodes[1..];
            }
        }
    }
}

impl Trace {
    /// How many of request `index`'s nodes count in `mode`.
    ///
    /// # Panics
    /// If `index` is not below `requests.len()`.
    pub fn blocks(&self, index: usize, mode: Mode) -> u32 {
        let request = &self.requests[index];
        match mode {
            Mode::Trace => request.blocks,
            Mode::Engine | Mode::Timed => {
                request.blocks.min(request.input_tokens / self.block_size)
            }
        }
    }

    /// How many of them a hit can cover.
    fn findable(&self, index: usize, mode: Mode) -> u32 {
        let blocks = self.blocks(index, mode);
        match mode {
            Mode::Trace => blocks,
            Mode::Engine | Mode::Timed => {
                blocks.min(self.requests[index].input_tokens.saturating_sub(1) / self.block_size)
            }
        }
    }

    /// Looks through the whole trace once.
    pub fn plan(&self, mode: Mode) -> ReplayPlan {
        let mut offsets = Vec::with_capacity(self.requests.len() + 1);
        let mut end = 0;
        offsets.push(end);
        let mut seen = vec![0_u64; self.parents.len().div_ceil(64)];
        let mut unique = 0;
        for index in 0..self.requests.len() {
            let blocks = self.blocks(index, mode);
            end += u64::from(blocks);
            offsets.push(end);
            // Where a block was seen, so were all before it.
            for &node in self.prefix(index, blocks as usize).iter().rev() {
                let (word, bit) = (&mut seen[node as usize / 64], 1 << (node % 64));
                if *word & bit != 0 {
                    break;
                }
                *word |= bit;
                unique += 1;
            }
        }
        let nodes = self.parents.len();
        let keys =
            if nodes > KEPT_KEYS { Vec::new() } else { (0..nodes as u32).map(node_key).collect() };
        ReplayPlan { offsets, keys, unique, block_accesses: end, mode, next_use: OnceLock::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &[u8] =
        br#"{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [1, 2, 3]}
{"timestamp": 0, "input_length": 3, "output_length": 1, "hash_ids": [1]}
{"timestamp": 1, "input_length": 6, "output_length": 1, "hash_ids": [1, 2, 3]}
{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": []}
"#;

    #[test]
    fn trace_mode_counts_every_id() {
        let trace = Trace::parse(ROWS, "t", Some(2)).unwrap();
        let plan = trace.plan(Mode::Trace);
        assert_eq!(plan.offsets, [0, 3, 4, 7, 7]);
        assert_eq!(plan.next_uses(&trace), [1, 2, 2, 2, NEVER, NEVER, NEVER]);
        assert_eq!((plan.unique, plan.block_accesses), (3, 7));
    }

    #[test]
    fn engine_mode_counts_full_blocks() {
        let trace = Trace::parse(ROWS, "t", Some(2)).unwrap();
        let plan = trace.plan(Mode::Engine);
        assert_eq!(plan.offsets, [0, 2, 3, 6, 6]);
        assert_eq!(plan.next_uses(&trace), [1, 2, 2, NEVER, NEVER, NEVER]);
        assert_eq!((plan.unique, plan.block_accesses), (3, 6));
    }

    #[test]
    fn a_block_that_ends_with_a_prompt_is_not_found_there() {
        let rows = br#"{"timestamp": 0, "input_length": 4, "output_length": 1, "hash_ids": [1, 2]}
{"timestamp": 0, "input_length": 4, "output_length": 1, "hash_ids": [1, 2]}
{"timestamp": 1, "input_length": 6, "output_length": 1, "hash_ids": [1, 2, 3]}
"#;
        let trace = Trace::parse(rows, "t", Some(2)).unwrap();
        let next_uses = |mode| trace.plan(mode).next_uses(&trace).to_vec();
        assert_eq!(next_uses(Mode::Engine), [1, 2, 2, 2, NEVER, NEVER, NEVER]);
        assert_eq!(next_uses(Mode::Trace), [1, 1, 2, 2, NEVER, NEVER, NEVER]);
    }
}
