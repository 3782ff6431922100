//! Traces made of others: some of the requests, other times, larger blocks.

use crate::forest::{NO_SESSION, ROOT, Trace};

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
            let mut request = self.requests[index];
            if self.listed {
                request.start = subset.nodes.len();
                subset.nodes.extend_from_slice(&self.chain(index));
            }
            subset.requests.push(request);
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

    /// Puts the requests in order of time; those of equal times keep theirs. Nodes and sessions are numbered by first
    /// appearance, so they get other numbers.
    pub(crate) fn sort_by_time(&mut self) {
        if self.requests.is_sorted_by_key(|request| request.timestamp_ms) {
            return;
        }
        let mut order: Vec<u32> = (0..self.requests.len() as u32).collect();
        order.sort_by_key(|&index| self.requests[index as usize].timestamp_ms);
        let mut sorted = Self {
            requests: Vec::with_capacity(order.len()),
            nodes: Vec::with_capacity(self.nodes.len()),
            parents: Vec::with_capacity(self.parents.len()),
            sessions: Vec::with_capacity(self.sessions.len()),
            class_of: Vec::with_capacity(self.class_of.len()),
            name: std::mem::take(&mut self.name),
            source: std::mem::take(&mut self.source),
            licence: std::mem::take(&mut self.licence),
            classes: std::mem::take(&mut self.classes),
            ..*self
        };
        let mut number = vec![ROOT; self.parents.len()];
        let mut session_number = vec![NO_SESSION; self.sessions.len()];
        for &index in &order {
            let index = index as usize;
            let mut request = self.requests[index];
            request.start = sorted.nodes.len();
            let mut parent = ROOT;
            for &node in &*self.chain(index) {
                let known = &mut number[node as usize];
                if *known == ROOT {
                    *known = sorted.parents.len() as u32;
                    sorted.parents.push(parent);
                }
                parent = *known;
                if self.listed {
                    sorted.nodes.push(parent);
                }
            }
            if !self.listed {
                request.start = parent as usize;
            }
            if request.session != NO_SESSION {
                let known = &mut session_number[request.session as usize];
                if *known == NO_SESSION {
                    *known = sorted.sessions.len() as u32;
                    sorted.sessions.push(self.sessions[request.session as usize]);
                }
                request.session = *known;
            }
            sorted.class_of.extend(self.class_of.get(index));
            sorted.requests.push(request);
        }
        *self = sorted;
    }

    /// The same requests in blocks of `factor` times as many tokens. If a request's last block is no longer
    /// full, it has a node only if the last block of this trace has one.
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
            let (mut parent, mut made) = (ROOT, 0);
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
                made += 1;
                if self.listed {
                    coarse.nodes.push(parent);
                }
            }
            request.blocks = made;
            if !self.listed {
                request.start = parent as usize;
            }
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
        assert_eq!(*coarse.chain(0), [0, 1, 2]);
        assert_eq!(*coarse.chain(1), [0, 3]);
        assert_eq!(*coarse.chain(2), [0, 4]); // half a block, which the first two have otherwise
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
    fn sorted_as_if_the_rows_had_been() {
        let rows = [
            r#"{"timestamp": 5, "input_length": 8, "output_length": 1, "hash_ids": [1, 2, 3, 6], "session_id": "b", "type": "x"}"#,
            r#"{"timestamp": 9.5, "input_length": 6, "output_length": 1, "hash_ids": [4, 2, 8]}"#,
            r#"{"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [1, 2, 7, 4, 5], "session_id": 3}"#,
            r#"{"timestamp": 5, "input_length": 6, "output_length": 2, "hash_ids": [1, 2, 3], "session_id": "b"}"#,
        ];
        let given = crate::TraceDefaults { block_size: Some(2), ..Default::default() };
        let (text, in_order) = (rows.join("\n"), [2, 0, 3, 1].map(|at| rows[at]).join("\n"));
        assert!(Trace::parse_as(text.as_bytes(), "t", given).is_err());
        let sort = crate::TraceDefaults { sort: true, ..given };
        let sorted = Trace::parse_as(text.as_bytes(), "t", sort).unwrap();
        let plain = Trace::parse_as(in_order.as_bytes(), "t", given).unwrap();
        assert_eq!(sorted.requests, plain.requests);
        assert_eq!((&sorted.nodes, &sorted.parents), (&plain.nodes, &plain.parents));
        assert_eq!((&sorted.sessions, &sorted.class_of), (&plain.sessions, &plain.class_of));
        let (mut one, mut other) = (Vec::new(), Vec::new());
        crate::rewrite_rows(text.as_bytes(), "t", sort, &mut one).unwrap();
        crate::rewrite_rows(in_order.as_bytes(), "t", given, &mut other).unwrap();
        assert_eq!(String::from_utf8(one), String::from_utf8(other));
        let read = |text: &str, given| {
            crate::Profile::read(text.as_bytes(), "t", given, Mode::Engine).unwrap().0
        };
        let (sorted, plain) = (read(&text, sort), read(&in_order, given));
        assert_eq!(sorted.hit_tokens, plain.hit_tokens);
        assert_eq!(sorted.lru_hits(&[3, 5, 9]), plain.lru_hits(&[3, 5, 9]));
    }

    #[test]
    fn times_ascend() {
        let later = trace().retimed(&[1, 1, 7]).unwrap();
        assert_eq!(later.requests.iter().map(|r| r.timestamp_ms).collect::<Vec<_>>(), [1, 1, 7]);
        assert!(trace().retimed(&[1, 2]).unwrap_err().contains("2 times for 3 requests"));
        assert!(trace().retimed(&[3, 2, 4]).unwrap_err().contains("ascend"));
    }
}
