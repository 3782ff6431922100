//! What a replay needs to know ahead: how many blocks each request touches in a mode, and when each is touched next.

use kvframe_core::Key;

use crate::forest::Trace;
use crate::replay::node_key;

/// [`ReplayPlan::next_use`] of an access that is its node's last.
pub const NEVER: u32 = u32::MAX;

/// Which blocks of a request count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Every id of the trace, a partial tail too.
    Trace,
    /// Full blocks only, as an engine caches them.
    Engine,
    /// The same, while requests arrive by the clock and pin their blocks until their last token.
    Timed,
}

/// The accesses of a trace in one mode, in order: request after request, each from the root on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayPlan {
    /// Where each request's accesses start; one more entry than requests, the last is `block_accesses`.
    pub offsets: Vec<u64>,
    /// For each access, the index of the next request that touches the node; [`NEVER`] if none does.
    pub next_use: Vec<u32>,
    /// By node, the key that stands for it.
    pub keys: Vec<Key>,
    /// Distinct nodes touched.
    pub unique: u64,
    /// Accesses in all.
    pub block_accesses: u64,
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

    /// Looks through the whole trace once, from its end: time and memory grow with the accesses.
    pub fn plan(&self, mode: Mode) -> ReplayPlan {
        let mut offsets = Vec::with_capacity(self.requests.len() + 1);
        let mut end = 0;
        offsets.push(end);
        for index in 0..self.requests.len() {
            end += u64::from(self.blocks(index, mode));
            offsets.push(end);
        }
        let mut next_use = vec![NEVER; end as usize];
        let mut coming = vec![NEVER; self.parents.len()];
        let mut unique = 0;
        for index in (0..self.requests.len()).rev() {
            let accesses = &mut next_use[offsets[index] as usize..offsets[index + 1] as usize];
            for (access, &node) in accesses.iter_mut().zip(self.chain(index)) {
                *access = std::mem::replace(&mut coming[node as usize], index as u32);
                unique += u64::from(*access == NEVER);
            }
        }
        let keys = (0..self.parents.len() as u32).map(node_key).collect();
        ReplayPlan { offsets, next_use, keys, unique, block_accesses: end }
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
        let plan = Trace::parse(ROWS, "t", Some(2)).unwrap().plan(Mode::Trace);
        assert_eq!(plan.offsets, [0, 3, 4, 7, 7]);
        assert_eq!(plan.next_use, [1, 2, 2, 2, NEVER, NEVER, NEVER]);
        assert_eq!((plan.unique, plan.block_accesses), (3, 7));
    }

    #[test]
    fn engine_mode_counts_full_blocks() {
        let plan = Trace::parse(ROWS, "t", Some(2)).unwrap().plan(Mode::Engine);
        assert_eq!(plan.offsets, [0, 2, 3, 6, 6]);
        assert_eq!(plan.next_use, [1, 2, 2, NEVER, NEVER, NEVER]);
        assert_eq!((plan.unique, plan.block_accesses), (3, 6));
    }
}
