//! Columns of what a policy in Python is offered, as arrays.

use kvframe_core::policy::{Candidates, Fact};
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

    /// The fact that it is a column of; ids and parents are always there.
    pub fn fact(self) -> Option<Fact> {
        match self {
            Self::Block | Self::Parent => None,
            Self::Depth => Some(Fact::Depth),
            Self::LastUse => Some(Fact::LastUse),
            Self::Inserted => Some(Fact::Inserted),
            Self::Uses => Some(Fact::Uses),
            Self::Reach => Some(Fact::Reach),
            Self::Session => Some(Fact::Session),
            Self::Turn => Some(Fact::Turn),
            Self::RequestClass => Some(Fact::Class),
            Self::Priority => Some(Fact::Priority),
        }
    }

    /// It, in the array lent.
    pub fn of<'py>(
        self,
        py: Python<'py>,
        offer: &Candidates,
        lent: &mut Lent,
    ) -> PyResult<Bound<'py, PyAny>> {
        let facts = &offer.facts;
        match self {
            Self::Block => lent.put(py, true, offer.blocks.iter().map(|&b| i64::from(b))),
            Self::Parent => {
                let place = |&p: &u32| if p == NIL { -1 } else { i64::from(p) };
                lent.put(py, true, offer.parents.iter().map(place))
            }
            Self::Depth => lent.put(py, true, facts.depth.iter().copied()),
            Self::LastUse => lent.put(py, true, facts.last_use.iter().copied()),
            Self::Inserted => lent.put(py, true, facts.inserted.iter().copied()),
            Self::Uses => lent.put(py, true, facts.uses.iter().copied()),
            Self::Reach => lent.put(py, true, facts.reach.iter().copied()),
            Self::Session => lent.put(py, true, facts.session.iter().copied()),
            Self::Turn => lent.put(py, true, facts.turn.iter().copied()),
            Self::RequestClass => lent.put(py, true, facts.class.iter().copied()),
            Self::Priority => lent.put(py, true, facts.priority.iter().copied()),
        }
    }
}
