//! A node: a part of a prompt.

use super::NodeId;
use crate::hash::Key;
use crate::pool::{BlockId, NIL};

#[derive(Debug)]
pub(super) struct Node {
    pub tokens: Vec<i64>,
    /// The namespace.
    pub space: Key,
    /// Tokens before it.
    pub start: usize,
    /// How many nodes there were before.
    pub serial: u32,
    /// Requests that read it, or what follows it.
    pub locks: u32,
    /// The nodes before and after it that follow the same one, in the order in which they came.
    pub beside: [BlockId; 2],
    /// The first and the last that follow it.
    pub below: [BlockId; 2],
    /// As far as they are counted.
    pub uses: u8,
    /// It was used while a lock was on it.
    pub touched: bool,
    /// It is being stored, which is its first use.
    pub new: bool,
}

impl Node {
    pub fn new(tokens: Vec<i64>, space: Key, start: usize, serial: u32) -> Self {
        let none = [NIL; 2];
        let (beside, below) = (none, none);
        Self {
            tokens,
            space,
            start,
            serial,
            locks: 0,
            beside,
            below,
            uses: 1,
            touched: false,
            new: false,
        }
    }

    /// Tokens up to its end.
    pub fn end(&self) -> usize {
        self.start + self.tokens.len()
    }
}

/// Bits of a serial number that an id keeps: it stays a positive number of 64 bits.
const KEPT: u32 = u32::MAX >> 1;

pub(super) fn id(node: BlockId, serial: u32) -> NodeId {
    u64::from(serial & KEPT) << 32 | u64::from(node)
}

pub(super) fn parts(id: NodeId) -> (BlockId, u32) {
    (id as u32, (id >> 32) as u32)
}
