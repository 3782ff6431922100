//! Sequences: block tables, lengths, and what is known of the request.

use crate::error::{Error, Result};
use crate::hash::{Extra, Key};
use crate::pool::BlockId;

/// A sequence's handle: slot in the low half, generation in the high half.
pub type SeqId = u64;

/// What policies and statistics may know of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Meta {
    /// Conversation or agent session.
    pub session: u64,
    /// Turn within the session.
    pub turn: u32,
    /// Class of the request (API, chat, …), the engine's own numbering.
    pub class: u32,
    /// Larger is more important.
    pub priority: i32,
}

/// A live sequence.
#[derive(Debug, Clone, Default)]
pub struct Sequence {
    /// Tokens that have slots.
    pub len: u32,
    /// Tokens computed and accepted.
    pub committed: u32,
    /// Tokens found at admission.
    pub cached: u32,
    /// Blocks at the front of the tables whose publication is settled.
    pub published: u32,
    /// Why blocks stop being published, if they do: a collision, `insert = false`.
    pub private: bool,
    /// Tokens known: the prompt and what was appended. Empty if the request came as keys.
    pub tokens: Vec<u32>,
    /// Of those, tokens at the end that have slots while their ids are still being computed.
    pub unknown: u32,
    /// Tokens known, where only keys came.
    pub known: u32,
    /// Keys of full blocks of known tokens, as far as they have been needed.
    pub keys: Vec<Key>,
    /// Link of block 0.
    pub root: Key,
    /// What it was chained from.
    pub salt: Vec<u8>,
    /// As `salt`.
    pub adapter: Vec<u8>,
    /// Content id of the other input that it attends to; empty: nobody shares it.
    pub encoder: Vec<u8>,
    /// Tokens of that input.
    pub encoder_tokens: u32,
    /// Whether the publication of that input's blocks is settled.
    pub encoder_published: bool,
    /// Tokens of the prompt.
    pub prompt: u32,
    /// Whether the request lets its blocks be found.
    pub insert: bool,
    /// Multimodal items.
    pub extras: Vec<Extra>,
    /// When each block is used next, where that is known.
    pub outlook: Vec<u32>,
    /// Block table of each group; entries that were given up are `NIL`.
    pub tables: Vec<Vec<BlockId>>,
    /// The request.
    pub meta: Meta,
    /// The tick of its admission.
    pub admitted: u64,
    /// Prompt and answer together, where that is known.
    pub max_tokens: u32,
    /// Whether it came in because all of that could be had.
    pub whole: bool,
}

impl Sequence {
    /// Tokens known, with slots or without.
    pub fn known(&self) -> u32 {
        self.known.max(self.tokens.len() as u32)
    }

    /// Tokens at the front whose ids are known.
    pub fn filled(&self) -> u32 {
        self.known() - self.unknown
    }

    /// Refuses a commit past the tokens whose ids are known.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn check_filled(&self, upto: u32) -> Result<()> {
        let filled = self.filled();
        if upto <= filled {
            return Ok(());
        }
        Err(Error::Invalid {
            what: "commit",
            value: upto.to_string(),
            limit: format!("only the ids of {filled} tokens are known: fill the others first"),
        })
    }

    fn clear(&mut self) {
        let Self { tokens, keys, extras, outlook, tables, salt, adapter, encoder, .. } = self;
        tokens.clear();
        keys.clear();
        extras.clear();
        outlook.clear();
        salt.clear();
        adapter.clear();
        encoder.clear();
        (self.encoder_tokens, self.encoder_published, self.prompt) = (0, false, 0);
        tables.iter_mut().for_each(Vec::clear);
        (self.len, self.committed, self.cached, self.published) = (0, 0, 0, 0);
        (self.private, self.known, self.unknown) = (false, 0, 0);
        (self.max_tokens, self.whole) = (0, false);
        self.meta = Meta::default();
    }
}

/// Live sequences by handle. Slots are reused with their buffers, handles are not.
#[derive(Debug, Default)]
pub struct Sequences {
    slots: Vec<(u32, bool, Sequence)>,
    vacant: Vec<u32>,
}

impl Sequences {
    /// A new empty sequence with `groups` tables.
    pub fn create(&mut self, groups: usize) -> SeqId {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push((0, false, Sequence::default()));
            self.slots.len() as u32 - 1
        });
        let (generation, live, sequence) = &mut self.slots[slot as usize];
        *generation += 1;
        *live = true;
        sequence.tables.resize_with(groups, Vec::new);
        (u64::from(*generation) << 32) | u64::from(slot)
    }

    /// Takes the sequence off the list; its buffers stay for the next one.
    pub fn remove(&mut self, seq: SeqId) {
        let (_, live, sequence) = &mut self.slots[seq as u32 as usize];
        *live = false;
        sequence.clear();
        self.vacant.push(seq as u32);
    }

    fn check(&self, seq: SeqId) -> Result<usize> {
        let (slot, generation) = (seq as u32 as usize, (seq >> 32) as u32);
        match self.slots.get(slot) {
            Some(&(current, true, _)) if current == generation => Ok(slot),
            Some(&(current, _, _)) if generation != 0 && generation <= current => {
                Err(Error::StaleSequence(seq))
            }
            _ => Err(Error::UnknownSequence(seq)),
        }
    }

    /// The sequence of a handle.
    ///
    /// # Errors
    /// [`Error::UnknownSequence`], [`Error::StaleSequence`].
    pub fn get(&self, seq: SeqId) -> Result<&Sequence> {
        self.check(seq).map(|slot| &self.slots[slot].2)
    }

    /// The same, to change it.
    ///
    /// # Errors
    /// As [`Sequences::get`].
    pub fn get_mut(&mut self, seq: SeqId) -> Result<&mut Sequence> {
        self.check(seq).map(|slot| &mut self.slots[slot].2)
    }

    /// Live sequences with their handles.
    pub fn iter(&self) -> impl Iterator<Item = (SeqId, &Sequence)> {
        self.slots.iter().enumerate().filter(|(_, (_, live, _))| *live).map(
            |(slot, (generation, _, sequence))| {
                ((u64::from(*generation) << 32) | slot as u64, sequence)
            },
        )
    }

    /// What live sequences compute from now on stays their own.
    pub fn make_private(&mut self) {
        for (_, live, sequence) in &mut self.slots {
            sequence.private |= *live;
        }
    }

    /// How many are live.
    pub fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// Whether none is live.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
