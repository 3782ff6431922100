//! A radix tree in an engine's own terms: nodes of any length, split where prompts part, locked while a
//! request reads them, evicted leaf by leaf.
//!
//! [`crate::index::Radix`] finds the blocks of a manager; here a node is what the engine knows, and
//! what the policy ranks. The engine keeps the bytes: it is told which node got which part of a prompt
//! (a dense number, used again when the node is gone), and which nodes went.
//!
//! A node that is locked, or has just been used, has an owner; all others may be evicted once nothing
//! follows them. A lookup makes a path recent and counts no use; storing a prompt counts one.

mod check;
mod evict;
mod locks;
mod look;
mod nodes;
mod recency;
mod split;
mod store;
mod vanished;

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use self::nodes::Node;
use self::vanished::Vanished;
use super::{RequestInfo, TierPolicy};
use crate::error::{Error, Result};
use crate::hash::Key;
use crate::policy::{Consult, Eviction, View};
use crate::pool::{BlockId, NIL, State};

pub use evict::EvictedNodes;
pub use look::{PathNode, TreeNode};
pub use split::Split;
pub use store::Stored;

/// A node as the engine names it: its number, and below that how many there were before it. 0 to 2^63.
pub type NodeId = u64;

/// The number of the root in its [`NodeId`].
const ROOT: BlockId = NIL;

/// What a lookup found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Tokens, a multiple of the page.
    pub tokens: usize,
    /// The node that they end with; the root for none.
    pub node: NodeId,
    /// The node that was split for it.
    pub split: Option<Split>,
}

/// A prefix tree under one policy.
#[derive(Debug)]
pub struct PrefixTree {
    tier: TierPolicy,
    /// By number.
    nodes: Vec<Node>,
    /// Nodes by what they follow, the namespace and their first page.
    children: HashTable<BlockId>,
    hasher: DefaultHashBuilder,
    /// The first and the last of the nodes that follow nothing.
    tops: [BlockId; 2],
    page: usize,
    /// How many nodes there were, the roots of earlier trees included.
    serial: u32,
    root: NodeId,
    evictable: u64,
    protected: u64,
    /// A use or not, what was touched is recent: the policy is told of every touch as of a use.
    recency: bool,
    vanished: Option<Vanished>,
    /// Nodes that an eviction took before it needed the policy's word again.
    taken: EvictedNodes,
    /// Scratch: the nodes of a walk, those of them that had no owner.
    path: Vec<BlockId>,
    owned: Vec<BlockId>,
}

impl Consult for PrefixTree {
    fn consulted(&mut self) -> (&mut dyn Eviction, View<'_>) {
        self.tier.consulted()
    }
}

impl PrefixTree {
    /// An empty tree whose nodes are multiples of `page` tokens. `before` is the [`PrefixTree::serial`]
    /// of the tree that it comes after: their nodes then have no id in common.
    ///
    /// # Errors
    /// [`Error::PolicyRefused`]; [`Error::Invalid`] for pages of no token.
    pub fn new(page: u32, before: u32, policy: Box<dyn Eviction>) -> Result<Self> {
        if page == 0 {
            let limit = "must be at least 1".into();
            return Err(Error::Invalid { what: "page_size", value: "0".into(), limit });
        }
        let recency = policy.name() == "lru";
        let policy = if recency { recency::order() } else { policy };
        let vanished = policy.wants_misses().then(Vanished::default);
        let serial = before.wrapping_add(1);
        Ok(Self {
            tier: TierPolicy::growing(page, policy)?,
            nodes: Vec::new(),
            children: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            tops: [NIL; 2],
            page: page as usize,
            serial,
            root: nodes::id(ROOT, serial),
            evictable: 0,
            protected: 0,
            recency,
            vanished,
            taken: EvictedNodes::default(),
            path: Vec::new(),
            owned: Vec::new(),
        })
    }

    /// The tier that ranks the nodes.
    pub fn tier(&mut self) -> &mut TierPolicy {
        &mut self.tier
    }

    /// How many nodes there were.
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// Where every prefix begins.
    pub fn root(&self) -> NodeId {
        self.root
    }

    /// Tokens that no lock protects, and those that one does.
    pub fn sizes(&self) -> (u64, u64) {
        (self.evictable, self.protected)
    }

    /// The longest cached prefix in the namespace `space`, which is recent from now on.
    ///
    /// # Errors
    /// None but a fault of the policy's.
    pub fn find(&mut self, space: Key, tokens: &[i64]) -> Result<Found> {
        let (found, inside) = self.walk(space, tokens);
        let split = self.split_last(inside)?;
        self.touch(usize::MAX, RequestInfo::default());
        Ok(Found { tokens: found, node: self.last(), split })
    }

    /// The same, and nothing is split or recent. Besides, how long the path to the node is: a node that
    /// goes on otherwise counts whole.
    pub fn peek(&mut self, space: Key, tokens: &[i64]) -> (Found, usize) {
        let (found, _) = self.walk(space, tokens);
        let whole = self.path.last().map_or(0, |&last| self.nodes[last as usize].end());
        (Found { tokens: found, node: self.last(), split: None }, whole)
    }

    fn last(&self) -> NodeId {
        self.path.last().map_or(self.root, |&last| self.id(last))
    }

    fn id(&self, node: BlockId) -> NodeId {
        if node == ROOT { self.root } else { nodes::id(node, self.nodes[node as usize].serial) }
    }

    /// The number of a node that is here, or [`ROOT`].
    fn number(&self, id: NodeId) -> Result<BlockId> {
        if id == self.root {
            return Ok(ROOT);
        }
        let (node, serial) = nodes::parts(id);
        match self.nodes.get(node as usize) {
            Some(there) if there.serial == serial && self.tier.pool.is_findable(node) => Ok(node),
            _ => Err(invalid(id, "not a node of this tree, or gone")),
        }
    }

    /// Fills `path` with the nodes that `tokens` run through. How many tokens they hold, and of these how many
    /// in the last node.
    fn walk(&mut self, space: Key, tokens: &[i64]) -> (usize, usize) {
        self.path.clear();
        let (mut at, mut above) = (0, ROOT);
        while tokens.len() - at >= self.page {
            let rest = &tokens[at..];
            let Some(node) = self.child(above, space, &rest[..self.page]) else { break };
            let held = &self.nodes[node as usize].tokens;
            let same = common(held, rest) / self.page * self.page;
            self.path.push(node);
            at += same;
            if same < held.len() {
                return (at, same);
            }
            above = node;
        }
        (at, self.path.last().map_or(0, |&last| self.nodes[last as usize].tokens.len()))
    }

    fn hash(&self, above: BlockId, space: Key, page: &[i64]) -> u64 {
        self.hasher.hash_one((above, space.0, page))
    }

    fn child(&self, above: BlockId, space: Key, page: &[i64]) -> Option<BlockId> {
        let pool = &self.tier.pool;
        let same = |&node: &BlockId| {
            let there = &self.nodes[node as usize];
            pool.parent(node) == above && there.space == space && there.tokens.starts_with(page)
        };
        self.children.find(self.hash(above, space, page), same).copied()
    }

    /// Enters a node whose place in the pool stands.
    fn enter(&mut self, node: BlockId) {
        let (pool, nodes, page) = (&self.tier.pool, &self.nodes, self.page);
        let hash = |&node: &BlockId| {
            let there = &nodes[node as usize];
            self.hasher.hash_one((pool.parent(node), there.space.0, &there.tokens[..page]))
        };
        self.children.insert_unique(hash(&node), node, hash);
    }

    /// Takes it out again, while its place stands.
    fn leave(&mut self, node: BlockId) {
        let there = &self.nodes[node as usize];
        let above = self.tier.pool.parent(node);
        let hash = self.hash(above, there.space, &there.tokens[..self.page]);
        if let Ok(entry) = self.children.find_entry(hash, |&other| other == node) {
            entry.remove();
        }
    }

    /// The nodes of `path` are recent; those that end behind `counted` are used once more.
    fn touch(&mut self, counted: usize, known: RequestInfo<'_>) {
        if !self.path.is_empty() {
            self.own_path();
            self.use_path(counted, known);
            self.let_go();
        }
    }

    /// The nodes of `path` have an owner.
    fn own_path(&mut self) {
        let tier = &mut self.tier;
        tier.tick();
        self.owned.clear();
        for &node in &self.path {
            if tier.pool.state(node) == State::Cached {
                tier.pool.share(node);
                self.owned.push(node);
            }
        }
        tier.policy.acquire(&self.owned, View { pool: &tier.pool, now: tier.now });
    }

    fn use_path(&mut self, counted: usize, known: RequestInfo<'_>) {
        self.owned.clear();
        for &node in &self.path {
            let there = &mut self.nodes[node as usize];
            let is_first = std::mem::take(&mut there.new);
            let counts = there.end() > counted && !is_first;
            there.uses = there.uses.saturating_add(u8::from(counts));
            if counts || self.recency {
                self.owned.push(node);
            }
        }
        let view = View { pool: &self.tier.pool, now: self.tier.now };
        self.tier.policy.hit(&self.owned, known.access(), view);
    }

    /// The nodes of `path` have no owner any more, unless a lock is one.
    fn let_go(&mut self) {
        self.owned.clear();
        for &node in &self.path {
            let there = &mut self.nodes[node as usize];
            there.touched = there.locks > 0;
            if there.locks == 0 {
                self.tier.pool.unshare(node);
                self.owned.push(node);
            }
        }
        let view = View { pool: &self.tier.pool, now: self.tier.now };
        self.tier.policy.release(&self.owned, view);
    }
}

/// How many tokens at the front are the same.
fn common(ours: &[i64], theirs: &[i64]) -> usize {
    const STROKE: usize = 64;
    let most = ours.len().min(theirs.len());
    let (ours, theirs) = (&ours[..most], &theirs[..most]);
    let strokes = ours.chunks(STROKE).zip(theirs.chunks(STROKE));
    let at = STROKE * strokes.take_while(|(a, b)| a == b).count();
    let at = at.min(most);
    at + ours[at..].iter().zip(&theirs[at..]).take_while(|(a, b)| a == b).count()
}

fn invalid(id: NodeId, limit: &str) -> Error {
    Error::Invalid { what: "node", value: id.to_string(), limit: limit.into() }
}
