//! Arguments that carry their name, so that a wrong type or a value out of range is reported like
//! any other misuse, and not as a `TypeError` or `OverflowError` without the name.

use kvframe_core::sequence::session_id;
use pyo3::inspect::{PyStaticExpr, PyStaticOperator};
use pyo3::prelude::*;

use crate::errors::{is_wrong, seq_within, shown, unless_raised, usage};

macro_rules! argument {
    ($type:ident($inner:ty) = $name:literal, $limit:expr) => {
        #[doc = concat!("The argument `", $name, "`.")]
        #[derive(Debug, Clone, Copy)]
        pub struct $type(pub $inner);

        impl<'a, 'py> FromPyObject<'a, 'py> for $type {
            type Error = PyErr;

            const INPUT_TYPE: pyo3::inspect::PyStaticExpr =
                <$inner as FromPyObject<'a, 'py>>::INPUT_TYPE;

            fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
                let py = value.py();
                let wrong = || {
                    let (shown, limit) = (shown(&value), $limit);
                    let instead = if $name == "seq" { seq_within(&value) } else { "" };
                    usage(py, format!("{} = {shown}: {limit}{instead}", $name))
                };
                let read = value.extract::<$inner>().map(Self);
                read.map_err(|error| unless_raised(py, error, wrong))
            }
        }
    };
}

macro_rules! integers {
    ($($type:ident($inner:ty) = $name:literal;)*) => {$(
        argument!($type($inner) = $name, {
            let (least, most) = (<$inner>::MIN, <$inner>::MAX);
            format!("must be an integer between {least} and {most}")
        });
    )*};
}

macro_rules! flags {
    ($($type:ident = $name:literal;)*) => {$(
        argument!($type(bool) = $name, "must be True or False");
    )*};
}

argument!(Share(f64) = "usage", "must be a share of the pool, 0 to 1");

flags! {
    Resumed = "resumed";
    Partial = "partial";
    CopyTail = "copy";
}

integers! {
    Seq(u64) = "seq";
    Ticket(u64) = "ticket";
    Upto(u32) = "upto";
    Computed(u32) = "computed";
    Until(u32) = "until";
    Length(u32) = "length";
    Chunk(u32) = "chunk";
    Group(usize) = "group";
    Pad(i32) = "pad";
    Turn(u32) = "turn";
    RequestClass(u32) = "request_class";
    Priority(i32) = "priority";
    BlockNumber(u32) = "block";
    Capacity(u32) = "capacity";
    TokenBudget(u32) = "token_budget";
    BatchTokens(u32) = "batch_tokens";
    Start(u32) = "start";
    Stop(u32) = "stop";
    Handle(u64) = "handle";
    Deadline(u64) = "deadline";
    Now(u64) = "now";
    Lease(u64) = "lease";
    Fence(u64) = "fence";
    Passed(u64) = "passed";
    Count(u32) = "count";
    Lookahead(u32) = "lookahead";
    Forks(u32) = "n";
    ReceiptNumber(u64) = "receipt";
    Blocks(u32) = "blocks";
    Free(u32) = "free";
    FromEntry(usize) = "start";
    SlotCount(u32) = "slots";
    SlotNumber(u32) = "slot";
    LeastCopy(u32) = "least_copy";
    Depth(u32) = "depth";
    Worker(u64) = "worker";
    RankNumber(u32) = "rank";
    BlockSize(u32) = "block_size";
    IndexCapacity(usize) = "capacity";
    Victims(u32) = "n";
    TokenCount(u32) = "tokens";
    TokensToEvict(u64) = "tokens";
    Node(u64) = "node";
    LastNode(u64) = "until";
    Counted(usize) = "counted";
    EngineStep(u64) = "step";
}

macro_rules! names {
    ($($type:ident = $name:literal;)*) => {$(
        #[doc = concat!("The argument `", $name, "`: a name, or none.")]
        #[derive(Debug, Clone, Copy)]
        pub struct $type<'a>(pub Option<&'a str>);

        impl<'a, 'py> FromPyObject<'a, 'py> for $type<'a> {
            type Error = PyErr;

            const INPUT_TYPE: PyStaticExpr =
                <Option<&'a str> as FromPyObject<'a, 'py>>::INPUT_TYPE;

            fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
                value.extract().map(Self).map_err(|error| {
                    unless_raised(value.py(), error, || {
                        let limit = "must be a string that UTF-8 can say, or None";
                        usage(value.py(), format!("{} = {}: {limit}", $name, shown(&value)))
                    })
                })
            }
        }
    )*};
}

names! {
    Extra = "extra";
    Salt = "salt";
    SessionName = "session";
}

/// The argument `session`: a number, or a name that stands for one.
#[derive(Debug, Clone, Copy)]
pub struct Session(pub u64);

impl<'a, 'py> FromPyObject<'a, 'py> for Session {
    type Error = PyErr;

    const INPUT_TYPE: PyStaticExpr = PyStaticExpr::BinOp {
        left: &<u64 as FromPyObject<'a, 'py>>::INPUT_TYPE,
        op: PyStaticOperator::BitOr,
        right: &<&str as FromPyObject<'a, 'py>>::INPUT_TYPE,
    };

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let py = value.py();
        match value.extract::<u64>() {
            Ok(number) => return Ok(Self(number)),
            Err(error) if !is_wrong(py, &error) => return Err(error),
            Err(_) => {}
        }
        if let Ok(name) = value.extract::<&str>() {
            return Ok(Self(session_id(name)));
        }
        let limit = format!("must be an integer between 0 and {}, or a name", u64::MAX);
        Err(usage(py, format!("session = {}: {limit}", shown(&value))))
    }
}

/// The argument `outlook`: when each block is used next.
#[derive(Debug, Clone, Default)]
pub struct Outlook(pub Vec<u32>);

impl<'a, 'py> FromPyObject<'a, 'py> for Outlook {
    type Error = PyErr;

    const INPUT_TYPE: PyStaticExpr = <Vec<u32> as FromPyObject<'a, 'py>>::INPUT_TYPE;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let py = value.py();
        let wrong = || {
            let limit = format!("must be integers between 0 and {}, one a block", u32::MAX);
            usage(py, format!("outlook = {}: {limit}", shown(&value)))
        };
        value.extract().map(Self).map_err(|error| unless_raised(py, error, wrong))
    }
}
