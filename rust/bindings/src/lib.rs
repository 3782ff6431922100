//! The Python bindings of kvframe: buffers in, buffers out, typed errors. No decisions are made here.
//!
//! | module | purpose |
//! | --- | --- |
//! | [`manager`] | `Manager`: one lock around the core |
//! | [`request`] | `Request`: a prompt converted and hashed once |
//! | [`step`], [`inputs`], [`outputs`] | the batched step, what it takes and what it writes |
//! | [`tables`] | block tables and slots, written into the caller's arrays |
//! | [`driver`], [`lent`] | how a policy in Python of any kind is asked; arrays lent to it |
//! | [`judge`], [`column`] | victims asked of a Python policy, outside the lock |
//! | [`turn`] | events are told to a policy by one thread at a time |
//! | [`native`] | a compiled policy taken from a capsule or from addresses |
//! | [`gatekeeper`], [`question`], [`admission`] | which blocks become findable, asked of a Python policy |
//! | [`gate`] | what enters a tier below, asked of a built-in policy |
//! | [`answers`] | a Python matcher's answers about prompts |
//! | [`locked`] | the core's lock beside the interpreter's, and victims named between two tries |
//! | [`room`], [`listeners`] | pressure and its callbacks, preemption order, loads, resizing |
//! | [`sharing`], [`blocks`] | prefixes shared, read and attached to; blocks held by themselves |
//! | [`observe`] | the log with token ids and requests, statistics, a snapshot |
//! | [`pins`] | prefixes held against eviction; the radix tree as text |
//! | [`lookup`], [`loans`] | questions about prompts; raw blocks |
//! | [`router`] | which of many workers holds which prefix |
//! | [`tier`], [`pages`] | `TierPolicy`: blocks without prefixes under a policy; `TierPages`: with them |
//! | [`copies`] | copies of pages, checked |
//! | [`slots`] | `Slots`: a contiguous slot for each sequence |
//! | [`judged`] | what `tier`, `pages` and `slots` share: the lock, and a policy in Python |
//! | [`trace`], [`replay`] | `Trace` and `replay` |
//! | [`options`] | unknown options are refused |
//! | [`calls`] | Python code called so that a thread in it outlasts the interpreter |
//! | [`look`] | a caller's array, written without being borrowed |
//! | [`buffers`], [`ints`], [`errors`], [`fork`] | conversions and guards |

// Arguments come extracted from Python, by value and as many as there are keywords.
#![allow(
    clippy::needless_pass_by_value,
    clippy::fn_params_excessive_bools,
    clippy::too_many_arguments
)]

use pyo3::prelude::*;

mod admission;
mod answers;
mod blocks;
mod buffers;
mod calls;
mod column;
mod copies;
mod driver;
mod errors;
mod fork;
mod gate;
mod gatekeeper;
mod groups;
mod inputs;
mod ints;
mod judge;
mod judged;
mod lent;
mod listeners;
mod loans;
mod locked;
mod look;
mod lookup;
mod manager;
mod native;
mod observe;
mod options;
mod outputs;
mod pages;
mod pins;
mod question;
mod queue;
mod replay;
mod request;
mod retention;
mod room;
mod router;
mod sharing;
mod slots;
mod step;
mod tables;
mod tier;
mod trace;
mod turn;
mod unwinding;
mod views;

/// kvframe's compiled core.
#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use super::copies::{copies, few_copies};
    #[pymodule_export]
    use super::errors::report_unraisable;
    #[pymodule_export]
    use super::gate::TierGate;
    #[pymodule_export]
    use super::manager::Manager;
    #[pymodule_export]
    use super::options::check_options;
    #[pymodule_export]
    use super::pages::TierPages;
    #[pymodule_export]
    use super::replay::replay;
    #[pymodule_export]
    use super::request::{Request, session_id};
    #[pymodule_export]
    use super::router::RouterIndex;
    #[pymodule_export]
    use super::slots::Slots;
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
