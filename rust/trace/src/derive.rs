//! Traces made of others: some of the requests, other times, larger blocks.

use crate::forest::{ROOT, Trace, TraceRequest};

impl Trace {
    /// The requests at `indices`, which ascend, with all nodes under their numbers.
    ///
    /// # Panics
    /// If an index is not below `requests.len()`.
    #[must_use]
    pub fn subset(&self, indices: &[usize]) -> Self {
        let mut subset = Self { requests: Vec::new(), nodes: Vec::new(), ..self.clone() };
        subset.class_of.clear();
        for &index in indices {
            let start = subset.nodes.len();
            subset.nodes.extend_from_slice(self.chain(index));
            subset.requests.push(TraceRequest { start, ..self.requests[index] });
            subset.class_of.extend(self.class_of.get(index));
        }
        subset
    }

    /// The same requests at other times, in milliseconds: one each, none before the one above.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the times.
    pub fn retimed(&self, timestamps_ms: &[i64]) -> Result<Self, String> {
        let (have, want) = (timestamps_ms.len(), self.requests.len());
        if have != want {
            return Err(format!("{have} times for {want} requests"));
        }
        if !timestamps_ms.is_sorted() {
            return Err("times must ascend".to_owned());
        }
        let mut retimed = self.clone();
        for (request, &at) in retimed.requests.iter_mut().zip(timestamps_ms) {
            request.timestamp_ms = at;
        }
        Ok(retimed)
    }

    /// The same requests in blocks of `factor` times as many tokens. A last block that is not full
    /// any more has a node only where the last block of this trace has one.
    ///
    /// # Errors
    /// A sentence, where such blocks are too large.
    pub fn coarsened(&self, factor: u32) -> Result<Self, String> {
        let size =
            factor.checked_mul(self.block_size).filter(|&s| s > 0 && s <= crate::MAX_BLOCK_SIZE);
        let Some(block_size) = size else {
            return Err(format!(
                "blocks of {factor} times {} tokens are too large",
                self.block_size
            ));
        };
        let mut coarse =
            Self { block_size, nodes: Vec::new(), parents: Vec::new(), ..self.clone() };
        let mut number = vec![ROOT; self.parents.len()];
        for (index, request) in coarse.requests.iter_mut().enumerate() {
            request.start = coarse.nodes.len();
            let mut parent = ROOT;
            for blocks in self.chain(index).chunks(factor as usize) {
                let whole = blocks.len() == factor as usize;
                let tail = u64::from(request.blocks) * u64::from(self.block_size)
                    >= u64::from(request.input_tokens);
                let Some(&last) = blocks.last().filter(|_| whole || tail) else { break };
                let known = &mut number[last as usize];
                if *known == ROOT {
                    *known = coarse.parents.len() as u32;
                    coarse.parents.push(parent);
                }
                parent = *known;
                coarse.nodes.push(parent);
            }
            request.blocks = (coarse.nodes.len() - request.start) as u32;
        }
        Ok(coarse)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Mode, Trace};

    const ROWS: &[u8] =
        br#"{"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [1, 2, 3, 4, 5]}
{"timestamp": 5, "input_length": 8, "output_length": 1, "hash_ids": [1, 2, 3, 6]}
{"timestamp": 9, "input_length": 6, "output_length": 1, "hash_ids": [1, 2, 3]}
"#;

    fn trace() -> Trace {
        Trace::parse(ROWS, "t", Some(2)).unwrap()
    }

    #[test]
    fn larger_blocks_part_where_any_of_theirs_do() {
        let coarse = trace().coarsened(2).unwrap();
        assert_eq!(coarse.block_size, 4);
        assert_eq!(coarse.chain(0), [0, 1, 2]);
        assert_eq!(coarse.chain(1), [0, 3]);
        assert_eq!(coarse.chain(2), [0, 4]); // half a block, which the first two have otherwise
        assert_eq!(coarse.parents, [super::ROOT, 0, 1, 0, 0]);
        let full: Vec<u32> = (0..3).map(|i| coarse.blocks(i, Mode::Engine)).collect();
        assert_eq!(full, [2, 2, 1]);
        assert_eq!(trace().coarsened(1).unwrap().nodes, trace().nodes);
        assert!(trace().coarsened(1 << 20).is_err());
        assert!(trace().coarsened(0).is_err());
    }

    #[test]
    fn a_subset_keeps_whole_requests() {
        let some = trace().subset(&[0, 2]);
        assert_eq!((some.chain(0), some.chain(1)), (trace().chain(0), trace().chain(2)));
        assert_eq!(some.requests[1].timestamp_ms, 9);
    }

    #[test]
    fn times_ascend() {
        let later = trace().retimed(&[1, 1, 7]).unwrap();
        assert_eq!(later.requests.iter().map(|r| r.timestamp_ms).collect::<Vec<_>>(), [1, 1, 7]);
        assert!(trace().retimed(&[1, 2]).unwrap_err().contains("2 times for 3 requests"));
        assert!(trace().retimed(&[3, 2, 4]).unwrap_err().contains("ascend"));
    }
}
