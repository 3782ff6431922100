//! Columns of what a policy in Python is offered, as arrays.

use kvframe_core::policy::{Candidates, Fact};
use kvframe_core::pool::NIL;
use numpy::Element;
use pyo3::intern;
use pyo3::prelude::*;

use super::reusable_array::ReusableArray;
use crate::calls::call_method;

/// A column of the offer.
#[derive(Debug, Clone, Copy)]
pub enum Column {
    Block,
    Parent,
    Fact(Fact),
}

impl Column {
    /// The column that policies know by this name.
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

    /// It, in `array`; as float64 if `floats` is said and it is a number, not a name.
    pub fn of<'py>(
        self,
        py: Python<'py>,
        offer: &Candidates,
        floats: bool,
        array: &mut ReusableArray,
    ) -> PyResult<Bound<'py, PyAny>> {
        let facts = &offer.facts;
        match self {
            Self::Block => array.put(py, true, offer.blocks.iter().map(|&b| i64::from(b))),
            Self::Parent => {
                let place = |&p: &u32| if p == NIL { -1 } else { i64::from(p) };
                array.put(py, true, offer.parents.iter().map(place))
            }
            Self::Fact(Fact::Session) => array.put(py, true, facts.session.iter().copied()),
            Self::Fact(Fact::Tenant) => array.put(py, true, facts.tenant.iter().copied()),
            Self::Fact(Fact::Class) => array.put(py, true, facts.class.iter().copied()),
            Self::Fact(Fact::Depth) => number(py, floats, array, &facts.depth, f64::from),
            Self::Fact(Fact::LastUse) => number(py, floats, array, &facts.last_use, tick),
            Self::Fact(Fact::Inserted) => number(py, floats, array, &facts.inserted, tick),
            Self::Fact(Fact::Uses) => number(py, floats, array, &facts.uses, f64::from),
            Self::Fact(Fact::Reach) => number(py, floats, array, &facts.reach, f64::from),
            Self::Fact(Fact::Turn) => number(py, floats, array, &facts.turn, f64::from),
            Self::Fact(Fact::NextUse) => number(py, floats, array, &facts.next_use, f64::from),
            Self::Fact(Fact::Key) => {
                let words = facts.key.as_flattened().iter().copied();
                let flat = array.put(py, true, words)?;
                call_method(&flat, intern!(py, "reshape"), ((facts.key.len(), 2),))
            }
            Self::Fact(Fact::LastUseTime) => number(py, floats, array, &facts.last_use_time, tick),
            Self::Fact(Fact::InsertedTime) => number(py, floats, array, &facts.inserted_time, tick),
            Self::Fact(Fact::Copies) => number(py, floats, array, &facts.copies, f64::from),
            Self::Fact(Fact::Priority) => number(py, floats, array, &facts.priority, f64::from),
        }
    }
}

fn number<'py, T: Element + Copy + 'static>(
    py: Python<'py>,
    floats: bool,
    array: &mut ReusableArray,
    values: &[T],
    float: impl Fn(T) -> f64,
) -> PyResult<Bound<'py, PyAny>> {
    let values = values.iter().copied();
    if floats { array.put(py, true, values.map(float)) } else { array.put(py, true, values) }
}

/// Converts to float64. That is exact up to 2^53, which no clock of operations reaches.
fn tick(tick: u64) -> f64 {
    tick as f64
}
