//! Retention: what requests ask for, who pins, how important a block is. An `impl` of `Manager`.

use kvframe_core::locks::{PinInfo, Receipt};
use kvframe_core::manager::PinRequest;
use kvframe_core::retention::{Decay, Hint, HintStatus, Keep, Retention, TokenRange};
use pyo3::prelude::*;

use crate::args::{BlockNumber, Lease, Session};
use crate::blocks::in_pool;
use crate::errors::usage;
use crate::manager::Manager;

/// (priority, duration, priority after it, whether it falls evenly)
pub type KeepTuple = (u8, Option<u64>, u8, bool);

/// ((first token, one past the last, what is asked) of each range, what is asked for the answer)
pub type RetentionTuple = (Vec<(u32, u32, KeepTuple)>, Option<KeepTuple>);

/// (receipt, its block, tokens, owner, when it ends, blocks)
pub type PinTuple = (u64, u32, u32, String, Option<u64>, usize);

pub fn keep_of((priority, duration, then, linear): KeepTuple) -> Keep {
    let decay = if linear { Decay::Linear } else { Decay::Step };
    Keep { priority, duration, then, decay }
}

pub fn retention_of((ranges, decode): RetentionTuple) -> Retention {
    let range = |(start, end, keep)| TokenRange { start, end, keep: keep_of(keep) };
    Retention { ranges: ranges.into_iter().map(range).collect(), decode: decode.map(keep_of) }
}

fn keep_tuple(keep: Keep) -> KeepTuple {
    (keep.priority, keep.duration, keep.then, keep.decay == Decay::Linear)
}

/// What `retention_of` makes this of.
pub fn retention_tuple(retention: &Retention) -> RetentionTuple {
    let range = |one: &TokenRange| (one.start, one.end, keep_tuple(one.keep));
    (retention.ranges.iter().map(range).collect(), retention.decode.map(keep_tuple))
}

fn pin_tuple(held: PinInfo<'_>) -> PinTuple {
    let (Receipt { id, block }, holder) = (held.receipt, held.holder);
    (id, block, holder.tokens, holder.owner.clone(), holder.until, held.path.len())
}

fn name_of(taken: HintStatus) -> &'static str {
    match taken {
        HintStatus::Accepted => "accepted",
        HintStatus::Clipped => "clipped",
        HintStatus::Deferred => "deferred",
        HintStatus::Refused => "refused",
        HintStatus::Missing => "missing",
    }
}

#[pymethods]
impl Manager {
    /// The pins of an owner, or of all.
    #[pyo3(signature = (owner=None))]
    fn pins(&self, py: Python<'_>, owner: Option<&str>) -> PyResult<Vec<PinTuple>> {
        self.locked(py, |core| core.pins(owner).map(pin_tuple).collect())
    }

    /// Ends the pins of an owner, or all; how many.
    #[pyo3(signature = (owner=None))]
    fn unpin_all(&self, py: Python<'_>, owner: Option<&str>) -> PyResult<u32> {
        self.with(py, |core| core.unpin_all(owner))
    }

    /// Takes a hint on a session: (how it was taken, blocks that it concerned).
    fn hint(
        &self,
        py: Python<'_>,
        session: Session,
        kind: &str,
        keep: KeepTuple,
    ) -> PyResult<(&'static str, u32)> {
        let keep = keep_of(keep);
        let hint = match kind {
            "retain" => Hint::Retain(keep),
            "release" => Hint::Release,
            "demote" => Hint::Demote(keep.priority),
            _ => {
                let known = "must be retain, release or demote";
                return Err(usage(py, format!("hint = {kind:?}: {known}")));
            }
        };
        let reply = self.with(py, |core| core.hint(session.0, hint))?;
        Ok((name_of(reply.status), reply.blocks))
    }

    /// Pins what a session has: (how it was taken, blocks, the receipt, its block, tokens, and tokens
    /// that were found).
    #[allow(clippy::type_complexity)]
    #[pyo3(signature = (session, owner, lease=None))]
    fn pin_session(
        &self,
        py: Python<'_>,
        session: Session,
        owner: &str,
        lease: Option<Lease>,
    ) -> PyResult<(&'static str, u32, Option<(u64, u32, u32, u32)>)> {
        let pinner = PinRequest { owner, lease: lease.map(|l| l.0), session: session.0 };
        let reply = self.with(py, |core| core.pin_session(session.0, pinner))?;
        let pin = reply.pin.map(|l| (l.receipt.id, l.receipt.block, l.tokens, l.found));
        Ok((name_of(reply.status), reply.blocks, pin))
    }

    /// A block's retention priority, and when it changes by itself.
    fn block_priority(&self, py: Python<'_>, block: BlockNumber) -> PyResult<(u8, Option<u64>)> {
        let told =
            self.locked(py, |core| in_pool(core, block.0).map(|()| core.priority(block.0)))?;
        told.map_err(|why| usage(py, why))
    }
}
