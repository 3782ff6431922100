//! What stays without a sequence, and the verbs about it: pins, handles, deadlines, blocks in hand,
//! forks of a prefix, slots ahead.

use kvframe_core::locks::Receipt;
use kvframe_core::manager::{PinRequest, TicketKind};
use kvframe_core::{BlockId, Error, Key, NIL, SeqId};

use super::ops::Run;
use super::promises::{Load, spoiled};
use super::texts::{SPACES, space, text};
use super::world::{Live, World};
use crate::common::picture;

/// What a run holds.
#[derive(Debug, Default)]
pub struct Held {
    pub pins: Vec<(Receipt, Vec<BlockId>)>,
    /// Tickets that lapse, and when.
    pub deadlines: Vec<(u64, u64)>,
    /// Blocks in hand, once for each time, those before others first.
    pub hands: Vec<BlockId>,
    pub handles: u64,
}

impl World {
    /// Who computes what `seq` has joined, and up to where.
    pub fn joined(&self, seq: SeqId) -> Option<(usize, u32)> {
        let ticket = self.m.sequence(seq).expect("live").joined;
        let (load, _) = self.m.joined(ticket)?;
        let filler = self.live.iter().position(|live| Some(live.seq) == load.filler)?;
        let committed = self.m.sequence(self.live[filler].seq).expect("live").committed;
        Some((filler, ((load.start + load.blocks) * self.size).max(committed)))
    }
}

impl Run {
    /// One of them.
    pub fn held_verb(&mut self) {
        match self.dice.below(20) {
            0..3 => self.pin(),
            3..5 => self.unpin(),
            5..8 => self.fork_prefix(),
            8..10 => self.reserve(),
            10 => self.attach(),
            11..14 => self.set_deadlines(),
            14 => self.expire_until(),
            15 => self.preempt(),
            16..18 => self.publish_block(),
            18 => self.touch(),
            _ => self.free(),
        }
    }

    /// Everything held goes.
    pub fn let_go(&mut self) {
        while !self.w.held.pins.is_empty() {
            self.unpin();
        }
        while let Some(block) = self.w.held.hands.pop() {
            self.w.m.free_blocks(&[block], &[]).expect("in hand, and nothing follows");
        }
        self.w.check();
    }

    fn pin(&mut self) {
        let text = text(&mut self.dice, self.w.grain());
        if !SPACES[text.space].3.is_empty() {
            return;
        }
        let pinned =
            self.w.m.lock(&text.tokens, space(text.space), &text.mm_items, PinRequest::default());
        self.tell(format!("pin {:?} -> {pinned:x?}", text.tokens));
        // Pins may hold a share of the pool only.
        if matches!(pinned, Err(Error::PinsFull { .. })) {
            return;
        }
        if let Some(pinned) = pinned.expect("findable") {
            let held = self.w.m.snapshot().pins;
            let path = held.into_iter().find(|(id, _)| *id == pinned.receipt.id).expect("held").1;
            assert_eq!(path.last(), Some(&pinned.receipt.block));
            self.w.held.pins.push((pinned.receipt, path));
        }
    }

    fn unpin(&mut self) {
        let count = self.w.held.pins.len();
        if count == 0 {
            return;
        }
        let (receipt, _) = self.w.held.pins.swap_remove(self.dice.below(count));
        let wrong = Receipt { block: receipt.block + 1, ..receipt };
        let before = picture(&self.w.m, &self.w.handles());
        assert!(matches!(self.w.m.unlock(wrong), Err(Error::UnknownReceipt { .. })));
        self.unchanged(&before);
        self.tell(format!("unpin {receipt:x?}"));
        self.w.m.unlock(receipt).expect("held");
        self.w.m.unlock(receipt).expect_err("handed back");
    }

    fn fork_prefix(&mut self) {
        let Some((at, seq)) = self.pick() else { return };
        if self.w.live.len() > 12 {
            return;
        }
        let committed = self.w.m.sequence(seq).expect("live").committed;
        let (upto, copy) = (self.dice.between(0, committed + 1), self.dice.one_in(2));
        let before = picture(&self.w.m, &self.w.handles());
        let outcome = self.w.judged(&mut self.dice, |m| m.fork_prefix(seq, upto, copy));
        self.tell(format!("fork {seq:x} up to {upto}, copy {copy} -> {outcome:x?}"));
        let Ok(child) = outcome else { return self.unchanged(&before) };
        assert!(upto <= committed);
        let mut twin = Live { seq: child, ..self.w.live[at].clone() };
        twin.cut(upto);
        self.w.live.push(twin);
    }

    fn reserve(&mut self) {
        let Some((at, seq)) = self.pick() else { return };
        let s = self.w.m.sequence(seq).expect("live");
        let (len, known) = (s.len, s.known());
        let until = self.dice.between(len.saturating_sub(1), known + 4);
        let before = picture(&self.w.m, &self.w.handles());
        let outcome = self.w.judged(&mut self.dice, |m| m.reserve(seq, until));
        self.tell(format!("reserve {seq:x} {until} -> {outcome:?}"));
        if outcome.is_err() {
            return self.unchanged(&before);
        }
        let more = until.saturating_sub(known) as usize;
        let live = &mut self.w.live[at];
        live.grow(&vec![0; more]);
        live.unknown.extend(vec![0; more]);
    }

    fn attach(&mut self) {
        let Some((_, seq)) = self.pick() else { return };
        let committed = self.w.m.sequence(seq).expect("live").committed;
        let upto = self.dice.between(0, committed + 1);
        self.w.held.handles += 1;
        let handle = self.w.held.handles;
        let before = picture(&self.w.m, &self.w.handles());
        let outcome = self.w.m.attach(seq, upto, handle);
        self.tell(format!("attach {seq:x} {upto} -> {outcome:?}"));
        if outcome.is_err() {
            self.unchanged(&before);
        } else {
            // It replaces itself, and nothing else.
            assert_eq!(self.w.m.attach(seq, upto, handle), Ok(Some(handle)));
        }
        let dropped = self.w.m.take_detached();
        assert!(dropped.iter().all(|&gone| gone <= handle) && self.w.m.take_detached().is_empty());
    }

    /// Of some of what is outstanding: a lease ends when it lapses, copies and loads have failed.
    fn set_deadlines(&mut self) {
        self.w.m.set_deadline(u64::MAX, 0).expect_err("unknown");
        for (ticket, kind, ..) in self.w.m.tickets() {
            let loads = self.w.promises.loads.iter().any(|load| load.ticket == ticket);
            let copies = self.w.pages.tickets.iter().any(|&(other, _)| other == ticket);
            assert_eq!((kind == TicketKind::Load, kind == TicketKind::Copies), (loads, copies));
            if self.dice.one_in(3) {
                continue;
            }
            let at = self.w.time + self.dice.below(5) as u64;
            self.tell(format!("{ticket} lapses at {at}"));
            self.w.m.set_deadline(ticket, at).expect("outstanding");
            self.w.held.deadlines.retain(|&(other, _)| other != ticket);
            self.w.held.deadlines.push((ticket, at));
        }
    }

    /// Time goes on: tickets lapse, what is kept for a time falls, and leases of pins end.
    pub fn expire_until(&mut self) {
        self.w.time += self.dice.below(4) as u64;
        let now = self.w.time;
        let outstanding = self.w.m.tickets();
        let known = |ticket: u64| outstanding.iter().any(|&(other, ..)| other == ticket);
        let due = self.w.held.deadlines.iter().filter(|&&(t, at)| at <= now && known(t));
        let mut due: Vec<u64> = due.map(|&(ticket, _)| ticket).collect();
        due.sort_unstable();
        let (cut, sure) = self.lapse(&due);
        let outcome = self.w.m.expire_until(now).expect("sound");
        self.tell(format!("expire {now} -> {outcome:?}"));
        assert_eq!(outcome.tickets, due);
        assert!(!sure || outcome.cut == cut, "{:x?} were cut, not {cut:x?}", outcome.cut);
        self.w.held.deadlines.retain(|(ticket, _)| !due.contains(ticket));
        self.w.promises.leases.retain(|(ticket, _)| !due.contains(ticket));
    }

    /// What lapses has failed, whether or not its pages came. Returns who loses a page of a load with
    /// it, and whether nobody else is cut.
    fn lapse(&mut self, due: &[u64]) -> (Vec<SeqId>, bool) {
        let mut cut = Vec::new();
        for &ticket in due {
            if let Some(at) = self.w.promises.loads.iter().position(|load| load.ticket == ticket) {
                let load = Load { good: 0, ..self.w.promises.loads.swap_remove(at) };
                cut.extend(spoiled(&self.w.m, &load, &self.w.handles()));
                self.w.seen.lapsed_loads += 1;
            }
        }
        self.w.note_loads();
        let had = self.w.pages.tickets.len();
        self.w.pages.tickets.retain(|(ticket, _)| !due.contains(ticket));
        let copies = had - self.w.pages.tickets.len();
        self.w.seen.lapsed_copies += copies as u64;
        (cut, copies == 0)
    }

    fn preempt(&mut self) {
        let Some((_, seq)) = self.pick() else { return };
        self.w.run_plans(&mut self.dice);
        let fence = self.dice.one_in(3).then(|| self.fence(seq));
        let (had, frees) = (self.w.room_to_come(), self.frees(seq));
        self.end_behind(seq, fence);
        assert_eq!(self.w.room_to_come() - had, frees, "it freed other than was told");
    }

    /// A block on loan becomes findable under a key of nobody else's.
    fn publish_block(&mut self) {
        let Some(block) = self.w.loans.pop() else { return };
        let parent = self.w.held.hands.get(self.dice.below(self.w.held.hands.len() + 1));
        let parent = parent.copied().unwrap_or(NIL);
        let key = Key((u128::from(block) << 64) + 77);
        let before = picture(&self.w.m, &self.w.handles());
        let outcome = self.w.m.publish_block(block, key, parent);
        self.tell(format!("publish {block} after {parent} -> {outcome:?}"));
        if outcome.is_err() {
            self.w.loans.push(block);
            return self.unchanged(&before);
        }
        self.w.pages.fill(block, &self.w.m, self.w.epoch);
        self.w.held.hands.push(block);
    }

    /// Any block once more, if it may be held.
    fn touch(&mut self) {
        let block = self.dice.below(self.w.m.pool().created() as usize) as BlockId;
        if block >= self.w.m.pool().created() {
            return;
        }
        let before = picture(&self.w.m, &self.w.handles());
        let outcome = self.w.m.acquire_blocks(&[block], &[]);
        self.tell(format!("touch {block} -> {outcome:?}"));
        match outcome {
            Ok(()) => self.w.held.hands.push(block),
            Err(_) => self.unchanged(&before),
        }
    }

    fn free(&mut self) {
        let count = self.w.held.hands.len();
        if count == 0 {
            return;
        }
        let at = self.dice.below(count);
        let block = self.w.held.hands[at];
        let before = picture(&self.w.m, &self.w.handles());
        let outcome = self.w.m.free_blocks(&[block], &[]);
        self.tell(format!("free {block} -> {outcome:?}"));
        match outcome {
            // The last of its places, so that what follows it stays behind another.
            Ok(()) => {
                let last = self.w.held.hands.iter().rposition(|&b| b == block).expect("in hand");
                self.w.held.hands.remove(last);
            }
            Err(_) => self.unchanged(&before),
        }
    }
}
