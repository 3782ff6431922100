//! Columns of what a policy in Python is offered, as arrays.

use kvframe_core::policy::Candidates;
use kvframe_core::pool::NIL;
use pyo3::prelude::*;

use crate::lent::Lent;

/// A column of the offer, by the name that a policy asks for it with.
#[derive(Debug, Clone, Copy)]
pub enum Column {
    Block,
    Depth,
    Parent,
    LastUse,
    Inserted,
    Uses,
    Reach,
    Session,
    Turn,
    RequestClass,
    Priority,
}

impl Column {
    /// The one that a policy calls so.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "block" => Self::Block,
            "depth" => Self::Depth,
            "parent" => Self::Parent,
            "last_use" => Self::LastUse,
            "inserted" => Self::Inserted,
            "uses" => Self::Uses,
            "reach" => Self::Reach,
            "session" => Self::Session,
            "turn" => Self::Turn,
            "request_class" => Self::RequestClass,
            "priority" => Self::Priority,
            _ => return None,
        })
    }

    /// It, in the array lent.
    pub fn of<'py>(
        self,
        py: Python<'py>,
        offer: &Candidates,
        lent: &mut Lent,
    ) -> PyResult<Bound<'py, PyAny>> {
        let rows = offer.rows.iter();
        match self {
            Self::Block => lent.put(py, true, offer.blocks.iter().map(|&b| i64::from(b))),
            Self::Depth => lent.put(py, true, offer.depths.iter().copied()),
            Self::Parent => {
                let place = |&p: &u32| if p == NIL { -1 } else { i64::from(p) };
                lent.put(py, true, offer.parents.iter().map(place))
            }
            Self::LastUse => lent.put(py, true, rows.map(|r| r.last_use)),
            Self::Inserted => lent.put(py, true, rows.map(|r| r.inserted)),
            Self::Uses => lent.put(py, true, rows.map(|r| r.uses)),
            Self::Reach => lent.put(py, true, rows.map(|r| r.reach)),
            Self::Session => lent.put(py, true, rows.map(|r| r.meta.session)),
            Self::Turn => lent.put(py, true, rows.map(|r| r.meta.turn)),
            Self::RequestClass => lent.put(py, true, rows.map(|r| r.meta.class)),
            Self::Priority => lent.put(py, true, rows.map(|r| r.meta.priority)),
        }
    }
}
