//! `PrefixTree`: an engine's radix tree, its nodes under one policy.

use std::borrow::Cow;

use kvframe_core::Error;
use kvframe_core::hash::Key;
use kvframe_core::policy::Consult;
use kvframe_core::sequence::{Meta, session_id};
use kvframe_core::tier::{
    EvictedNodes, PathNode, PrefixTree as Core, RequestInfo, Split, TreeNode,
};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyDict;

use crate::args::{
    BlockSize, Counted, Extra, LastNode, Node, Priority, Salt, SessionName, TokensToEvict,
};
use crate::errors::{shown, unless_raised, usage};
use crate::policy::eviction::make_policy;
use crate::policy::host::PolicyHost;

/// (head, tail, tokens of the head) of a node that was split.
type SplitTuple = (u32, u32, usize);
/// (tokens that were there, tokens now, node, split, new node).
type StoredTuple = (usize, usize, u64, Option<SplitTuple>, Option<u32>);
/// (node, what it follows, start, end, children).
type PathTuple = (u64, u64, usize, usize, u32);
/// (number, that of what it follows, start, tokens, locks).
type NodeTuple = (u32, u32, usize, usize, u32);

/// The core of a tree as the package sees it; `kvframe.prefix_tree.PrefixTree` is the face for users.
#[pyclass(frozen, module = "kvframe._core")]
pub struct PrefixTree {
    core: PolicyHost<Core>,
    /// A token is a pair of neighbours.
    bigrams: bool,
}

/// Token ids from what has them in a buffer of 64-bit integers, or any sequence of ints.
fn tokens(value: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    if let Ok(buffer) = PyBuffer::<i64>::get(value)
        && buffer.dimensions() == 1
    {
        return buffer.to_vec(value.py());
    }
    let py = value.py();
    let wrong = || {
        let limit = "must be a sequence of 64-bit integers";
        usage(py, format!("tokens = {}: {limit}", shown(value)))
    };
    value.extract().map_err(|error| unless_raised(py, error, wrong))
}

/// Pairs of neighbours; an id that has more than 32 bits is folded into them.
fn pairs(ids: &[i64]) -> Vec<i64> {
    let half = |id: i64| (id ^ (id >> 32).wrapping_mul(0x9E37_79B1)) & 0xFFFF_FFFF;
    ids.windows(2).map(|pair| half(pair[0]) << 32 | half(pair[1])).collect()
}

/// The namespace of a key and a salt; those without either share one.
fn space(Extra(extra): Extra<'_>, Salt(salt): Salt<'_>) -> Key {
    if extra.is_none() && salt.is_none() {
        return Key::default();
    }
    let mut name = Vec::new();
    for part in [extra, salt] {
        name.push(u8::from(part.is_some()));
        let part = part.unwrap_or_default().as_bytes();
        name.extend_from_slice(&(part.len() as u64).to_le_bytes());
        name.extend_from_slice(part);
    }
    Key::of_namespace(&name)
}

fn told(split: Option<Split>) -> Option<SplitTuple> {
    split.map(|split| (split.head, split.tail, split.tokens))
}

impl PrefixTree {
    fn keys<'a>(&self, ids: &'a [i64]) -> Cow<'a, [i64]> {
        if self.bigrams { Cow::Owned(pairs(ids)) } else { Cow::Borrowed(ids) }
    }
}

#[pymethods]
impl PrefixTree {
    /// An empty tree; `policy` is a built-in's name or a driver. `before` is the `serial` of the tree that
    /// it comes after.
    #[new]
    #[pyo3(signature = (*, page_size, before, bigrams, policy, policy_options=None))]
    fn new(
        py: Python<'_>,
        page_size: BlockSize,
        before: u32,
        bigrams: bool,
        policy: &Bound<'_, PyAny>,
        policy_options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let made = make_policy(py, policy, policy_options)?;
        let core =
            PolicyHost::new(py, "tree", made, |eviction| Core::new(page_size.0, before, eviction))?;
        Ok(Self { core, bigrams })
    }

    /// (tokens, node, split) of the longest cached prefix, which is recent now.
    fn find(
        &self,
        py: Python<'_>,
        ids: &Bound<'_, PyAny>,
        extra: Extra<'_>,
        salt: Salt<'_>,
    ) -> PyResult<(usize, u64, Option<SplitTuple>)> {
        let ids = tokens(ids)?;
        let keys = self.keys(&ids);
        let found = self.core.with(py, |core| core.find(space(extra, salt), &keys))?;
        Ok((found.tokens, found.node, told(found.split)))
    }

    /// (tokens, node, tokens up to the node's end); nothing changes.
    fn peek(
        &self,
        py: Python<'_>,
        ids: &Bound<'_, PyAny>,
        extra: Extra<'_>,
        salt: Salt<'_>,
    ) -> PyResult<(usize, u64, usize)> {
        let ids = tokens(ids)?;
        let keys = self.keys(&ids);
        let (found, whole) = self.core.locked(py, |core| core.peek(space(extra, salt), &keys))?;
        Ok((found.tokens, found.node, whole))
    }

    /// (tokens that were there, tokens now, node, split, new node).
    fn store(
        &self,
        py: Python<'_>,
        ids: &Bound<'_, PyAny>,
        extra: Extra<'_>,
        salt: Salt<'_>,
        counted: Counted,
        session: SessionName<'_>,
        priority: Priority,
    ) -> PyResult<StoredTuple> {
        let ids = tokens(ids)?;
        let keys = self.keys(&ids);
        let session = session.0.map_or(0, session_id);
        let meta = Meta { session, priority: priority.0, ..Meta::default() };
        let known = RequestInfo { meta, tokens: keys.len() as u32, next_use: &[] };
        let stored =
            self.core.with(py, |core| core.store(space(extra, salt), &keys, counted.0, known))?;
        Ok((stored.found, stored.tokens, stored.node, told(stored.split), stored.new))
    }

    /// One lock more on the path to a node. Tokens that none protected before.
    fn lock(&self, py: Python<'_>, node: Node) -> PyResult<u64> {
        self.core.with(py, |core| core.lock(node.0))
    }

    /// One lock less. Tokens that none protects any more.
    fn unlock(&self, py: Python<'_>, node: Node) -> PyResult<u64> {
        self.core.with(py, |core| core.unlock(node.0))
    }

    /// (tokens, nodes) that went to make room for `tokens`.
    fn evict(&self, py: Python<'_>, tokens: TokensToEvict) -> PyResult<(u64, Vec<u32>)> {
        let EvictedNodes { tokens, nodes } =
            self.core.with_victims(py, |core| core.evict(tokens.0))?;
        Ok((tokens, nodes))
    }

    /// Evicts one leaf. Its tokens.
    fn evict_leaf(&self, py: Python<'_>, node: Node) -> PyResult<u64> {
        self.core.with(py, |core| core.evict_leaf(node.0))
    }

    /// As `evict`, in the built-in order, where the policy has failed.
    fn evict_without(&self, py: Python<'_>, tokens: TokensToEvict) -> PyResult<(u64, Vec<u32>)> {
        let done = self.core.locked(py, |core| {
            loop {
                match core.evict(tokens.0) {
                    Err(Error::NeedVictims { n }) if core.external().is_some() => {
                        core.decided(n as usize, None);
                    }
                    outcome => break outcome,
                }
            }
        })?;
        let EvictedNodes { tokens, nodes } = done.map_err(|e| self.core.error(py, &e))?;
        self.core.locked(py, Core::settle_choice)?;
        Ok((tokens, nodes))
    }

    /// The numbers of the nodes from behind `until` to a node.
    fn path(&self, py: Python<'_>, node: Node, until: LastNode) -> PyResult<Vec<u32>> {
        self.core.with(py, |core| core.path(node.0, until.0))
    }

    /// (node, what it follows, start, end, children) of the nodes from the root to one.
    fn path_nodes(&self, py: Python<'_>, node: Node) -> PyResult<Vec<PathTuple>> {
        let told =
            |PathNode { node, above, start, end, children }| (node, above, start, end, children);
        let path = self.core.with(py, |core| core.path_nodes(node.0))?;
        Ok(path.into_iter().map(told).collect())
    }

    /// What a node follows.
    fn above(&self, py: Python<'_>, node: Node) -> PyResult<u64> {
        self.core.with(py, |core| core.above(node.0))
    }

    /// Refuses a node that is not here.
    fn check(&self, py: Python<'_>, node: Node) -> PyResult<()> {
        self.core.with(py, |core| core.check(node.0))
    }

    /// (number, that of what it follows, start, tokens, locks) of every node.
    fn all(&self, py: Python<'_>) -> PyResult<Vec<NodeTuple>> {
        let told =
            |TreeNode { node, above, start, tokens, locks }| (node, above, start, tokens, locks);
        Ok(self.core.locked_long(py, |core| core.all())?.into_iter().map(told).collect())
    }

    /// Places of nodes in the order of a walk that goes where most of them are first.
    fn by_weight(&self, py: Python<'_>, nodes: Vec<u64>) -> PyResult<Vec<usize>> {
        self.core.with(py, |core| core.by_weight(&nodes))
    }

    /// Numbers of the nodes that may be evicted, in that order.
    fn order(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.core.order(py, Core::tier, u32::MAX)
    }

    /// The root.
    fn root(&self, py: Python<'_>) -> PyResult<u64> {
        self.core.locked(py, |core| core.root())
    }

    /// How many nodes there were.
    fn serial(&self, py: Python<'_>) -> PyResult<u32> {
        self.core.locked(py, |core| core.serial())
    }

    /// Tokens that no lock protects, and those that one does.
    fn sizes(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        self.core.locked(py, |core| core.sizes())
    }

    /// Decisions that the built-in order took for a policy that failed.
    fn failures(&self) -> u64 {
        self.core.outside().failures()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.core.traverse(&visit)
    }

    /// Recounts the state.
    fn check_integrity(&self, py: Python<'_>) -> PyResult<()> {
        self.core.with(py, |core| core.check_integrity())
    }
}
