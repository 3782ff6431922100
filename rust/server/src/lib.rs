//! A continuous-batching server, simulated: what a trace's users would feel, over the real core.
//!
//! The core's [`Manager`](kvframe_core::Manager) makes every decision on blocks, with the policies that
//! serve an engine. This crate adds what surrounds it in a server: requests arrive, wait, are batched
//! step by step under a token budget, are preempted when memory is short, and end. A step takes as long
//! as a profile says.
//!
//! | module | purpose |
//! | --- | --- |
//! | [`options`] | how the server is configured |
//! | [`simulate`] | the event loop of one engine |
//! | [`fleet`] | several engines and a router, on one clock |
//! | `engine` | an engine's steps; those that change nothing but the clock are taken together |
//! | `scheduler` | one step: running sequences grow, waiting requests come in |
//! | `attending` | what its sequences attend to, for layers of several kinds and for a prefix that all share |
//! | `present` | what is known of requests that are here |
//! | `running` | the sequences that run, and the requests that they serve |
//! | `loading` | those that wait for a load, or for what another one computes |
//! | `queue`, `arrivals` | who waits, in which order; who comes when |
//! | `prompts` | a trace's row as a request with keys |
//! | `cache` | the core's verbs, with policies outside the core consulted |
//! | [`profile`] | how long a step takes: roofline terms, also of layers of several kinds; a table, or terms fitted to one |
//! | [`fixed`] | the same report of a server with two rates, that of the replay by the clock |
//! | [`handover`] | prompts that another server has computed |
//! | `peers` | blocks that another engine's pool has |
//! | [`tiers`] | tiers below the pool: what moves, over which links |
//! | [`speculation`] | drafts of answers: which are right, how many, what they take |
//! | [`report`], `gaps` | what came of each request, and of all |
#![forbid(unsafe_code)]

mod arrivals;
mod attending;
mod cache;
mod engine;
mod fair;
pub mod fixed;
pub mod fleet;
mod gaps;
pub mod handover;
mod loading;
pub mod options;
mod peers;
mod present;
pub mod profile;
mod prompts;
mod queue;
pub mod report;
mod running;
mod scheduler;
pub mod simulate;
pub mod speculation;
pub mod tiers;

pub use cache::Stopped;
pub use fleet::{
    EngineParts, FeedOptions, FleetOptions, FleetReport, PeerOptions, Routing, simulate_fleet,
};
pub use handover::HandoverOptions;
pub use options::{Preemption, QueueOrder, ServerOptions};
pub use profile::{Batch, Fitted, Layered, Roofline, StepTable, StepTime, TableError};
pub use report::{Fate, RequestRecord, ServerReport};
pub use simulate::{simulate, simulate_with};
pub use speculation::{
    Acceptance, DraftPolicy, Drafter, MeasuredSteps, Round, Speculation, Switch,
};
pub use tiers::{ReturnOptions, SharedTiers, Tiers};
