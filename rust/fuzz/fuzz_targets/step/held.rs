//! What is kept without a sequence: pins, handles, deadlines, blocks in hand.

use kvframe_core::{Key, NIL};

use crate::request::Owned;
use crate::verbs::Held;
use crate::world::World;

impl World {
    /// One of them.
    pub fn held(&mut self, held: &Held) {
        match *held {
            Held::Reserve(pick, until) => {
                let seq = self.seq(pick);
                self.judged(|m| m.reserve(seq, until.into()));
            }
            Held::ForkPrefix(pick, upto, copy) => {
                let seq = self.seq(pick);
                let child = self.judged(|m| m.fork_prefix(seq, upto.into(), copy));
                self.seqs.extend(child);
            }
            Held::Preempt(pick) => {
                let seq = self.seq(pick);
                self.judged(|m| m.preempt(seq));
            }
            Held::Attach(pick, upto) => {
                let seq = self.seq(pick);
                self.judged(|m| m.attach(seq, upto.into(), 7));
            }
            Held::TakeDropped => {
                self.m.take_dropped();
                assert!(self.m.take_dropped().is_empty(), "told twice");
            }
            Held::Pin(ref asked) => {
                let request = Owned::new(&self.m, asked);
                let pinned =
                    self.judged(|m| m.lock(request.tokens(), request.space(), request.extras()));
                self.pins.extend(pinned.flatten().map(|pinned| pinned.receipt));
            }
            Held::Unpin(pick) => {
                let Some(&receipt) = self.pins.get(usize::from(pick)) else { return };
                self.judged(|m| m.unlock(receipt));
            }
            Held::SetDeadline(pick, at) => {
                let ticket = self.ticket(pick);
                self.judged(|m| m.set_deadline(ticket, at.into()));
            }
            Held::Expire(now) => {
                self.judged(|m| m.expire(now.into()));
            }
            Held::Publish(block, parent, name) => {
                let parent = parent.map_or(NIL, u32::from);
                let key = Key(u128::from(name % 4) << 64 | 1);
                self.judged(|m| m.publish_block(block.into(), key, parent));
            }
            Held::Claim(ref blocks) => {
                let blocks: Vec<u32> = blocks.iter().map(|&b| b.into()).collect();
                self.judged(|m| m.claim_blocks(&blocks, &[]));
            }
            Held::Free(ref blocks) => {
                let blocks: Vec<u32> = blocks.iter().map(|&b| b.into()).collect();
                self.judged(|m| m.free_blocks(&blocks, &[]));
            }
            Held::Look(pick, start, stop, group) => self.look(pick, start, stop, group),
            Held::Changes => {
                self.m.take_rewound();
                self.m.take_remapped();
            }
        }
    }

    /// Questions: whatever the answer, nothing changes.
    fn look(&mut self, pick: crate::verbs::Pick, start: u8, stop: u8, group: u8) {
        let (seq, group) = (self.seq(pick), usize::from(group % 4));
        let _ = self.m.readable(seq);
        if let Ok(pages) = self.m.pages(seq, start.into(), stop.into(), group) {
            assert!(!pages.blocks.contains(&NIL), "a page that is not there");
        }
        let _ = (self.m.sight(seq, group), self.m.unkeyed(seq), self.m.usage_of(seq));
        let (owners, tickets) = (self.m.owners(start.into()), self.m.tickets());
        assert!(owners.tickets.iter().all(|held| tickets.iter().any(|(t, ..)| t == held)));
    }
}
