//! Compiled eviction policies from outside: the `repr(C)` face of [`kvframe_core::policy::Eviction`].
//!
//! A policy is a [`v1::Table`] of C functions. It runs where a built-in one does: inside the
//! operation, under the core's lock, without an interpreter. Its answers are checked; what it does to
//! memory cannot be.
//!
//! | module | purpose |
//! | --- | --- |
//! | [`v1`] | version 1 of the interface, the counterpart of `kvframe_policy.h` |
//! | [`check`] | whether a table is of a supported version, and makes sense |
//! | [`policy`] | one policy: its state, its memory, its calls. All unsafe code is there and in `check` |
//! | [`ordering`] | policies that name victims from an order of their own |
//! | [`scoring`] | policies that score what they are offered |
//! | [`spare`] | the built-in order that decides when an ordering policy fails |
//! | [`faults`] | failures: counted inside the core, reported outside |

mod apart;
pub mod check;
pub mod faults;
pub mod ordering;
pub mod policy;
pub mod scoring;
mod spare;
pub mod v1;

use std::sync::Arc;

use kvframe_core::policy::Eviction;

use faults::Faults;
use policy::Policy;

/// The core's face of `policy`. `window`: candidates offered to one that scores in place of what it
/// asks for, 0 for all.
#[must_use]
pub fn eviction(policy: Policy, window: Option<u32>, faults: Arc<Faults>) -> Box<dyn Eviction> {
    if policy.scores() {
        Box::new(scoring::Scoring::new(policy, window, faults))
    } else {
        Box::new(ordering::Ordering::new(policy, faults))
    }
}
