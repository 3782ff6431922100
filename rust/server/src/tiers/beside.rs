//! Loads that come layer by layer: the first step of their sequence runs beside them.
//!
//! A layer is computed when the one before it is, and its part of every load of the step has come.

use kvframe_core::SeqId;

use super::link::Passage;
use super::{Landed, Tiers};
use crate::cache::{Cache, Stopped};
use crate::scheduler::Scheduler;

/// A load on its link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sent {
    /// When its first byte goes.
    pub begin: f64,
    /// When its last one has come.
    pub end: f64,
    /// What its bytes take.
    pub seconds: f64,
    pub pages: u32,
    carried: Option<Passage>,
}

impl Sent {
    /// Pages that come to the pool.
    pub fn new(passage: Passage, pages: u32) -> Self {
        let Passage { begin, end, seconds, shared } = passage;
        Self { begin, end, seconds, pages, carried: shared.map(|_| passage) }
    }

    /// When a step ends that begins at `begin`, computes for `seconds` and waits for this load, `layers` apart.
    fn end_of(&self, begin: f64, seconds: f64, layers: u32) -> f64 {
        let part = 1.0 / f64::from(layers);
        // Layers come evenly and are computed evenly: the first or the last one is waited for most.
        let behind_first = self.end - self.seconds * (1.0 - part) + seconds;
        let behind_last = self.end + seconds * part;
        (begin + seconds).max(behind_first).max(behind_last)
    }
}

impl Scheduler<'_> {
    /// Sequences whose loads are on the link are in the step, as far as it has tokens left.
    pub fn run_beside_loads(&mut self, budget: &mut u32, now: f64) -> Result<(), Stopped> {
        let mut at = 0;
        while self.options.load_layers > 0 && *budget > 0 && at < self.loading.len() {
            let class = self.class(self.loading[at].one.request);
            let most = self.chunk(class, *budget);
            let waits = &self.loading[at];
            let sent = match &mut self.tiers {
                Some(tiers)
                    if most > 0
                        && waits.is_only_loading()
                        && (self.options.chunked_prefill || waits.one.remaining() <= most) =>
                {
                    tiers.land_early(&mut self.cache, waits.one.seq, now)?
                }
                _ => None,
            };
            let Some((landed, sent)) = sent else {
                at += 1;
                continue;
            };
            self.beside.push(sent);
            let one = self.loading.remove(at).one;
            let mut one = self.land(one, &landed)?;
            one.scheduled = one.remaining().min(most);
            let count = one.scheduled;
            self.running.push(one);
            let last = self.running.len() - 1;
            if !self.make_slots(last, count)? {
                let one = &mut self.running[last];
                one.scheduled = count.min(one.slots - one.computed);
            }
            let count = self.running[last].scheduled;
            self.fair.spend(class, count);
            *budget -= count;
        }
        Ok(())
    }

    /// When a step ends that begins at `begin`, computes for `seconds`, and waits for the loads beside it.
    pub fn end_of_step(&self, begin: f64, seconds: f64) -> f64 {
        let layers = self.options.load_layers;
        let tiers = self.tiers.as_ref();
        let known_by_now = |sent: &Sent| tiers.map_or(*sent, |tiers| tiers.sent_again(sent));
        let ends = self.beside.iter().map(known_by_now);
        let ends = ends.map(|sent| sent.end_of(begin, seconds, layers));
        ends.fold(begin + seconds, f64::max)
    }
}

impl Tiers {
    /// The same, now that others may share the link.
    fn sent_again(&self, sent: &Sent) -> Sent {
        let Some(passage) = sent.carried else { return *sent };
        let end = self.links.net().end_of(passage);
        Sent { end, seconds: sent.seconds + end - sent.end, ..*sent }
    }

    /// What a sequence loads counts as there, if it is on the link: the step that reads it waits for it.
    fn land_early(
        &mut self,
        cache: &mut Cache<'_>,
        seq: SeqId,
        now: f64,
    ) -> Result<Option<(Landed, Sent)>, Stopped> {
        let Some((id, sent)) = self.sent_for(seq).filter(|(_, sent)| sent.begin <= now) else {
            return Ok(None);
        };
        self.bring_in(cache, id, sent.pages)?;
        Ok(self.arrived.pop().map(|landed| (landed, sent)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Layer by layer, as the rule has it.
    fn walked(sent: &Sent, begin: f64, seconds: f64, layers: u32) -> f64 {
        let part = 1.0 / f64::from(layers);
        (1..=layers).fold(begin, |end, layer| {
            let come = sent.end - sent.seconds * part * f64::from(layers - layer);
            end.max(come) + seconds * part
        })
    }

    #[test]
    fn the_first_or_the_last_layer_is_waited_for_most() {
        for (begin, bytes, seconds, layers) in [
            (0.0, 8.0, 4.0, 4),
            (0.0, 4.0, 8.0, 4),
            (5.0, 8.0, 4.0, 4),
            (0.0, 8.0, 4.0, 1),
            (3.0, 1.0, 40.0, 32),
            (20.0, 8.0, 4.0, 4),
        ] {
            let sent =
                Sent { begin: 0.0, end: bytes + 1.0, seconds: bytes, pages: 1, carried: None };
            let walked = walked(&sent, begin, seconds, layers);
            let told = sent.end_of(begin, seconds, layers);
            assert!((told - walked).abs() < 1e-9, "{begin} {bytes} {seconds} {layers}");
        }
    }
}
