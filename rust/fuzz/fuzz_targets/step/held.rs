//! What is kept without a sequence: pins, handles, deadlines, blocks in hand.

use kvframe_core::hash::Space;
use kvframe_core::manager::PinRequest;
use kvframe_core::{Key, NIL, Scope};

use crate::request::request_of;
use crate::request::tokens as tokens_of;
use crate::verbs::Held;
use crate::world::{World, rule_of};

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
                self.m.take_detached();
                assert!(self.m.take_detached().is_empty(), "told twice");
            }
            Held::Pin(ref asked) => {
                let (request, tokens) = (request_of(&self.m, asked), &tokens_of(&asked.tokens));
                let (space, mm_items) = (request.space(), &request.mm_items);
                let lease = Some(tokens.len() as u64);
                let pinner = PinRequest { lease, ..PinRequest::default() };
                let pinned = self.judged(|m| m.lock(tokens, space, mm_items, pinner));
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
                self.judged(|m| m.expire_until(now.into()));
            }
            Held::Publish(block, parent, name) => {
                let parent = parent.map_or(NIL, u32::from);
                let key = Key(u128::from(name % 4) << 64 | 1);
                self.judged(|m| m.publish_block(block.into(), key, parent));
            }
            Held::Claim(ref blocks) => {
                let blocks: Vec<u32> = blocks.iter().map(|&b| b.into()).collect();
                self.judged(|m| m.acquire_blocks(&blocks, &[]));
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
            ref newer => self.newer(newer),
        }
    }

    fn newer(&mut self, held: &Held) {
        match *held {
            Held::Rematch(pick, fence) => {
                let seq = self.seq(pick);
                let before = self.m.sequence(seq).map_or(0, |s| s.cached);
                let cached = self.judged(|m| match fence {
                    Some(fence) => m.rematch_behind(seq, fence.into()),
                    None => m.rematch(seq),
                });
                assert!(cached.is_none_or(|cached| cached >= before), "less than it had");
            }
            Held::ClearScope(salt, adapter, session) => {
                let salt = salt.map(|salt| if salt { &b"salt"[..] } else { b"" });
                let adapter = adapter.map(|adapter| if adapter { &b"lora"[..] } else { b"" });
                let session = session.map(|session| u64::from(session % 4));
                self.clear(Scope { cache_salt: salt, lora_name: adapter, session });
            }
            Held::MakeRoom(rule, usage, fence) => {
                self.make_room(usize::from(rule), f64::from(usage) / 255.0, fence);
            }
            Held::PreemptBehind(pick, fence) => {
                let seq = self.seq(pick);
                self.judged(|m| m.preempt_behind(seq, fence.into()));
            }
            Held::ExpectJoins => self.m.expect_joins(),
            ref unknown => unreachable!("{unknown:?} is carried out above"),
        }
    }

    /// What was computed in that scope is found no more, and what runs in it leaves nothing.
    fn clear(&mut self, scope: Scope<'_>) {
        self.m.clear_scope(scope);
        for &seq in &self.seqs {
            let Ok(s) = self.m.sequence(seq) else { continue };
            let (salt, adapter, encoder) = (&s.cache_salt[..], &s.lora_name[..], &s.encoder[..]);
            let space = Space { cache_salt: salt, lora_name: adapter, encoder };
            if scope.runs(space, s.meta.session) {
                assert!(s.private, "{seq:x} leaves something findable");
            }
            if scope.covers(space) && scope.session.is_none() && s.meta.session == 0 {
                let hit = self.m.lookup(&s.tokens, space, &s.mm_items);
                assert!(hit.blocks.iter().flatten().all(|&b| b == NIL), "{seq:x} is found");
            }
        }
    }

    /// Each that is named frees what was said of it, once those before it have ended.
    fn make_room(&mut self, rule: usize, usage: f64, fence: Option<u8>) {
        let mut seqs = self.seqs.clone();
        seqs.retain(|&seq| self.m.sequence(seq).is_ok());
        let taken = self.m.preemption_to(&seqs, rule_of(rule), usage).expect("live");
        for candidate in taken {
            let coming = |m: &kvframe_core::Manager| m.pool().available() + m.pool().coming();
            let had = coming(&self.m);
            let ended = self.judged(|m| match fence {
                Some(fence) => m.preempt_behind(candidate.seq, fence.into()),
                None => m.preempt(candidate.seq),
            });
            assert!(ended.is_some(), "it was named");
            assert_eq!(coming(&self.m) - had, candidate.frees, "it freed other than was told");
        }
    }

    /// Questions: whatever the answer, nothing changes.
    fn look(&mut self, pick: crate::verbs::Pick, start: u8, stop: u8, group: u8) {
        let (seq, group) = (self.seq(pick), usize::from(group % 4));
        let _ = self.m.num_readable_tokens(seq);
        if let Ok(pages) = self.m.pages(seq, start.into(), stop.into(), group) {
            assert!(!pages.blocks.contains(&NIL), "a page that is not there");
        }
        let _ =
            (self.m.visible_range(seq, group), self.m.unhashed_blocks(seq), self.m.usage_of(seq));
        let (owners, tickets) = (self.m.owners(start.into()), self.m.tickets());
        assert!(owners.tickets.iter().all(|held| tickets.iter().any(|(t, ..)| t == held)));
    }
}
