//! Prompts that another server has computed: their KV comes over a link once there are blocks for it.

use kvframe_core::manager::AllocStatus;
use kvframe_core::{Allocation, SeqId};

use crate::cache::Stopped;
use crate::loading::Loading;
use crate::report::RequestRecord;
use crate::running::{Progress, Running};
use crate::scheduler::Scheduler;
use crate::tiers::{Landed, LinkOptions, Net, Sharing, Way};

/// The link that a server gets KV over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HandoverOptions {
    /// Bytes a second.
    pub rate: f64,
    /// Seconds that a transfer takes besides.
    pub latency: f64,
    /// Bytes of a token's KV.
    pub token_bytes: f64,
}

/// KV on its way to a sequence.
#[derive(Debug, Clone, Copy)]
struct Coming {
    end: f64,
    seq: SeqId,
    /// The load of its whole blocks, and how many it brings.
    load: Option<(u64, u32)>,
    tokens: u32,
}

/// What comes to a server.
#[derive(Debug)]
pub(crate) struct Handover {
    link: Net,
    token_bytes: f64,
    coming: Vec<Coming>,
    /// Tokens whose KV came.
    pub tokens: u64,
}

impl Handover {
    pub fn new(how: HandoverOptions) -> Self {
        let (rate, latency) = (how.rate, how.latency);
        let sharing = Sharing::default();
        let link = LinkOptions { read: rate, write: rate, latency, sharing };
        let (link, token_bytes) = (Net::new([link], &[]), how.token_bytes);
        Self { link, token_bytes, coming: Vec::new(), tokens: 0 }
    }

    /// When the first transfer ends, or infinity.
    pub fn next_end(&self) -> f64 {
        self.coming.iter().map(|one| one.end).fold(f64::INFINITY, f64::min)
    }
}

impl Scheduler<'_> {
    /// `request` has arrived, with its prompt computed and one token sampled elsewhere. False if it is larger than
    /// the pool: it is rejected.
    pub fn arrive_computed(&mut self, request: usize, record: RequestRecord) -> bool {
        if !self.arrive(request, record.arrival) {
            return false;
        }
        self.records[request] = RequestRecord { end: f64::NAN, ..record };
        let Progress { number, own_from, .. } = self.progress[request];
        let lost = self.prompts.prompt(request);
        let last_token = record.first_token;
        let fresh = Progress::fresh(number, own_from);
        self.progress
            .insert(request, Progress { sampled: 1, lost, last_token, is_handed: true, ..fresh });
        true
    }

    /// Asks for blocks for the first `lost` tokens of request `i`, whose KV is elsewhere.
    pub fn ask_for_computed(&mut self, i: usize) -> Result<(), Stopped> {
        let (size, lost) = (self.block_size, self.progress[i].lost);
        self.asked.external_until = lost / size * size;
        // Slots for the last block's tokens, too, which no load brings.
        self.asked.chunk = self.asked.chunk.saturating_add(lost % size);
        if self.cache.manager.can_allocate(&self.asked)? != AllocStatus::Ok {
            return Ok(());
        }
        let pooled = self.cache.manager.lookup_request(&self.asked)?.tokens;
        let until = pooled.max(self.asked.external_until).saturating_add(self.asked.chunk);
        self.make_room(
            (until.min(self.asked.until).div_ceil(size)).saturating_sub(pooled / size),
            pooled / size,
        )
    }

    /// A request that was computed elsewhere has blocks: what the pool lacks of its prompt comes over the link.
    /// Returns its sequence if nothing does.
    pub fn receive(&mut self, mut one: Running, given: &Allocation, now: f64) -> Option<Running> {
        let size = self.block_size;
        let progress = &mut self.progress[one.request];
        progress.is_handed = false;
        let tokens = progress.lost;
        let missing = tokens.saturating_sub(given.cached_tokens);
        let Some(handover) = self.handover.as_mut().filter(|_| missing > 0) else {
            one.computed = tokens;
            return Some(one);
        };
        handover.tokens += u64::from(missing);
        let bytes = f64::from(missing) * handover.token_bytes;
        let end = handover.link.carry(&[0], Way::Read, now, bytes).end;
        let load = given.load.map(|ticket| (ticket, given.external_tokens / size));
        handover.coming.push(Coming { end, seq: given.seq, load, tokens });
        self.loading.push(Loading::new(one, None, 0));
        None
    }

    /// What has come by `now` is there.
    pub fn settle_handovers(&mut self, now: f64) -> Result<(), Stopped> {
        let Some(handover) = &mut self.handover else { return Ok(()) };
        let (there, coming) = handover.coming.iter().partition(|one| one.end <= now);
        handover.coming = coming;
        let there: Vec<Coming> = there;
        for Coming { seq, load, tokens, .. } in there {
            if let Some((ticket, blocks)) = load {
                self.cache.loaded(ticket, blocks)?;
            }
            self.has_landed(Landed { seq, swapped: tokens, ..Landed::default() });
        }
        Ok(())
    }
}
