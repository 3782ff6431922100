//! Idle agents in turn lose a chunk of their tails (`RR-Evict`, arXiv 2609.32278): none pays for all, so the
//! slowest first token is less slow.
//!
//! An agent is a session; a request without one is an agent of its own. A block is its last user's. Agents
//! come behind all others when they come, and each time they have lost a chunk; what is evicted of one is its
//! deepest block. How long a chunk is, the paper does not tell: 16 blocks of 16 tokens are `LMCache`'s.

use std::collections::HashMap;

use super::partial_node_random_compute::CHUNK;
use crate::policy::adapters::class_heads::{Classes, Heads};
use crate::policy::adapters::rank_order::pack;
use crate::policy::{
    BlockAccess, Configured, PolicyOption, PolicyOptions, RemovalCause, View, grow,
};
use crate::pool::BlockId;

/// A session's number, or the tick of a request without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum AgentId {
    Session(u64),
    Request(u64),
}

/// Where it stands in the round, what it has lost of its present chunk, and how many findable blocks it has.
#[derive(Debug, Clone, Copy, Default)]
struct Agent {
    turn: u64,
    lost: u32,
    blocks: u32,
}

/// A block's agent, and the turn at which the block stands: its agent's, or one that is over.
#[derive(Debug, Clone, Copy)]
struct Column {
    agent: AgentId,
    turn: u64,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct RrEvict {
    chunk: u32,
    agents: HashMap<AgentId, Agent>,
    columns: Vec<Column>,
    turns: u64,
}

impl Configured for RrEvict {
    const OPTIONS: &'static [PolicyOption] = &[CHUNK];

    fn with(options: PolicyOptions<'_>) -> Self {
        let (agents, columns) = (HashMap::new(), Vec::new());
        Self { chunk: options.get(&CHUNK), agents, columns, turns: 0 }
    }
}

impl RrEvict {
    fn turn(&self, block: BlockId) -> u64 {
        self.agents[&self.columns[block as usize].agent].turn
    }

    fn join(&mut self, block: BlockId, touch: BlockAccess<'_>, view: View<'_>) {
        let id = match touch.access.meta.session {
            0 => AgentId::Request(view.now),
            session => AgentId::Session(session),
        };
        let turns = &mut self.turns;
        let agent = self.agents.entry(id).or_insert_with(|| {
            *turns += 1;
            Agent { turn: *turns, ..Agent::default() }
        });
        agent.blocks += 1;
        self.columns[block as usize] = Column { agent: id, turn: agent.turn };
    }

    fn leave(&mut self, block: BlockId) {
        let id = self.columns[block as usize].agent;
        let agent = self.agents.get_mut(&id).expect("the agent of a findable block");
        agent.blocks -= 1;
        if agent.blocks == 0 {
            self.agents.remove(&id);
        }
    }
}

impl Classes for RrEvict {
    fn name(&self) -> &'static str {
        "rr-evict"
    }

    fn insert(&mut self, block: BlockId, touch: BlockAccess<'_>, view: View<'_>) {
        grow(&mut self.columns, block, Column { agent: AgentId::Request(0), turn: 0 });
        self.join(block, touch, view);
    }

    fn hit(&mut self, block: BlockId, touch: BlockAccess<'_>, view: View<'_>) {
        let before = self.columns[block as usize].agent;
        if AgentId::Session(touch.access.meta.session) != before {
            self.leave(block);
            self.join(block, touch, view);
        }
    }

    fn stands_at(&mut self, block: BlockId, _: u8) {
        self.columns[block as usize].turn = self.turn(block);
    }

    fn class(&self, _: BlockId) -> usize {
        0
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        pack(0, self.columns[block as usize].turn, view.pool.depth(block))
    }

    fn choose(&mut self, _: Heads<'_>, _: View<'_>) -> usize {
        0
    }

    fn spare(&mut self, block: BlockId, _: View<'_>) -> bool {
        self.columns[block as usize].turn != self.turn(block)
    }

    fn evicted(&mut self, block: BlockId, _: Heads<'_>) {
        let id = self.columns[block as usize].agent;
        let agent = self.agents.get_mut(&id).expect("the agent of a findable block");
        agent.lost += 1;
        if agent.lost >= self.chunk {
            self.turns += 1;
            (agent.turn, agent.lost) = (self.turns, 0);
        }
    }

    fn removed(&mut self, block: BlockId, _: RemovalCause, _: View<'_>) {
        self.leave(block);
    }
}
