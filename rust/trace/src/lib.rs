//! Traces of LLM traffic: readers, the compact form that ships with the package, and what a replay needs to know ahead.
//!
//! A [`Trace`] is a forest of prefix nodes: a node is one block at one place, told apart by its parent and its raw id,
//! so a trace whose ids are content hashes and one whose ids are prefix hashes are read alike.
//!
//! ```
//! let rows = br#"{"timestamp": 0, "input_length": 1000, "output_length": 5, "hash_ids": [7, 8]}"#;
//! let trace = kvframe_trace::Trace::parse(rows, "two-blocks", None)?;
//! assert_eq!((trace.requests.len(), trace.input_tokens()), (1, 1000));
//! assert_eq!(trace.plan(kvframe_trace::Mode::Engine).block_accesses, 1); // the second block is partial
//! # Ok::<(), kvframe_trace::TraceError>(())
//! ```
#![forbid(unsafe_code)]

mod build;
mod by_time;
mod bytes;
mod compact;
mod derive;
mod error;
mod explain;
mod flood;
mod forest;
mod intern;
mod jsonl;
mod lcsllm;
mod lines;
mod load;
mod oracle;
mod plan;
mod profile;
pub mod replay;
mod row;
mod session;
mod time;
mod turns;
mod write;

pub use by_time::ByTime;
pub use error::TraceError;
pub use forest::{DEFAULT_BLOCK_SIZE, MAX_BLOCK_SIZE, NO_SESSION, ROOT, Trace, TraceRequest};
pub use load::{Form, TraceDefaults};
pub use plan::{Mode, NEVER, ReplayPlan};
pub use profile::{ClassCount, Profile, SharedPrefix};
pub use time::TimeUnit;
pub use write::{WrittenForm, rewrite_rows};
