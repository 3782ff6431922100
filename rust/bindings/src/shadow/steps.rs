//! A step of an engine as Python says it: tuples, with block keys as `bytes` of any length, in a list or joined.

use kvframe_core::hash::Key;
use kvframe_core::shadow::{Arrived, Begun, Generated, Progress, Progressed, Step};
use pyo3::inspect::{PyStaticExpr, PyStaticOperator};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::errors::{shown, usage};
use crate::tier::{KnownTuple, known};

/// Keys of blocks, hashed as they are read.
pub struct Keys(Vec<Key>);

impl<'a, 'py> FromPyObject<'a, 'py> for Keys {
    type Error = PyErr;

    const INPUT_TYPE: PyStaticExpr = PyStaticExpr::BinOp {
        left: &<Vec<Vec<u8>> as FromPyObject<'a, 'py>>::INPUT_TYPE,
        op: PyStaticOperator::BitOr,
        right: &<(Vec<u8>, usize) as FromPyObject<'a, 'py>>::INPUT_TYPE,
    };

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let wrong = || {
            let limit = "must be a list of bytes, or bytes of keys of one length, and their number";
            usage(value.py(), format!("keys = {}: {limit}", shown(&value)))
        };
        if let Ok((joined, count)) = value.extract::<(Bound<'py, PyBytes>, usize)>() {
            let joined = joined.as_bytes();
            let width = joined.len().checked_div(count).unwrap_or(0).max(1);
            let fits = width * count == joined.len();
            let keys = || joined.chunks_exact(width).map(Key::of_name).collect();
            return fits.then(keys).map(Self).ok_or_else(wrong);
        }
        let list = value.cast::<PyList>().map_err(|_| wrong())?;
        let key = |name: Bound<'_, PyAny>| {
            name.cast::<PyBytes>().map(|name| Key::of_name(name.as_bytes())).ok()
        };
        list.iter().map(key).collect::<Option<_>>().map(Self).ok_or_else(wrong)
    }
}

/// (id, new keys, tokens with slots, findable tokens).
pub type ProgressTuple = (u64, Keys, u32, u32);

/// (id, keys, tokens, tokens that may be found, tokens with slots, findable tokens, tokens that the engine
/// found, whether it is counted, what is known of it).
pub type BegunTuple = (u64, Keys, u32, u32, u32, u32, u32, bool, KnownTuple);

fn progress((id, keys, slots, computed): ProgressTuple) -> Progress {
    Progress { id, keys: keys.0, slots, computed }
}

/// As the core has it.
pub fn step_of(
    ended: Vec<ProgressTuple>,
    grown: Vec<ProgressTuple>,
    preempted: Vec<u64>,
    begun: Vec<BegunTuple>,
) -> Step {
    let begin =
        |(id, keys, tokens, findable, slots, computed, found, first, use_): BegunTuple| Begun {
            id,
            keys: keys.0,
            tokens,
            findable,
            slots,
            computed,
            found,
            first,
            meta: known(&use_).meta,
        };
    Step {
        ended: ended.into_iter().map(progress).collect(),
        grown: grown.into_iter().map(progress).collect(),
        preempted,
        begun: begun.into_iter().map(begin).collect(),
    }
}

/// (id, first step, whether the engine had rested, keys, tokens, outputs at the most, whether it looks in the
/// cache, what is known of it).
pub type ArrivedTuple = (u64, u64, bool, Keys, u32, u32, bool, KnownTuple);

/// (id, new keys, tokens that are generated).
pub type GeneratedTuple = (u64, Keys, u32);

fn generated((id, keys, outputs): GeneratedTuple) -> Generated {
    Generated { id, keys: keys.0, outputs }
}

/// As the core has it.
pub fn progressed_of(
    (step, rests): (u64, bool),
    arrived: Vec<ArrivedTuple>,
    found: Vec<(u64, u32)>,
    running: Vec<GeneratedTuple>,
    ended: Vec<GeneratedTuple>,
) -> Progressed {
    let come =
        |(id, step, after_rest, keys, tokens, most_outputs, reads, use_): ArrivedTuple| Arrived {
            id,
            step,
            after_rest,
            keys: keys.0,
            tokens,
            most_outputs,
            reads,
            meta: known(&use_).meta,
        };
    Progressed {
        step,
        rests,
        arrived: arrived.into_iter().map(come).collect(),
        found,
        running: running.into_iter().map(generated).collect(),
        ended: ended.into_iter().map(generated).collect(),
    }
}
