//! What a matcher outside the core said of prompts: which blocks hold their prefix, and how much of it
//! is taken. Made before the operation it is for, and known by the prompt's last key.

use hashbrown::HashMap;

use crate::hash::Key;
use crate::index::{Changes, Index};
use crate::manager::Manager;
use crate::manager::allocate::lookup::{Found, PrefixQuery};
use crate::pool::{BlockId, State};
use crate::request::Attempt;

/// What was said of one prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MatchAnswer {
    /// The blocks of its prefix, from the first on; `None`: the core's own index says.
    pub blocks: Option<Vec<BlockId>>,
    /// Blocks that are taken at the most.
    pub most: Option<u32>,
}

/// Answers at hand, each with how many operations under way it is for.
#[derive(Debug, Default)]
pub(in crate::manager) struct MatchAnswers {
    known: HashMap<Key, (MatchAnswer, u32)>,
}

impl Manager {
    /// The same manager, for a matcher outside. With `mirrored`, its index is told what changes.
    #[must_use]
    pub fn with_matcher(mut self, mirrored: bool) -> Self {
        self.answers = Some(Box::default());
        if mirrored {
            self.store.mirror();
        }
        self
    }

    /// What became findable, and what is no more, since the last call.
    pub fn take_changes(&mut self) -> Changes {
        self.store.take_changes()
    }

    /// Takes in what was said of the prompt with these keys.
    pub fn answer(&mut self, keys: &[Key], answer: MatchAnswer) {
        if let (Some(answers), Some(&last)) = (&mut self.answers, keys.last()) {
            let entry = answers.known.entry(last).or_default();
            *entry = (answer, entry.1 + 1);
        }
    }

    /// The operation that the answer was for is over.
    pub fn forget_answer(&mut self, keys: &[Key]) {
        if let (Some(answers), Some(last)) = (&mut self.answers, keys.last())
            && let Some((_, holders)) = answers.known.get_mut(last)
        {
            *holders -= 1;
            if *holders == 0 {
                answers.known.remove(last);
            }
        }
    }

    /// The number of `blocks`, from the first on, that hold the prefix of a request whose keys are given. The
    /// answer is wrong from the next block on.
    pub fn check_answer<'a>(&self, request: impl Into<Attempt<'a>>, blocks: &[BlockId]) -> usize {
        let request = request.into();
        let (keys, tokens, mm_items) = (request.keys, &request.tokens[..], &request.mm_items[..]);
        let root = self.hasher.root(request.space());
        let wanted = PrefixQuery { keys, tokens, root, mm_items, limit: keys.len() };
        self.verified(wanted, blocks.iter().copied(), &mut Vec::new())
    }

    /// Applies the matcher's answer for a prompt.
    pub(super) fn find_answered(
        &self,
        wanted: PrefixQuery<'_>,
        blocks: &mut [Vec<BlockId>],
    ) -> Option<Found> {
        let last = wanted.keys.last()?;
        let (answer, _) = self.answers.as_ref()?.known.get(last)?;
        let limit = wanted.limit.min(answer.most.map_or(usize::MAX, |most| most as usize));
        let wanted = PrefixQuery { limit, ..wanted };
        let Some(acquired) = &answer.blocks else { return Some(self.find_own(wanted, blocks)) };
        let (found, others) = blocks.split_first_mut()?;
        others.iter_mut().for_each(Vec::clear);
        found.clear();
        let count = self.verified(wanted, acquired.iter().copied(), found);
        if self.store.has_copies() {
            self.follow_chain(found);
        }
        Some(Found { units: count, attended: count, collisions: 0 })
    }

    /// Fills `found` with the blocks at the front of `acquired` that hold what is wanted.
    fn verified(
        &self,
        wanted: PrefixQuery<'_>,
        acquired: impl Iterator<Item = BlockId>,
        found: &mut Vec<BlockId>,
    ) -> usize {
        let Index::Hash(index) = self.store.index() else { return 0 };
        let limit = wanted.limit.min(wanted.keys.len());
        for (i, block) in acquired.take(limit).enumerate() {
            let there = block < self.pool().created()
                && matches!(self.pool().state(block), State::Committed | State::Cached)
                && self.pool().key(block) == self.key_of(wanted.keys, 0, i)
                && self.follows(wanted, 0, block, found)
                && index.vouches(block, self.proof(wanted, 0, i));
            if !there {
                break;
            }
            found.push(block);
        }
        found.len()
    }
}
