//! Columns of what a policy in Python is offered, as arrays.

use kvframe_core::policy::{Candidates, Fact};
use kvframe_core::pool::NIL;
use pyo3::prelude::*;

use crate::lent::Lent;

/// A column of the offer.
#[derive(Debug, Clone, Copy)]
pub enum Column {
    Block,
    Parent,
    Fact(Fact),
}

impl Column {
    /// The one that policies call so.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "block" => Some(Self::Block),
            "parent" => Some(Self::Parent),
            fact => Fact::by_name(fact).map(Self::Fact),
        }
    }

    /// The fact that it is a column of; ids and parents are always there.
    pub fn fact(self) -> Option<Fact> {
        match self {
            Self::Block | Self::Parent => None,
            Self::Fact(fact) => Some(fact),
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
            Self::Fact(Fact::Depth) => lent.put(py, true, facts.depth.iter().copied()),
            Self::Fact(Fact::LastUse) => lent.put(py, true, facts.last_use.iter().copied()),
            Self::Fact(Fact::Inserted) => lent.put(py, true, facts.inserted.iter().copied()),
            Self::Fact(Fact::Uses) => lent.put(py, true, facts.uses.iter().copied()),
            Self::Fact(Fact::Reach) => lent.put(py, true, facts.reach.iter().copied()),
            Self::Fact(Fact::Session) => lent.put(py, true, facts.session.iter().copied()),
            Self::Fact(Fact::Turn) => lent.put(py, true, facts.turn.iter().copied()),
            Self::Fact(Fact::Class) => lent.put(py, true, facts.class.iter().copied()),
            Self::Fact(Fact::Priority) => lent.put(py, true, facts.priority.iter().copied()),
        }
    }
}
