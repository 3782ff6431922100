//! Builds a [`Trace`] row by row: the checks every reader shares, and the interning of prefix nodes.

use crate::forest::{DEFAULT_BLOCK_SIZE, MAX_BLOCK_SIZE, ROOT, Trace, TraceRequest};
use crate::intern::Interner;
use crate::load::TraceDefaults;
use crate::profile::COUNTED;
use crate::time::{Stamp, TimeUnit};

/// What a reader knows of a request before its blocks are interned.
pub(crate) struct Head {
    pub timestamp_ms: i64,
    pub input_tokens: u32,
    pub output_tokens: u32,
    pub session: u32,
    /// Number of its class in [`Trace::classes`], from 1; 0 where the row names none.
    pub class: u8,
}

/// What takes the requests of a trace one by one, so that the trace itself need not be kept.
pub(crate) trait Sink {
    /// Request `index` of `trace`, with its nodes from the root on.
    fn request(&mut self, trace: &Trace, index: usize, chain: &[u32]) -> Result<(), String>;
}

/// A trace under construction. Errors are the `what` of a [`TraceError`](crate::TraceError); the reader adds file and line.
pub(crate) struct Builder<'a> {
    pub trace: Trace,
    pub block_size_given: bool,
    /// The unit that the caller says times are in.
    pub time_unit: Option<TimeUnit>,
    fractions: bool,
    interner: Interner,
    sink: Option<&'a mut dyn Sink>,
    /// Put the requests in order of time once all are there.
    sort: bool,
    /// Whether rows refer to nodes of those above.
    refers: bool,
    keeps_parents: bool,
    max_listed: usize,
}

/// The most nodes that are listed request by request, at 4 bytes each. Beyond that, chains are read from the
/// parents.
const MAX_LISTED: usize = 1 << 26;

impl<'a> Builder<'a> {
    pub fn new(name: String, given: TraceDefaults) -> Self {
        let TraceDefaults { block_size, time_unit, sort, .. } = given;
        Self {
            trace: Trace {
                name,
                source: String::new(),
                licence: String::new(),
                block_size: block_size.unwrap_or(DEFAULT_BLOCK_SIZE),
                requests: Vec::new(),
                nodes: Vec::new(),
                listed: true,
                parents: Vec::new(),
                sessions: Vec::new(),
                classes: Vec::new(),
                class_of: Vec::new(),
                ids_repeat: false,
                bytes: 0,
                parse_seconds: 0.0,
                time_unit: TimeUnit::default(),
                unit_in_doubt: false,
            },
            block_size_given: block_size.is_some(),
            time_unit,
            fractions: false,
            interner: Interner::default(),
            sink: None,
            sort,
            refers: false,
            keeps_parents: true,
            max_listed: MAX_LISTED,
        }
    }

    /// Takes the row's own block size. The first row's sets that of the trace; a later row's must
    /// agree with it.
    pub fn row_block_size(&mut self, block_size: Option<u32>) -> Result<(), String> {
        let Some(block_size) = block_size else {
            return Ok(());
        };
        check_block_size(block_size)?;
        if self.trace.requests.is_empty() {
            self.trace.block_size = block_size;
            self.block_size_given = true;
        } else if block_size != self.trace.block_size {
            let above = self.trace.block_size;
            return Err(format!(
                "block_size = {block_size}: the rows above have {above}, and a trace has one block size"
            ));
        }
        Ok(())
    }

    /// Notes the unit of a row's time. A unit that follows from the row's form alone is in doubt if
    /// the numbers contradict it: milliseconds seldom have fractions, and seconds are seldom whole
    /// in every row.
    pub fn time_of(&mut self, unit: TimeUnit, by_form: bool, stamp: Stamp) {
        self.fractions |= stamp.has_fraction();
        self.trace.time_unit = unit;
        self.trace.unit_in_doubt = by_form && self.fractions != (unit == TimeUnit::Seconds);
    }

    /// Adds the request whose blocks have these raw ids, from the root on.
    pub fn push_raw(&mut self, head: &Head, ids: &[u64]) -> Result<(), String> {
        self.check(head, ids.len(), ("hash_ids has", "ids"))?;
        let start = self.trace.nodes.len();
        let mut parent = ROOT;
        for &id in ids {
            let (node, is_new) = self.interner.intern(parent, id)?;
            if is_new && self.keeps_parents {
                self.trace.parents.push(parent);
            }
            self.trace.nodes.push(node);
            parent = node;
        }
        self.push(head, start)
    }

    /// Adds the request that shares the first `shared` nodes of request `from` and goes on with `new` nodes of its own.
    pub fn push_shared(
        &mut self,
        head: &Head,
        from: usize,
        shared: usize,
        new: usize,
    ) -> Result<(), String> {
        self.check(head, shared.saturating_add(new), ("the row has", "blocks"))?;
        let start = self.trace.nodes.len();
        self.refers = true;
        if shared > 0 {
            let nodes = self.trace.prefix(from, shared).into_owned();
            self.trace.nodes.extend(nodes);
        }
        for _ in 0..new {
            let node = self.interner.add()?;
            self.trace.parents.push(self.trace.nodes[start..].last().copied().unwrap_or(ROOT));
            self.trace.nodes.push(node);
        }
        self.push(head, start)
    }

    fn push(&mut self, head: &Head, start: usize) -> Result<(), String> {
        self.trace.requests.push(TraceRequest {
            timestamp_ms: head.timestamp_ms,
            input_tokens: head.input_tokens,
            output_tokens: head.output_tokens,
            session: head.session,
            start,
            blocks: (self.trace.nodes.len() - start) as u32,
        });
        if head.class != 0 || !self.trace.class_of.is_empty() {
            self.trace.class_of.resize(self.trace.requests.len() - 1, 0);
            self.trace.class_of.push(head.class);
        }
        let index = self.trace.requests.len() - 1;
        if !self.sort
            && let Some(sink) = &mut self.sink
        {
            sink.request(&self.trace, index, &self.trace.nodes[start..])?;
        }
        if !self.trace.listed {
            self.trace.requests[index].start = self.last_node();
            self.trace.nodes.clear();
            self.forget_parents();
        } else if self.trace.nodes.len() > self.max_listed {
            self.unlist();
        }
        Ok(())
    }

    fn last_node(&self) -> usize {
        self.trace.nodes.last().copied().unwrap_or(ROOT) as usize
    }

    /// Gives up the list of nodes.
    fn unlist(&mut self) {
        let nodes = std::mem::take(&mut self.trace.nodes);
        for request in &mut self.trace.requests {
            let end = request.start + request.blocks as usize;
            request.start = nodes.get(end.wrapping_sub(1)).copied().unwrap_or(ROOT) as usize;
        }
        self.trace.listed = false;
    }

    /// Passes every request to `sink` and lists no nodes. Parents are kept while they are few, while rows of
    /// the compact form refer to them, and while requests still have to be sorted.
    pub fn into_sink(mut self, sink: &'a mut dyn Sink) -> Self {
        self.sink = Some(sink);
        self.trace.listed = false;
        self
    }

    /// Gives up the parents of nodes where there are many and nothing needs them.
    fn forget_parents(&mut self) {
        let needed = self.sink.is_none() || self.sort || self.refers;
        if !needed && self.trace.parents.len() > COUNTED {
            self.trace.parents = Vec::new();
            self.keeps_parents = false;
        }
    }

    /// The number of a class, from 1; 0 where there are more than 255.
    pub fn class(&mut self, name: &str) -> u8 {
        let classes = &mut self.trace.classes;
        let at = classes.iter().position(|known| known == name).unwrap_or_else(|| {
            classes.push(name.to_owned());
            classes.len() - 1
        });
        if at >= usize::from(u8::MAX) {
            classes.truncate(usize::from(u8::MAX));
            return 0;
        }
        at as u8 + 1
    }

    /// The trace, with what was noted while its rows were read.
    ///
    /// # Errors
    /// What the sink says.
    pub fn finish(self) -> Result<Trace, String> {
        let Self { mut trace, interner, sink, sort, .. } = self;
        trace.ids_repeat = interner.repeats();
        drop(interner);
        if sort {
            trace.sort_by_time();
            if let Some(sink) = sink {
                for index in 0..trace.requests.len() {
                    sink.request(&trace, index, &trace.chain(index))?;
                }
            }
        }
        Ok(trace)
    }

    fn check(&self, head: &Head, ids: usize, (has, unit): (&str, &str)) -> Result<(), String> {
        if let Some(above) = self.trace.requests.last()
            && head.timestamp_ms < above.timestamp_ms
            && !self.sort
        {
            let unit = self.trace.time_unit;
            return Err(format!(
                "timestamp {} is before the row above's {}: rows must be in order of time (--sort \
                 puts them so)",
                unit.shown(head.timestamp_ms),
                unit.shown(above.timestamp_ms)
            ));
        }
        // A request's index is a u32 elsewhere, and u32::MAX means never there.
        if self.trace.requests.len() >= u32::MAX as usize {
            return Err(format!("more than {} requests", u32::MAX));
        }
        let (input, size) = (head.input_tokens, self.trace.block_size);
        let (floor, ceil) = (input / size, input.div_ceil(size));
        if ids == floor as usize || ids == ceil as usize {
            return Ok(());
        }
        let origin = if self.block_size_given { "" } else { " (the default)" };
        let needs = if floor == ceil {
            format!("{floor}")
        } else {
            format!("{floor} (floor) or {ceil} (ceil)")
        };
        Err(format!(
            "{has} {ids} {unit}, but input_length {input} at block size {size}{origin} needs {needs}"
        ))
    }
}

pub(crate) fn check_block_size(block_size: u32) -> Result<(), String> {
    if (1..=MAX_BLOCK_SIZE).contains(&block_size) {
        return Ok(());
    }
    Err(format!("block_size = {block_size}: must be between 1 and {MAX_BLOCK_SIZE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(input_tokens: u32) -> Head {
        Head { timestamp_ms: 0, input_tokens, output_tokens: 0, session: 0, class: 0 }
    }

    #[test]
    fn nodes_are_told_apart_by_parent_and_id() {
        let mut builder = Builder::new(
            "t".into(),
            TraceDefaults { block_size: Some(1), ..TraceDefaults::default() },
        );
        for ids in [[7, 7, 9], [7, 9, 9], [9, 7, 9], [7, 7, 9], [9, 7, 8]] {
            builder.push_raw(&head(3), &ids).unwrap();
        }
        let trace = builder.trace;
        assert_eq!(*trace.chain(0), [0, 1, 2]);
        assert_eq!(*trace.chain(1), [0, 3, 4]);
        assert_eq!(*trace.chain(2), [5, 6, 7]);
        assert_eq!(trace.chain(3), trace.chain(0));
        assert_eq!(*trace.chain(4), [5, 6, 8]);
        assert_eq!(trace.parents, [ROOT, 0, 1, 0, 3, ROOT, 5, 6, 6]);
    }

    #[test]
    fn too_many_nodes_is_an_error_not_a_wrap() {
        let mut builder = Builder::new(
            "t".into(),
            TraceDefaults { block_size: Some(1), ..TraceDefaults::default() },
        );
        builder.interner.max_nodes = 2;
        builder.push_raw(&head(2), &[1, 2]).unwrap();
        builder.push_raw(&head(2), &[1, 2]).unwrap();
        let error = builder.push_raw(&head(1), &[3]).unwrap_err();
        assert_eq!(error, "more than 2 distinct blocks in one trace");
        let error = builder.push_shared(&head(3), 0, 2, 1).unwrap_err();
        assert_eq!(error, "more than 2 distinct blocks in one trace");
    }

    #[test]
    fn a_list_that_grows_too_long_is_given_up() {
        let given = TraceDefaults { block_size: Some(1), ..TraceDefaults::default() };
        let rows: [&[u64]; 6] = [&[7, 7, 9], &[], &[7, 9, 9], &[7, 7], &[7, 7, 9, 4], &[]];
        let (mut all, mut few) = (Builder::new("t".into(), given), Builder::new("t".into(), given));
        few.max_listed = 5;
        for ids in rows {
            let head = head(ids.len() as u32);
            all.push_raw(&head, ids).unwrap();
            few.push_raw(&head, ids).unwrap();
        }
        let shared = head(3);
        all.push_shared(&shared, 2, 2, 1).unwrap();
        few.push_shared(&shared, 2, 2, 1).unwrap();
        let (all, few) = (all.finish().unwrap(), few.finish().unwrap());
        assert!(all.listed && !few.listed && few.nodes.is_empty());
        for index in 0..all.requests.len() {
            assert_eq!(all.chain(index), few.chain(index), "{index}");
            for mode in [crate::Mode::Trace, crate::Mode::Engine] {
                assert_eq!(all.plan(mode).next_uses(&all), few.plan(mode).next_uses(&few));
            }
        }
        let some = few.subset(&[0, 4]);
        assert_eq!(some.chain(1), all.chain(4));
        let (one, other) = (all.coarsened(2).unwrap(), few.coarsened(2).unwrap());
        for index in 0..all.requests.len() {
            assert_eq!(one.chain(index), other.chain(index), "{index}");
        }
    }
}
