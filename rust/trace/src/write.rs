//! Writing a trace in a form: compact, JSONL rows, and libCacheSim's CSV, oracleGeneral and lcsllm.
//!
//! A block's id is its node's number, which stands for the whole prefix: an id never has two parents, whatever the ids of
//! the file were that the trace came from.

use std::io::{self, Read, Write};

use crate::build::{Builder, Sink};
use crate::error::{TraceError, plain};
use crate::forest::{NO_SESSION, Trace, TraceRequest};
use crate::lcsllm;
use crate::load::{TraceDefaults, read_into};
use crate::plan::{Mode, NEVER, ReplayPlan};

/// A form that [`Trace::write`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenForm {
    /// kvframe's compact form, gzip.
    Compact,
    /// Mooncake JSONL.
    Rows,
    /// libCacheSim's CSV: time in seconds, object, size; a line a block.
    Csv,
    /// libCacheSim's oracleGeneral, with the next access of each block.
    OracleGeneral,
    /// lcsllm version 1, with the next access of each block.
    Lcsllm,
}

impl WrittenForm {
    /// The form of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "kvframe" => Some(Self::Compact),
            "mooncake" => Some(Self::Rows),
            "libcachesim-csv" => Some(Self::Csv),
            "oracle-general" => Some(Self::OracleGeneral),
            "lcsllm" => Some(Self::Lcsllm),
            _ => None,
        }
    }
}

impl Trace {
    /// Writes the trace in a form. Every id is written, partial blocks at the end of prompts too.
    ///
    /// # Errors
    /// What `out` says; [`io::ErrorKind::InvalidData`] where the form cannot hold a time.
    pub fn write(&self, out: &mut dyn Write, form: WrittenForm) -> io::Result<()> {
        match form {
            WrittenForm::Compact => out.write_all(&self.encode_compact()?),
            WrittenForm::Rows => {
                let chains = self.requests.iter().enumerate();
                let mut row = Vec::new();
                for (index, request) in chains {
                    put_row(&mut row, self, index, request, &self.chain(index));
                    out.write_all(&row)?;
                }
                Ok(())
            }
            WrittenForm::Csv => self
                .flat(out, |out, time, node, _| writeln!(out, "{time},{node},{}", self.block_size)),
            WrittenForm::OracleGeneral => self.flat(out, |out, time, node, next| {
                out.write_all(&time.to_le_bytes())?;
                out.write_all(&u64::from(node).to_le_bytes())?;
                out.write_all(&self.block_size.to_le_bytes())?;
                out.write_all(&next.to_le_bytes())
            }),
            WrittenForm::Lcsllm => self.write_lcsllm(out),
        }
    }

    /// Calls `put` with the time in seconds, the node, and the number from 1 of the next access (-1: none), a block a call.
    fn flat(
        &self,
        out: &mut dyn Write,
        put: impl Fn(&mut dyn Write, u32, u32, i64) -> io::Result<()>,
    ) -> io::Result<()> {
        let plan = self.plan(Mode::Trace);
        for (index, request) in self.requests.iter().enumerate() {
            let seconds = u32::try_from(request.timestamp_ms.div_euclid(1_000)).map_err(|_| {
                let what =
                    format!("time {} ms: the form holds 0 to 2^32 - 1 s", request.timestamp_ms);
                io::Error::new(io::ErrorKind::InvalidData, what)
            })?;
            for (depth, &node) in self.chain(index).iter().enumerate() {
                put(out, seconds, node, self.next_access(&plan, index, depth))?;
            }
        }
        Ok(())
    }

    /// The number, from 1, of the next access to the node at `depth` of request `index`; -1 for none.
    fn next_access(&self, plan: &ReplayPlan, index: usize, depth: usize) -> i64 {
        match plan.next_uses(self)[plan.offsets[index] as usize + depth] {
            NEVER => -1,
            // A node keeps its depth, so the access in a later request is as far from that request's first.
            later => (plan.offsets[later as usize] + depth as u64) as i64 + 1,
        }
    }

    fn write_lcsllm(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.lcsllm_header())?;
        let plan = self.plan(Mode::Trace);
        let mut before: Vec<Option<(u64, u32)>> = vec![None; self.sessions.len()];
        for (index, request) in self.requests.iter().enumerate() {
            let chat = index as u64;
            let above = before.get_mut(request.session as usize);
            let (parent, turn) = match above.as_ref().and_then(|above| **above) {
                Some((parent, turn)) => (parent as i64, turn + 1),
                None => (-1, 1),
            };
            if let Some(above) = above {
                *above = Some((chat, turn));
            }
            out.write_all(&chat.to_le_bytes())?;
            out.write_all(&parent.to_le_bytes())?;
            out.write_all(&request.timestamp_ms.saturating_mul(1_000).to_le_bytes())?;
            for field in [request.blocks, request.input_tokens, request.output_tokens, turn] {
                out.write_all(&field.to_le_bytes())?;
            }
            let class = self.class_of.get(index).copied().unwrap_or(0).saturating_sub(1);
            out.write_all(&[class.min(lcsllm::CLASSES as u8 - 1), 0, 0, 0, 0, 0, 0, 0])?;
            for (depth, &node) in self.chain(index).iter().enumerate() {
                out.write_all(&u64::from(node).to_le_bytes())?;
                out.write_all(&self.next_access(&plan, index, depth).to_le_bytes())?;
            }
        }
        Ok(())
    }

    fn lcsllm_header(&self) -> Vec<u8> {
        let micros = |request: Option<&TraceRequest>| {
            request.map_or(0, |request| request.timestamp_ms.saturating_mul(1_000)).to_le_bytes()
        };
        let longest = self.requests.iter().map(|request| request.blocks).max().unwrap_or(0);
        let mut header = Vec::with_capacity(lcsllm::HEADER);
        header.extend(lcsllm::MAGIC);
        header.extend(lcsllm::VERSION.to_le_bytes());
        header.extend((self.requests.len() as u64).to_le_bytes());
        let accesses = self.requests.iter().map(|request| u64::from(request.blocks));
        header.extend(accesses.sum::<u64>().to_le_bytes());
        header.extend((self.parents.len() as u64).to_le_bytes());
        header.extend(u64::from(longest).to_le_bytes());
        header.extend(micros(self.requests.first()));
        header.extend(micros(self.requests.last()));
        header.extend(self.block_size.to_le_bytes());
        let classes = self.classes.len().min(lcsllm::CLASSES);
        header.extend([1, 1, classes as u8, 0]);
        for class in self.classes.iter().take(classes) {
            let mut name = [0; lcsllm::CLASS_NAME];
            let bytes = class.as_bytes();
            let kept = bytes.len().min(name.len() - 1);
            name[..kept].copy_from_slice(&bytes[..kept]);
            header.extend(name);
        }
        header.resize(lcsllm::HEADER - lcsllm::MAGIC.len(), 0);
        header.extend(lcsllm::MAGIC);
        header
    }
}

/// Reads a stream and writes its requests as JSONL rows, one by one: only distinct blocks are kept in memory.
///
/// # Errors
/// As [`Trace::load`], and what `out` says.
pub fn rewrite_rows(
    raw: impl Read,
    path: &str,
    given: TraceDefaults,
    out: &mut dyn Write,
) -> Result<Trace, TraceError> {
    let mut rows = Rows { out, row: Vec::new() };
    read_into(raw, path, Builder::new(path.to_owned(), given).into_sink(&mut rows), given)
}

struct Rows<'a> {
    out: &'a mut dyn Write,
    row: Vec<u8>,
}

impl Sink for Rows<'_> {
    fn request(&mut self, trace: &Trace, index: usize, chain: &[u32]) -> Result<(), String> {
        put_row(&mut self.row, trace, index, &trace.requests[index], chain);
        self.out
            .write_all(&self.row)
            .map_err(|error| format!("cannot be written: {}", plain(&error)))
    }
}

fn put_row(row: &mut Vec<u8>, trace: &Trace, index: usize, request: &TraceRequest, chain: &[u32]) {
    row.clear();
    let written = (|| {
        write!(
            row,
            "{{\"timestamp\":{},\"input_length\":{},\"output_length\":{}",
            request.timestamp_ms, request.input_tokens, request.output_tokens
        )?;
        write!(row, ",\"block_size\":{}", trace.block_size)?;
        if request.session != NO_SESSION {
            write!(row, ",\"session_id\":{}", request.session)?;
        }
        if let Some(&class) = trace.class_of.get(index).filter(|class| **class > 0) {
            let name = serde_json::Value::from(trace.classes[usize::from(class) - 1].as_str());
            write!(row, ",\"type\":{name}")?;
        }
        row.extend(b",\"hash_ids\":[");
        for (at, node) in chain.iter().enumerate() {
            if at > 0 {
                row.push(b',');
            }
            put_number(row, *node);
        }
        row.extend(b"]}\n");
        io::Result::Ok(())
    })();
    written.expect("writing to memory cannot fail");
}

/// The digits of a number: `write!` would take most of a conversion's time.
fn put_number(row: &mut Vec<u8>, mut number: u32) {
    let mut digits = [0; 10];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    row.extend(&digits[at..]);
}
