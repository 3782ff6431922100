//! Tiers below the pool, by the clock: which pages move is decided as `kvframe.tiers` decides it, over the same
//! [`TierPages`](kvframe_core::tier::TierPages) and policies; when they arrive, links say.
//!
//! | module | purpose |
//! | --- | --- |
//! | [`options`] | tiers and links, as they are configured |
//! | `link` | transfers queue, or share the links of their path |
//! | `flows` | how those that share links have them: max-min fair |
//! | `level` | one tier: its pages and its admission |
//! | `request` | what is known of a request while its pages move |
//! | `commons` | tiers that several servers have together |
//! | `down` | from the pool to host memory |
//! | `demote` | from a tier to the next |
//! | `backed` | blocks of the pool of which a tier has a copy, evicted first |
//! | `ahead` | room in a tier ahead of need |
//! | `up` | loads and prefetches |
//! | `fill` | what a load from below host memory fills on its way |
//! | `patience` | how long such a load is waited for |
//! | `beside` | steps that run beside their loads |
//! | `break_even` | from which length on a load pays |
//! | `returns` | a session's blocks, before its next turn |
//! | `swap` | preempted sequences, to host memory and back |
//! | `serve` | where the scheduler meets the tiers |
//! | [`report`] | what moved |

mod ahead;
mod backed;
mod beside;
mod break_even;
mod commons;
mod demote;
mod down;
mod fill;
mod flows;
mod level;
mod link;
pub mod options;
mod patience;
pub mod report;
mod request;
mod returns;
mod serve;
mod swap;
mod up;

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use kvframe_core::pool::BlockId;
use kvframe_core::tier::{EvictedPages, OrderedKeys, PageUses, StoreResult};
use kvframe_core::{Error, Key, SeqId};
use kvframe_trace::replay::Host;

use crate::cache::{Cache, Stopped};
use level::{Level, keys_of};
use link::{Links, Passage};
use options::{HitRefresh, PromoteFill, StoragePrefetch, TierSet};
use report::TierReport;
use request::Known;
use returns::Returns;
use up::{Load, LoadId};

pub(crate) use beside::Sent;
pub(crate) use commons::Commons;
pub use commons::SharedTiers;
pub(crate) use down::Room;
pub(crate) use link::{Net, Way};
pub(crate) use options::{LinkOptions, Sharing};
pub use returns::ReturnOptions;
pub(crate) use up::{Found, Landed};

/// What a transfer is for.
#[derive(Debug)]
enum Errand {
    /// From the pool to host memory.
    Offload { ticket: u64, lease: u64, keys: Vec<Key>, present: u32, known: Known },
    /// From a tier to the next.
    Demote { place: usize, keys: Vec<Key>, present: u32, source: u64, ticket: u64 },
    /// From a tier to one above it.
    Promote(fill::Rise),
    /// From tiers to the pool: from each, its place, the ticket and how many pages.
    Onboard { load: LoadId, parts: Vec<(usize, u64, u32)> },
    /// A preempted sequence comes back.
    SwapIn(swap::Return),
}

/// A way over a tier's link.
#[derive(Debug, Clone, Copy)]
struct Leg {
    place: usize,
    way: Way,
    pages: u32,
    /// The pool is at its other end, and not another tier.
    to_pool: bool,
}

/// A transfer under way, ordered by when it ends, as was known when it was asked last: others may change that on links
/// that are shared evenly.
#[derive(Debug)]
struct Transfer {
    end: f64,
    number: u64,
    carried: Vec<Passage>,
    /// A leg that begins when those before it have ended.
    next: Option<Leg>,
    errand: Errand,
}

impl PartialEq for Transfer {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Transfer {}

impl PartialOrd for Transfer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Transfer {
    fn cmp(&self, other: &Self) -> Ordering {
        self.end.total_cmp(&other.end).then(self.number.cmp(&other.number))
    }
}

/// The tiers of a server.
pub struct Tiers {
    levels: Vec<Level>,
    links: Links,
    under_way: BinaryHeap<Reverse<Transfer>>,
    started: u64,
    now: f64,
    block_size: u32,
    uses: PageUses,
    wants_uses: bool,
    requests: HashMap<SeqId, Known>,
    /// By the tier that has them: prefixes that wait for room in the tier below, by their last key.
    behind: Vec<OrderedKeys<Vec<Key>>>,
    loads: Vec<Load>,
    last_load: LoadId,
    /// Loads that wait for what is on its way in host memory.
    starved: Vec<LoadId>,
    arrived: Vec<Landed>,
    returns: Returns,
    /// The pages of preempted sequences, by the request.
    swapped: HashMap<usize, Vec<BlockId>>,
    /// The step that follows writes to blocks that are copied until then.
    copied_at: f64,
    /// Those copies that share a link evenly.
    copying: Vec<Passage>,
    /// Blocks whose last request has told a next use, where only those go down.
    live: Option<HashSet<Key>>,
    evict_backed_first: bool,
    hit_refresh: HitRefresh,
    fill: PromoteFill,
    storage_prefetch: StoragePrefetch,
    /// Tokens below which nothing is loaded from a tier, by its place.
    least: Vec<u32>,
    prefetch: usize,
    shared: commons::Place,
    /// Grows with whatever may change what a waiting request finds.
    pub(crate) version: u64,
    report: TierReport,
}

impl Tiers {
    /// Empty tiers whose pages have `block_size` tokens.
    ///
    /// # Errors
    /// [`Error::PolicyRefused`]; [`Error::Invalid`] without a tier, or where a path has links on which transfers queue.
    pub fn new(set: TierSet, block_size: u32) -> Result<Self, Error> {
        let count = set.tiers.len();
        if count == 0 {
            let limit = "must be at least 1".into();
            return Err(Error::Invalid { what: "tiers", value: "0".into(), limit });
        }
        let level = |(place, parts)| Level::new((place, place + 1 == count), parts, block_size);
        let levels = set.tiers.into_iter().enumerate().map(level);
        let levels = levels.collect::<Result<Vec<_>, _>>()?;
        let paths: Vec<Vec<usize>> = levels.iter().map(|level| level.path(true)).collect();
        let queues = |&&at: &&usize| set.links[at].sharing == Sharing::InTurn;
        let several = paths.iter().filter(|path| path.len() > 1);
        if let Some(link) = several.flatten().find(queues) {
            let limit = "is of a path of several links, and not shared evenly".into();
            return Err(Error::Invalid { what: "link", value: link.to_string(), limit });
        }
        let places = (0..set.links.len()).collect();
        let net = Net::new(set.links, &paths);
        let wants_uses = levels.iter().any(Level::wants_uses);
        Ok(Self {
            links: Links::new(Arc::new(Mutex::new(net)), places),
            under_way: BinaryHeap::new(),
            started: 0,
            now: 0.0,
            block_size,
            uses: PageUses::default(),
            wants_uses,
            requests: HashMap::new(),
            behind: (1..count).map(|_| OrderedKeys::default()).collect(),
            loads: Vec::new(),
            last_load: 0,
            starved: Vec::new(),
            arrived: Vec::new(),
            returns: Returns::default(),
            swapped: HashMap::new(),
            copied_at: f64::NEG_INFINITY,
            copying: Vec::new(),
            live: set.live.then(HashSet::new),
            evict_backed_first: set.evict_backed_first,
            hit_refresh: set.hit_refresh,
            fill: set.fill,
            storage_prefetch: set.storage_prefetch,
            least: vec![0; count],
            prefetch: set.prefetch,
            shared: commons::Place { from: usize::MAX, server: 0 },
            version: 0,
            report: TierReport::of(count),
            levels,
        })
    }

    /// When the first transfer under way ends.
    fn next_end(&self) -> f64 {
        let mut net = self.links.net();
        if !net.is_shared() {
            return self.under_way.peek().map_or(f64::INFINITY, |first| first.0.end);
        }
        let ends = self.under_way.iter().map(|one| end_of(&mut net, &one.0.carried));
        ends.fold(f64::INFINITY, f64::min)
    }

    /// Transfers that have ended by now, but for legs that follow.
    fn take_due(&mut self) -> Vec<Transfer> {
        let mut net = self.links.net();
        if net.is_shared() {
            let mut all = std::mem::take(&mut self.under_way).into_vec();
            for one in &mut all {
                one.0.end = end_of(&mut net, &one.0.carried);
            }
            self.under_way = all.into();
        }
        let mut due = Vec::new();
        while self.under_way.peek().is_some_and(|first| first.0.end <= self.now) {
            due.extend(self.under_way.pop().map(|Reverse(transfer)| transfer));
        }
        due
    }

    /// When a transfer ends, or one is planned.
    pub(crate) fn next_event(&self) -> f64 {
        self.next_end().min(self.next_plan()).min(self.next_deadline())
    }

    /// Whether something is on its way.
    pub(crate) fn is_moving(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Whether nothing moves, and another poll would start nothing before a request comes.
    pub(crate) fn is_quiet(&self) -> bool {
        self.under_way.is_empty()
            && self.behind.iter().all(OrderedKeys::is_empty)
            && !self.levels.iter().any(Level::is_too_full)
    }

    /// Settles what has ended by `now`, and starts what can be started.
    pub(crate) fn poll(&mut self, cache: &mut Cache<'_>, now: f64) -> Result<(), Stopped> {
        self.now = now;
        // What starts here ends at a later poll, even over links that take no time.
        for mut transfer in self.take_due() {
            if !self.has_arrived(&mut transfer) {
                self.under_way.push(Reverse(transfer));
                continue;
            }
            self.version += 1;
            self.end(cache, transfer.errand)?;
        }
        self.give_up_late(cache)?;
        self.go_on_with_loads(cache)?;
        self.bring_back(cache)?;
        self.catch_up(cache.host)?;
        self.tidy(cache.host)
    }

    /// Lets what is under way arrive, and starts nothing more: no request is left that could use it.
    pub(crate) fn wind_up(&mut self, cache: &mut Cache<'_>) -> Result<(), Stopped> {
        while let Some(Reverse(transfer)) = self.under_way.pop() {
            if let Some(leg) = transfer.next {
                self.carry(leg, self.now);
            }
            self.end(cache, transfer.errand)?;
        }
        self.drop_loads(cache)
    }

    fn end(&mut self, cache: &mut Cache<'_>, errand: Errand) -> Result<(), Stopped> {
        match errand {
            Errand::Offload { ticket, lease, keys, present, known } => {
                let good = self.settle(0, ticket, u32::MAX)?;
                cache.manager.done(lease)?;
                self.report.tiers[0].written_pages += u64::from(good);
                self.note_owned(0, &keys[present as usize..(present + good) as usize]);
                self.offer(cache.host, 0, &keys[..(present + good) as usize], &known)
            }
            Errand::Demote { place, keys, present, source, ticket } => {
                self.settle(place, source, u32::MAX)?;
                let good = self.settle(place + 1, ticket, u32::MAX)?;
                let there = &keys[..(present + good) as usize];
                self.note_backed(place, there);
                self.note_owned(place + 1, &there[present as usize..]);
                self.report.tiers[place + 1].written_pages += u64::from(good);
                self.offer(cache.host, place + 1, there, &Known::default())
            }
            Errand::Promote(rise) => self.risen(cache, rise),
            Errand::Onboard { load, parts } => {
                let mut come = 0;
                for (place, ticket, pages) in parts {
                    let good = self.settle(place, ticket, pages)?;
                    self.report.tiers[place].read_pages += u64::from(good);
                    come += good;
                }
                self.bring_in(cache, load, come)
            }
            Errand::SwapIn(back) => self.swapped_in(cache, &back),
        }
    }

    /// Sends pages that are ready then over a tier's link.
    fn carry(&mut self, Leg { place, way, pages, to_pool }: Leg, ready: f64) -> Passage {
        let options = &self.levels[place].options;
        let bytes = f64::from(pages) * options.page_bytes;
        let moved = &mut self.report.tiers[place];
        match way {
            Way::Read => moved.read_bytes += bytes,
            Way::Write => moved.written_bytes += bytes,
        }
        let path = self.links.path(self.levels[place].path(to_pool));
        self.links.net().carry(&path, way, ready, bytes)
    }

    /// Sends pages over one tier's link and then over another's.
    fn carry_both(&mut self, first: Leg, then: Leg, ready: f64) -> (Passage, Option<Leg>) {
        let carried = self.carry(first, ready);
        if carried.shared.is_some() {
            // When it ends is not known yet.
            return (carried, Some(then));
        }
        (self.carry(then, carried.end), None)
    }

    fn start(&mut self, carried: impl IntoIterator<Item = Passage>, errand: Errand) {
        self.start_legs((carried, None), errand);
    }

    fn start_legs(
        &mut self,
        (carried, next): (impl IntoIterator<Item = Passage>, Option<Leg>),
        errand: Errand,
    ) {
        self.started += 1;
        let (number, carried) = (self.started, carried.into_iter().collect::<Vec<_>>());
        let ends = carried.iter().map(|one| one.end);
        let end = ends.fold(f64::NEG_INFINITY, f64::max);
        self.under_way.push(Reverse(Transfer { end, number, carried, next, errand }));
    }

    /// Whether a transfer has ended by now. A leg that follows begins.
    fn has_arrived(&mut self, transfer: &mut Transfer) -> bool {
        let now = self.now;
        let mut end = f64::NEG_INFINITY;
        let mut net = self.links.net();
        transfer.carried.retain(|&passage| {
            let late = net.arrived(passage, now).err();
            end = end.max(late.unwrap_or(f64::NEG_INFINITY));
            late.is_some()
        });
        drop(net);
        if transfer.carried.is_empty() {
            let Some(leg) = transfer.next.take() else { return true };
            let carried = self.carry(leg, now);
            end = carried.end;
            transfer.carried.push(carried);
        }
        transfer.end = end;
        false
    }

    /// Blocks are copied out of the pool, and the step that follows waits for them.
    fn copy(&mut self, pages: u32) {
        let down = Leg { place: 0, way: Way::Write, pages, to_pool: true };
        let carried = self.carry(down, self.now);
        self.copied_at = self.copied_at.max(carried.end);
        if carried.shared.is_some() {
            self.copying.push(carried);
        }
    }

    // --- what enters and leaves a tier ------------------------------------------------------------

    /// Room in a tier for as much of a prefix as there is room for. What is evicted for it has left.
    fn reserve(
        &mut self,
        host: &mut dyn Host,
        place: usize,
        keys: &[Key],
        known: &Known,
    ) -> Result<Option<(StoreResult, u32)>, Stopped> {
        let mut found = self.levels[place].reserve(host, keys, known)?;
        if let Some((stored, _)) = &mut found {
            self.evicted(place, &std::mem::take(&mut stored.evicted));
        }
        Ok(found)
    }

    /// Ends a transfer with so many pages good, at most. Returns how many are.
    fn settle(&mut self, place: usize, ticket: u64, good: u32) -> Result<u32, Error> {
        let good = good.min(self.levels[place].pages.moving_of(ticket)?);
        let ended = self.levels[place].pages.end(ticket, good, false)?;
        self.touch(place);
        self.left(place, &ended.forgotten);
        Ok(ended.good)
    }

    /// Ends a transfer that brought nothing.
    fn give_up(&mut self, place: usize, ticket: u64) -> Result<(), Error> {
        let gone = self.levels[place].pages.cancel(ticket)?;
        let changes = self.levels[place].changes;
        self.left(place, &gone);
        self.settle(place, ticket, 0)?;
        // What was reserved in this turn no other server has seen.
        self.levels[place].changes = changes;
        Ok(())
    }

    /// Pages that a tier and the one right below it both have by now.
    fn note_backed(&mut self, place: usize, keys: &[Key]) {
        let below = self.levels[place + 1].pages.find(keys);
        let both = self.levels[place].pages.find(keys).min(below) as usize;
        self.levels[place].pages.set_backed(&keys[..both], true);
    }

    /// A request uses pages, so they are no longer about to be evicted.
    fn used(&mut self, place: usize, keys: &[Key]) {
        let level = &mut self.levels[place];
        if !level.cleaned.is_empty() {
            for key in keys {
                level.cleaned.remove(key);
            }
        }
    }

    /// Pages have made room in a tier.
    fn evicted(&mut self, place: usize, gone: &EvictedPages) {
        if !gone.is_empty() && place + 1 < self.levels.len() {
            self.report.dropped_pages += self.levels[place].take_unbacked();
        }
        if place > 0 {
            let cleaned = &mut self.levels[place - 1].cleaned;
            for (key, _) in gone {
                if cleaned.get(key).is_some() {
                    cleaned.set(*key, true);
                }
            }
        }
        self.report.tiers[place].evicted_pages += gone.len() as u64;
        self.left(place, gone);
    }

    /// Pages are no longer in a tier, for whatever reason.
    fn left(&mut self, place: usize, gone: &EvictedPages) {
        if gone.is_empty() {
            return;
        }
        self.version += 1;
        self.note_gone(place, &keys_of(gone));
        if place > 0 {
            self.levels[place - 1].pages.set_backed(&keys_of(gone), false);
        }
        self.used(place, &keys_of(gone));
    }
}

/// When the last of some passages has arrived, as far as others are known.
fn end_of(net: &mut Net, carried: &[Passage]) -> f64 {
    carried.iter().map(|&one| net.end_of(one)).fold(f64::NEG_INFINITY, f64::max)
}
