//! How blocks get their retention priorities: from requests, from hints, and as time passes.
mod attach;
mod hints;
pub(super) mod lock;

use crate::error::Result;
use crate::events::Kind;
use crate::groups::GroupKind;
use crate::manager::Manager;
use crate::pool::{BlockId, NIL};
use crate::retention::{INNER_PRIORITY, Keep};
use crate::sequence::{Meta, SeqId, Sequence};

impl Manager {
    /// Whether releases have to be recorded: a request asked for retention, or a layer group gives blocks
    /// up while its sequence runs.
    pub(super) fn notes_uses(&self) -> bool {
        self.store.retention().is_on() || self.layout.gives_up()
    }

    /// `seq` gives up `blocks` of `group`, from place `first` of its table on, because it `ends` or goes
    /// on without them: those that are findable are to be kept as it asked, or as no request asked.
    pub(super) fn retain(
        &mut self,
        seq: SeqId,
        group: usize,
        first: usize,
        blocks: &[BlockId],
        ends: bool,
    ) -> Result<()> {
        let reach = self.layout.groups()[group];
        let sequence = self.sequences.get_mut(seq)?;
        let Sequence { prompt, cached, branch, .. } = *sequence;
        let Meta { session, tenant, .. } = sequence.meta;
        let asked = sequence.retention.take();
        let of_prompt = asked.as_ref().filter(|_| reach.kind != GroupKind::Cross);
        for (&block, i) in blocks.iter().zip(first as u32..) {
            if block == NIL || !self.pool().is_findable(block) {
                continue;
            }
            let start = i * reach.span;
            let own = start >= cached;
            let keep = of_prompt.and_then(|asked| asked.of(start..start + reach.span, prompt));
            let is_inner = || {
                own && !ends
                    && self.pool().refs(block) == 1
                    && self.inner[tenant as usize].go_first()
                    && self.layout.is_inner(group, i as usize, prompt, branch)
            };
            let keep = keep.or_else(|| is_inner().then(|| Keep::forever(INNER_PRIORITY)));
            self.store.ask_for(block, keep, own);
            self.store.use_in_session(block, session);
        }
        self.sequences.get_mut(seq)?.retention = asked;
        Ok(())
    }

    /// The retention priority of a block, and when it changes, if it does.
    pub fn priority(&self, block: BlockId) -> (u8, Option<u64>) {
        if block >= self.pool().created() {
            return (Keep::default().priority, None);
        }
        (self.pool().priority(block), self.store.retention().changes(self.pool(), block))
    }

    /// It is `now` by the caller's clock, or as late as it was; how many blocks have another priority.
    pub(super) fn notify_time(&mut self, now: u64) -> u32 {
        if now > self.store.retention().time() {
            self.set_time(now);
            self.store.note(Kind::Clock, 0, now);
        }
        self.store.lapse()
    }
}
