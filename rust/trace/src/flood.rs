//! One class of requests comes more often: a tenant's flood.

use hashbrown::HashMap;

use crate::forest::{NO_SESSION, ROOT, Trace, TraceRequest};

/// The copies that one flood has made so far.
struct Copies<'a> {
    of: &'a Trace,
    made: Trace,
    /// The node of each copy that stands for a node of the original.
    nodes: HashMap<(u32, u32), u32>,
    sessions: HashMap<(u32, u32), u32>,
}

impl Trace {
    /// The requests of `class` come `times` times as often: each is followed by copies, spread evenly over the
    /// time until the next one of the class. The n-th copies share with each other what the originals share,
    /// and nothing with any other request: they are other prompts, of other sessions.
    ///
    /// # Errors
    /// A sentence, where there is no such class, or too much comes of it.
    pub fn flooded(&self, class: &str, times: u32) -> Result<Self, String> {
        let Some(at) = self.classes.iter().position(|name| name == class) else {
            return Err(format!("no class {class}"));
        };
        let requests: Vec<usize> =
            (0..self.requests.len()).filter(|&i| usize::from(self.class_of[i]) == at + 1).collect();
        let mut order: Vec<(i64, usize, u32)> = Vec::new();
        order.extend(self.requests.iter().enumerate().map(|(i, r)| (r.timestamp_ms, i, 0)));
        for (place, &i) in requests.iter().enumerate() {
            let from = self.requests[i].timestamp_ms;
            let until = requests.get(place + 1).map_or(from, |&j| self.requests[j].timestamp_ms);
            let copies = 1..times;
            order.extend(
                copies.map(|k| (from + (until - from) * i64::from(k) / i64::from(times), i, k)),
            );
        }
        order.sort_unstable();
        if order.len() >= u32::MAX as usize {
            return Err(format!("more than {} requests", u32::MAX));
        }
        let made = Self {
            requests: Vec::with_capacity(order.len()),
            nodes: Vec::new(),
            class_of: Vec::with_capacity(order.len()),
            ..self.clone()
        };
        let mut copies = Copies { of: self, made, nodes: HashMap::new(), sessions: HashMap::new() };
        for (time, i, copy) in order {
            copies.add(time, i, copy)?;
        }
        Ok(copies.made)
    }
}

impl Copies<'_> {
    /// Request `i`, or its `copy`-th copy.
    fn add(&mut self, timestamp_ms: i64, i: usize, copy: u32) -> Result<(), String> {
        let mut request = TraceRequest { timestamp_ms, ..self.of.requests[i] };
        let chain = self.of.chain(i);
        let start = self.made.nodes.len();
        let mut last = ROOT;
        for &node in &*chain {
            last = if copy == 0 { node } else { self.node(copy, node, last)? };
            if self.of.listed {
                self.made.nodes.push(last);
            }
        }
        request.start = if self.of.listed { start } else { last as usize };
        if copy > 0 && request.session != NO_SESSION {
            request.session = self.session(copy, request.session);
        }
        self.made.class_of.push(self.of.class_of[i]);
        self.made.requests.push(request);
        Ok(())
    }

    fn node(&mut self, copy: u32, node: u32, parent: u32) -> Result<u32, String> {
        let parents = &mut self.made.parents;
        if let Some(&known) = self.nodes.get(&(copy, node)) {
            return Ok(known);
        }
        let fresh = parents.len() as u32;
        if fresh >= ROOT - 1 {
            return Err(format!("more than {fresh} distinct blocks in one trace"));
        }
        parents.push(parent);
        self.nodes.insert((copy, node), fresh);
        Ok(fresh)
    }

    fn session(&mut self, copy: u32, session: u32) -> u32 {
        let sessions = &mut self.made.sessions;
        let id = self.of.sessions[session as usize];
        *self.sessions.entry((copy, session)).or_insert_with(|| {
            // With the highest bit, as the number of a session with a name.
            let mixed = (id ^ u64::from(copy)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            sessions.push((mixed ^ (mixed >> 29)) | 1 << 63);
            sessions.len() as u32 - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::Trace;

    const ROWS: &str = r#"{"timestamp": 0, "input_length": 4, "output_length": 1, "hash_ids": [1, 2], "type": "a", "session_id": 5}
{"timestamp": 10, "input_length": 4, "output_length": 1, "hash_ids": [1, 3], "type": "b"}
{"timestamp": 30, "input_length": 6, "output_length": 2, "hash_ids": [1, 2, 4], "type": "a", "session_id": 5}
"#;

    #[test]
    fn copies_share_what_the_originals_share_and_no_more() {
        let trace = Trace::parse(ROWS.as_bytes(), "t", Some(2)).unwrap();
        let flooded = trace.flooded("a", 3).unwrap();
        let times: Vec<i64> = flooded.requests.iter().map(|r| r.timestamp_ms).collect();
        assert_eq!(times, [0, 10, 10, 20, 30, 30, 30]);
        let chains: Vec<Vec<u32>> = (0..7).map(|i| flooded.chain(i).into_owned()).collect();
        // The original, its first copy, the other class, the second copy, and so again.
        assert_eq!(chains[0], [0, 1]);
        assert_eq!(chains[4], [0, 1, 3]);
        let sorted = |i: usize| flooded.requests[i].session;
        let firsts: std::collections::BTreeSet<u32> = chains.iter().map(|c| c[0]).collect();
        assert_eq!(firsts.len(), 3);
        for (early, late) in [(1, 5), (3, 6)] {
            assert_eq!(chains[early], chains[late][..2], "{chains:?}");
            assert_eq!(sorted(early), sorted(late));
        }
        assert_eq!(flooded.sessions.len(), 3);
        assert_eq!(flooded.class_of, [1, 1, 2, 1, 1, 1, 1]);
        assert_eq!(trace.flooded("a", 1).unwrap().requests, trace.requests);
        assert_eq!(trace.flooded("c", 2).unwrap_err(), "no class c");
    }
}
