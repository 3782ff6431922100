//! Prefixes on their way from slot to slot. Until the ticket of a copy is settled, neither slot is
//! given to a sequence, and the copied tokens are not findable.

use super::Slots;
use crate::error::{Error, Result};
use crate::sequence::SeqId;
use crate::tier::RequestInfo;
use crate::transfers::{BlockCopy, CopyPlan};

impl Slots {
    /// Plans the copy of the first `tokens` tokens of `from` into `into`, which holds nothing.
    pub(super) fn plan_copy(
        &mut self,
        from: u32,
        into: u32,
        tokens: u32,
        known: RequestInfo<'_>,
    ) -> Result<()> {
        let seq = self.handle(into);
        let source = &mut self.all[from as usize];
        let block =
            source.block.ok_or_else(|| Error::Integrity(format!("slot {from} has no block")))?;
        if source.is_idle() {
            self.policy.acquire(&[block])?;
        }
        self.all[from as usize].holds += 1;
        self.policy.hit(&[block], known)?;
        let target = &mut self.all[into as usize];
        target.holds += 1;
        target.filling = true;
        self.tickets.add(BlockCopy { src: from, dst: into, tokens, seq, group: 0 });
        self.counters.copies += 1;
        self.counters.copied_tokens += u64::from(tokens);
        Ok(())
    }

    /// The copies to make before the next write, from slot to slot.
    pub fn take_plan(&mut self) -> Option<CopyPlan> {
        self.tickets.take_plan()
    }

    /// The copies of a plan are queued ahead of every later write.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`].
    pub fn done(&mut self, ticket: u64) -> Result<()> {
        for copy in self.tickets.settle(ticket)?.copies {
            self.all[copy.dst as usize].filling = false;
            self.publish(copy.dst)?;
            self.end(copy)?;
        }
        Ok(())
    }

    /// Notes that the copies of a plan failed. Returns the sequences that have no computed tokens any more.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`].
    pub fn failed(&mut self, ticket: u64) -> Result<Vec<SeqId>> {
        let mut rewound = Vec::new();
        for copy in self.tickets.settle(ticket)?.copies {
            let target = &mut self.all[copy.dst as usize];
            (target.filling, target.committed, target.shared) = (false, 0, 0);
            if target.live {
                rewound.push(copy.seq);
            }
            self.end(copy)?;
        }
        Ok(rewound)
    }

    fn end(&mut self, copy: BlockCopy) -> Result<()> {
        for at in [copy.src, copy.dst] {
            self.all[at as usize].holds -= 1;
            self.let_go(at)?;
        }
        Ok(())
    }
}
