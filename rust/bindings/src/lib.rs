//! The Python bindings of kvframe: buffers in, buffers out, typed errors. No decisions are made here.
//!
//! | module | purpose |
//! | --- | --- |
//! | [`manager`] | `Manager`: one lock around the core |
//! | [`request`] | `Request`: a prompt converted and hashed once |
//! | [`step`], [`inputs`], [`outputs`] | the batched step, what it takes and what it writes |
//! | [`tables`] | block tables and slots, written into the caller's arrays |
//! | [`policy`] | policies in Python or compiled: how they are made and asked |
//! | [`gate`] | what enters a tier below, asked of an admission policy |
//! | [`locked`] | the manager's way to its core |
//! | [`room`], [`listeners`] | pressure and its callbacks, preemption order, loads, resizing |
//! | [`sharing`], [`blocks`] | prefixes shared, read and attached to; blocks held by themselves |
//! | [`observe`] | the log with token ids and requests, statistics, a snapshot |
//! | [`pins`] | prefixes held against eviction; the radix tree as text |
//! | [`lookup`], [`loans`] | questions about prompts; raw blocks |
//! | [`router`] | which of many workers holds which prefix |
//! | [`block_queue`] | `BlockQueue`: the unowned blocks of an engine's pool under a policy |
//! | [`handles`] | the engine's own objects for them |
//! | [`tier`], [`pages`] | `TierPolicy`: blocks without prefixes under a policy; `TierPages`: with them |
//! | [`prefix_tree`] | `PrefixTree`: an engine's radix tree, its nodes under a policy |
//! | [`shadow`] | `ShadowSet`: what other policies and sizes would have hit, on a thread of its own |
//! | [`copies`] | copies of pages, checked |
//! | [`slots`] | `Slots`: a contiguous slot for each sequence |
//! | [`trace`], [`profile`], [`replay`] | `Trace`, what it could reuse, and `replay` |
//! | [`serve`], [`served_tiers`], [`served_report`], [`step_time`] | `serve`: simulated servers, their tiers, what they counted, and how long steps take |
//! | [`driven`] | the core that a trace drives, in both of these |
//! | [`streams`] | Python's file objects as streams |
//! | [`options`] | unknown options are refused |
//! | [`calls`] | Python code called so that a thread in it outlasts the interpreter |
//! | [`look`] | a caller's array, written without being borrowed |
//! | [`buffers`], [`args`], [`errors`], [`fork`] | conversions and guards |

// Arguments come extracted from Python, by value and as many as there are keywords.
#![allow(
    clippy::needless_pass_by_value,
    clippy::fn_params_excessive_bools,
    clippy::too_many_arguments
)]

use pyo3::prelude::*;

mod args;
mod block_queue;
mod blocks;
mod buffers;
mod calls;
mod change;
mod copies;
mod driven;
mod errors;
mod fields;
mod fork;
mod gate;
mod groups;
mod handles;
mod inputs;
mod listeners;
mod loans;
mod locked;
mod look;
mod lookup;
mod manager;
mod observe;
mod options;
mod outputs;
mod pages;
mod pins;
mod policy;
mod prefix_tree;
mod profile;
mod queue;
mod replay;
mod request;
mod retention;
mod room;
mod router;
mod serve;
mod served_drafts;
mod served_report;
mod served_tiers;
mod shadow;
mod sharing;
mod slots;
mod step;
mod step_time;
mod streams;
mod tables;
mod tenants;
mod tier;
mod trace;
mod unwinding;
mod views;

/// kvframe's compiled core.
#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use super::block_queue::BlockQueue;
    #[pymodule_export]
    use super::copies::{copies, few_copies};
    #[pymodule_export]
    use super::errors::report_unraisable;
    #[pymodule_export]
    use super::gate::{PageUses, TierGate};
    #[pymodule_export]
    use super::manager::Manager;
    #[pymodule_export]
    use super::options::{check_options, policy_options};
    #[pymodule_export]
    use super::pages::TierPages;
    #[pymodule_export]
    use super::prefix_tree::PrefixTree;
    #[pymodule_export]
    use super::profile::{TraceProfile, rewrite_rows};
    #[pymodule_export]
    use super::replay::replay;
    #[pymodule_export]
    use super::request::{Request, session_id};
    #[pymodule_export]
    use super::router::RouterIndex;
    #[pymodule_export]
    use super::serve::serve;
    #[pymodule_export]
    use super::shadow::ShadowSet;
    #[pymodule_export]
    use super::slots::Slots;
    #[pymodule_export]
    use super::step_time::StepProfile;
    #[pymodule_export]
    use super::tier::TierPolicy;
    #[pymodule_export]
    use super::trace::{Trace, node_key};
    #[pymodule_export]
    use super::{build_profile, fork::after_fork_in_child};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        // The generated stub has no `__all__`, and a module like this needs none.
        module.delattr("__all__")?;
        super::fork::register(module)
    }
}

/// How the core was built: "release" or "debug".
#[pyfunction]
fn build_profile() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}
