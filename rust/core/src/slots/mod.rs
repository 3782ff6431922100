//! Fixed slots: a sequence has all its KV in one contiguous piece, as in llama.cpp or `CTranslate2`.
//!
//! A slot is *empty*, *live* (a sequence runs in it) or *cached* (no sequence runs in it, and
//! lookups find what was computed there). A prompt goes on in a cached slot whose tokens it begins
//! with, so that nothing is copied; else into the lowest empty slot, or the one that the policy
//! gives up, and the longest prefix that any slot holds is copied there. What a slot holds is known
//! token by token: tokens that a request overwrites are no longer found.

mod check;
mod choose;
mod clear;
mod copies;
mod found;
mod order;
mod pins;
mod slot;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use self::choose::SlotChoice;
use self::order::Order;
use self::pins::Pins;
pub use self::pins::SlotPin;
use self::slot::Slot;
pub use self::slot::{Counters, SlotAllocation, SlotRow, Standing};
use crate::error::{Error, Result};
use crate::hash::{HashAlgo, Hasher, Space};
use crate::policy::{Consult, Eviction, RemovalCause, View};
use crate::pool::NIL;
use crate::sequence::SeqId;
use crate::tier::{RequestInfo, TierPolicy};
use crate::transfers::Tickets;

/// Slots of a fixed length under one eviction policy.
#[derive(Debug)]
pub struct Slots {
    /// Tokens that a slot holds.
    length: u32,
    /// The shortest prefix that is worth a copy.
    least_copy: u32,
    hasher: Hasher,
    all: Vec<Slot>,
    empty: BinaryHeap<Reverse<u32>>,
    order: Order,
    /// Which of the cached slots is given up.
    policy: TierPolicy,
    /// The slot behind each of the policy's blocks.
    slot_of: Vec<u32>,
    tickets: Tickets,
    pins: Pins,
    counters: Counters,
    calls: u64,
    /// Scratch: slots that hold a prompt's longest prefix.
    sharers: Vec<u32>,
}

/// Slots that there can be: each holds a whole sequence, and its state is made at once.
const MOST: u32 = 1 << 20;

impl Consult for Slots {
    fn consulted(&mut self) -> (&mut dyn Eviction, View<'_>) {
        self.policy.consulted()
    }
}

impl Slots {
    /// `count` empty slots of `length` tokens. Prefixes shorter than `least_copy` are not copied.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a number below 1; [`Error::PolicyRefused`].
    pub fn new(
        count: u32,
        length: u32,
        least_copy: u32,
        fingerprint: &[u8],
        policy: Box<dyn Eviction>,
    ) -> Result<Self> {
        let numbers = [
            ("slots", count, MOST),
            ("length", length, NIL - 1),
            ("least_copy", least_copy, NIL - 1),
        ];
        for (what, value, most) in numbers {
            if value == 0 || value > most {
                let limit = format!("must be between 1 and {most}");
                return Err(Error::Invalid { what, value: value.to_string(), limit });
            }
        }
        Ok(Self {
            length,
            least_copy,
            hasher: hasher(fingerprint),
            all: (0..count).map(|_| Slot::default()).collect(),
            empty: (0..count).map(Reverse).collect(),
            order: Order::new(count),
            policy: TierPolicy::new(count, length, policy)?,
            slot_of: vec![NIL; count as usize],
            tickets: Tickets::default(),
            pins: Pins::default(),
            counters: Counters::default(),
            calls: 0,
            sharers: Vec::new(),
        })
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Every slot from 0 on.
    pub fn rows(&self) -> impl Iterator<Item = SlotRow> + '_ {
        self.all.iter().map(|slot| SlotRow {
            version: slot.version,
            standing: match (slot.live, slot.holds, slot.found) {
                (true, ..) => Standing::Live,
                (false, 0, 0) => Standing::Empty,
                (false, 0, _) => Standing::Cached,
                (false, ..) => Standing::Copying,
            },
            known: slot.tokens.len() as u32,
            committed: slot.committed,
            found: slot.found,
            pins: slot.pinned.len() as u32,
        })
    }

    /// The cached slots, the next to be given up first, as far as the policy has settled it.
    pub fn eviction_order(&self) -> Vec<u32> {
        self.policy.order(u32::MAX).into_iter().map(|block| self.slot_of[block as usize]).collect()
    }

    /// How many leading tokens of a prompt some slot holds, its last apart. Changes nothing.
    pub fn lookup(&self, prompt: &[u32], space: Space<'_>) -> u32 {
        let most = prompt.len().saturating_sub(1).min(self.length as usize);
        let root = self.hasher.root(space);
        self.order.reach(&self.all, root, &prompt[..most])
    }

    /// A slot for a prompt, with the longest prefix of it that is there; a copy is in the next plan.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty prompt, [`Error::SlotFull`] for one longer than a slot,
    /// [`Error::NoSlot`] while none can be had, [`Error::NeedVictims`].
    pub fn allocate(
        &mut self,
        prompt: &[u32],
        space: Space<'_>,
        known: RequestInfo<'_>,
    ) -> Result<SlotAllocation> {
        self.check_prompt(prompt)?;
        let root = self.hasher.root(space);
        let SlotChoice { into, from, tokens } = self.choose(root, prompt)?;
        let in_place = from == Some(into);
        if in_place {
            self.go_on(into, tokens, known)?;
        } else {
            self.vacate(into)?;
        }
        let shared = match from {
            Some(from) if in_place => self.share_in_place(from, tokens, known.meta.session),
            Some(from) => self.share_copy(from, tokens, known.meta.session),
            None => 0,
        };
        let slot = &mut self.all[into as usize];
        slot.version += 1;
        slot.name(space);
        slot.shared = shared;
        (slot.live, slot.private, slot.root, slot.committed) = (true, false, root, tokens);
        slot.tokens.truncate(if in_place { tokens as usize } else { 0 });
        slot.tokens.extend_from_slice(&prompt[slot.tokens.len()..]);
        (slot.meta, slot.next_use) = (known.meta, known.next());
        let seq = self.handle(into);
        let copied_from = from.filter(|_| !in_place);
        if let Some(from) = copied_from {
            self.plan_copy(from, into, tokens, known)?;
        }
        self.counters.allocated += 1;
        self.counters.in_place += u64::from(in_place);
        self.counters.prompt_tokens += prompt.len() as u64;
        self.counters.hit_tokens += u64::from(tokens);
        Ok(SlotAllocation { seq, cached: tokens, copied_from })
    }

    fn check_prompt(&self, prompt: &[u32]) -> Result<()> {
        if prompt.is_empty() {
            let limit = "must have a token".into();
            return Err(Error::Invalid { what: "prompt", value: "0 tokens".into(), limit });
        }
        self.check_length(prompt.len() as u64)
    }

    fn check_length(&self, needed: u64) -> Result<()> {
        if needed <= u64::from(self.length) {
            return Ok(());
        }
        Err(Error::SlotFull { needed, holds: self.length.into() })
    }

    /// Continues a cached slot behind its first `tokens` tokens. The tokens behind them are lost.
    fn go_on(&mut self, slot: u32, tokens: u32, known: RequestInfo<'_>) -> Result<()> {
        let found = self.all[slot as usize].found;
        let block = self.all[slot as usize].block;
        let block = block.ok_or_else(|| Error::Integrity(format!("slot {slot} has no block")))?;
        self.policy.acquire(&[block])?;
        self.policy.hit(&[block], known)?;
        if found > tokens {
            self.counters.overwritten += u64::from(found - tokens);
            self.shrink(slot, tokens)?;
        }
        Ok(())
    }

    /// Makes an empty or a cached slot hold nothing.
    fn vacate(&mut self, slot: u32) -> Result<()> {
        if self.empty.peek() == Some(&Reverse(slot)) {
            self.empty.pop();
            return Ok(());
        }
        self.counters.evictions += 1;
        self.unfind(slot, RemovalCause::Evicted)
    }

    /// More tokens of a sequence: drafts, or what is being computed.
    ///
    /// # Errors
    /// [`Error::UnknownSequence`], [`Error::StaleSequence`], [`Error::SlotFull`].
    pub fn append(&mut self, seq: SeqId, tokens: &[u32]) -> Result<()> {
        let at = self.find(seq)?;
        self.check_length(self.all[at].tokens.len() as u64 + tokens.len() as u64)?;
        self.all[at].tokens.extend_from_slice(tokens);
        Ok(())
    }

    /// The first `upto` tokens of a sequence are computed and accepted: they are found from now on.
    ///
    /// # Errors
    /// As [`Slots::append`]; [`Error::CommitPastEnd`], [`Error::Backwards`].
    pub fn commit(&mut self, seq: SeqId, upto: u32) -> Result<()> {
        let at = self.find(seq)?;
        let slot = &mut self.all[at];
        let (asked, known) = (u64::from(upto), slot.tokens.len() as u64);
        if asked > known {
            return Err(Error::CommitPastEnd { asked, limit: known });
        }
        if upto < slot.committed {
            return Err(Error::Backwards { what: "commit", asked, limit: slot.committed.into() });
        }
        slot.committed = upto;
        self.publish(at as u32)
    }

    /// A decode step: of each of `seqs`, all that is known is computed and accepted, and its next token
    /// comes behind. All of them, or none.
    ///
    /// # Errors
    /// As [`Slots::append`]; [`Error::Invalid`] for a sequence named twice, or lists of two lengths.
    pub fn advance(&mut self, seqs: &[SeqId], tokens: &[u32]) -> Result<()> {
        if seqs.len() != tokens.len() {
            let limit = format!("{} sequences need as many", seqs.len());
            return Err(Error::Invalid { what: "tokens", value: tokens.len().to_string(), limit });
        }
        self.calls += 1;
        for &seq in seqs {
            let at = self.find(seq)?;
            self.check_length(self.all[at].tokens.len() as u64 + 1)?;
            if std::mem::replace(&mut self.all[at].call, self.calls) == self.calls {
                let value = seq.to_string();
                return Err(Error::Invalid { what: "seqs", value, limit: "is named twice".into() });
            }
        }
        for (&seq, &token) in seqs.iter().zip(tokens) {
            let at = seq as u32;
            let slot = &mut self.all[at as usize];
            slot.committed = slot.tokens.len() as u32;
            slot.tokens.push(token);
            self.publish(at)?;
        }
        Ok(())
    }

    /// Cuts a sequence, as when drafts are not accepted.
    ///
    /// # Errors
    /// As [`Slots::append`]; [`Error::Invalid`] past what is known, or below what a copy reads or a pin
    /// holds.
    pub fn truncate(&mut self, seq: SeqId, length: u32) -> Result<()> {
        let at = self.find(seq)?;
        let known = self.all[at].tokens.len();
        let read = self.tickets.tokens_read(at as u32);
        let pinned = self.all[at].pinned.iter().copied().max().unwrap_or(0);
        let limit = if length as usize > known {
            format!("only {known} tokens are known")
        } else if length < read {
            format!("a copy that is not settled reads {read} tokens: hand its ticket back first")
        } else if length < pinned {
            format!("{pinned} tokens are pinned: end the pin first")
        } else {
            if self.all[at].found > length {
                self.shrink(at as u32, length)?;
            }
            let slot = &mut self.all[at];
            slot.tokens.truncate(length as usize);
            slot.committed = slot.committed.min(length);
            slot.shared = slot.shared.min(length);
            return Ok(());
        };
        Err(Error::Invalid { what: "length", value: length.to_string(), limit })
    }

    /// Ends a sequence. What is committed of it is found until its slot is given up.
    ///
    /// # Errors
    /// [`Error::UnknownSequence`], [`Error::StaleSequence`].
    pub fn release(&mut self, seq: SeqId) -> Result<()> {
        let at = self.find(seq)?;
        self.all[at].live = false;
        self.let_go(at as u32)
    }

    /// As [`Slots::clear`], since the weights are others now.
    ///
    /// # Errors
    /// As there.
    pub fn set_weight_version(&mut self, fingerprint: &[u8]) -> Result<u32> {
        self.hasher = hasher(fingerprint);
        self.clear()
    }

    fn handle(&self, slot: u32) -> SeqId {
        (u64::from(self.all[slot as usize].version) << 32) | u64::from(slot)
    }

    fn find(&self, seq: SeqId) -> Result<usize> {
        let (at, version) = (seq as u32 as usize, (seq >> 32) as u32);
        match self.all.get(at) {
            Some(slot) if slot.live && slot.version == version => Ok(at),
            Some(slot) if version != 0 && version <= slot.version => Err(Error::StaleSequence(seq)),
            _ => Err(Error::UnknownSequence(seq)),
        }
    }
}

fn hasher(fingerprint: &[u8]) -> Hasher {
    Hasher::new(HashAlgo::Sha256, 1, fingerprint)
}
