//! The operations of a KV cache, over one pool.
//!
//! Every operation counts its blocks first and moves them afterwards: what is refused has changed
//! nothing (rule 2). By purpose:
//!
//! | room | purpose |
//! | --- | --- |
//! | `allocate` | a request is looked up, counted, allocated; policies outside the core are asked |
//! | `grow` | slots for more tokens; blocks given up again |
//! | `commit` | computed blocks become findable |
//! | `fork`, `end` | sequences split, are released, aborted, preempted |
//! | `inflight` | KV from elsewhere and KV that another sequence computes |
//! | `step` | all of these in one call |
//! | `retain` | what is kept longer: pins, hints, priorities; handles attached to prefixes |
//! | `blocks` | single blocks, the size of the pool, the cache forgotten |
//! | `inspect` | looking inside: reads, counters, dumps, snapshots, integrity |

mod allocate;
mod blocks;
mod commit;
mod end;
mod fork;
mod grow;
mod inflight;
mod inspect;
mod retain;
mod step;

pub use allocate::Allocation;
pub use allocate::answers::MatchAnswer;
pub use allocate::can_allocate::AllocStatus;
pub use allocate::lookup::Hit;
pub use blocks::change::Change;
use blocks::pressure::Capacity;
pub use blocks::pressure::Pressure;
pub use commit::CommitResult;
pub use commit::admission::Due;
pub use commit::remap::Remap;
pub use end::preemption::{HALF_LIFE, Heat, PreemptionCandidate, PreemptionOrder};
pub use grow::Ids;
pub use grow::windows::VisibleRange;
pub use inflight::expiry::{ExpiryResult, Owners, TicketKind};
pub use inspect::dump::DumpFormat;
pub use inspect::read::PageRange;
pub use inspect::snapshot::{SequenceCopy, Snapshot, SnapshotBlocks};
pub use retain::lock::{PinRequest, PinResult};
pub use step::{Extent, Growth, Refusal, Step, StepResult, Waiting};

use hashbrown::HashMap;

use crate::error::{Error, Limit, Result, WHOLE_POOL};
use crate::groups::Layout;
use crate::hash::{Hasher, Key};
use crate::held_blocks::HeldBlocks;
use crate::locks::Locks;
use crate::options::Options;
use crate::policy::Eviction;
use crate::pool::{BlockId, Pool};
use crate::retention::InnerBlocks;
use crate::sequence::{SeqId, Sequence, Sequences};
use crate::stats::{Observer, Stats};
use crate::store::Store;
use crate::tenants::{Account, OTHERS, PerTenant, Tenant};
use crate::transfers::{CopyPlan, Transfers};

/// A KV cache's control plane.
pub struct Manager {
    options: Options,
    layout: Layout,
    hasher: Hasher,
    /// The blocks, and what is known of their content.
    store: Store,
    /// What a matcher outside said of prompts, if there is one.
    answers: Option<Box<allocate::answers::MatchAnswers>>,
    sequences: Sequences,
    /// What is in flight.
    transfers: Transfers,
    locks: Locks,
    /// What becomes of the blocks that windows and states leave behind within prompts, by tenant.
    inner: Vec<InnerBlocks>,
    observer: Observer,
    /// Steps checked: the number of the last one.
    checked: u64,
    capacity: Capacity,
    /// Numbers of tenants by name; none where they are not told apart.
    numbers: HashMap<Vec<u8>, u8>,
    /// What sequences that came in with their whole length may yet take.
    promised: allocate::promises::Promises,
    /// Blocks held one by one.
    held_blocks: HeldBlocks,
    /// Table entries changed since the caller last asked.
    remapped: Vec<Remap>,
    scratch: Scratch,
}

/// Buffers that outlive a call so that steady state allocates nothing.
#[derive(Debug, Default)]
struct Scratch {
    keys: Vec<Key>,
    hits: Vec<Vec<BlockId>>,
    blocks: Vec<BlockId>,
    next_use: Vec<u32>,
}

impl Manager {
    /// A manager over an empty pool.
    ///
    /// # Errors
    /// [`Error::Invalid`] for options outside their limits; [`Error::PolicyRefused`].
    pub fn new(options: Options, policy: Box<dyn Eviction>) -> Result<Self> {
        options.validate()?;
        check_policies(&options.tenants, &*policy)?;
        // No request is of the tenant that has the public blocks: 0xFF is in no name.
        let name = |t: &Tenant| if t.is_public { vec![0xFF] } else { t.name.clone() };
        let names = options.tenants.iter().map(name);
        let numbers = names.zip(1..).collect();
        let layout = Layout::new(&options.groups, options.block_size)?;
        let groups = options.groups.len();
        let span = layout.groups().iter().map(|reach| reach.span).max().unwrap_or(0);
        Ok(Self {
            hasher: Hasher::new(options.chain_hash(), options.block_size, &options.fingerprint),
            store: Store::new(&options, span, policy)?,
            answers: None,
            sequences: Sequences::default(),
            transfers: Transfers::default(),
            locks: Locks::default(),
            inner: vec![InnerBlocks::default(); 1 + options.tenants.len()],
            observer: Observer::new(options.observe.statistics),
            checked: 0,
            capacity: Capacity::default(),
            numbers,
            promised: allocate::promises::Promises::default(),
            held_blocks: HeldBlocks::default(),
            remapped: Vec::new(),
            scratch: Scratch { hits: vec![Vec::new(); groups], ..Scratch::default() },
            options,
            layout,
        })
    }

    /// What its layer groups have in common.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The options it was built from.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The blocks.
    pub fn pool(&self) -> &Pool {
        self.store.pool()
    }

    /// The eviction policy.
    pub fn policy(&self) -> &dyn Eviction {
        self.store.policy()
    }

    /// The first `most` cached blocks that the policy has in its order, the next to be evicted first.
    pub fn eviction_order(&self, most: u32) -> Vec<BlockId> {
        self.store.policy().order(self.store.view(), most as usize)
    }

    /// The counters.
    pub fn stats(&self) -> Stats {
        *self.store.stats()
    }

    /// Blocks that were taken from the pool and are free again: it follows from those that are not.
    pub fn freed(&self) -> u64 {
        let taken = self.store.stats().allocated + self.store.stats().taken;
        let out = self.pool().usable() - self.pool().free();
        taken - u64::from(out)
    }

    /// The logical clock: one tick an operation that changed something.
    pub fn now(&self) -> u64 {
        self.store.now()
    }

    /// How many sequences are live.
    pub fn num_running(&self) -> usize {
        self.sequences.len() - self.transfers.orphans().len()
    }

    /// Their handles.
    pub fn running(&self) -> Vec<SeqId> {
        self.sequences
            .iter()
            .map(|(seq, _)| seq)
            .filter(|&seq| !self.transfers.orphans().has(seq))
            .collect()
    }

    /// A live sequence.
    ///
    /// # Errors
    /// [`Error::UnknownSequence`], [`Error::StaleSequence`].
    pub fn sequence(&self, seq: SeqId) -> Result<&Sequence> {
        self.sequences.get(seq)
    }

    /// Closes the plan of copies gathered since the last call.
    pub fn take_plan(&mut self) -> Option<CopyPlan> {
        self.transfers.take_plan(&mut self.store)
    }

    /// From now on, all keys are [numbered](Key::number) below `count`, and found by their number: a replay knows
    /// every block beforehand. The caller: gives requests as keys, each key with a number of its own. What is
    /// found is the same; nothing changes where keys alone do not name blocks, or some are findable already.
    pub fn number_keys(&mut self, count: u32) {
        let plain = self.options.groups.len() == 1 && !self.options.partial_hits;
        let index = self.store.index();
        if plain && index.takes_keys() && !index.wants_proof() && index.is_empty() {
            self.store.number_keys(count);
        }
    }

    fn block_size(&self) -> u32 {
        self.options.block_size
    }

    /// Whether anything goes by keys; otherwise none is hashed.
    #[inline]
    pub fn wants_keys(&self) -> bool {
        self.store.index().takes_keys()
            || self.store.is_logging()
            || self.admits_by_key()
            || self.answers.is_some()
            || self.store.policy().wants_keys()
    }

    fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.options.block_size)
    }

    /// `tokens`, less those behind the last boundary that all groups can serve.
    fn whole_units(&self, tokens: u32) -> u32 {
        tokens - tokens % self.layout.unit_tokens()
    }

    /// Refuses what needs more blocks than a tenant can have; `acquired` cached blocks are spoken for.
    #[inline]
    fn check_room(&mut self, needed: u32, acquired: u32, tenant: u8) -> Result<()> {
        let room = self.room_for(needed, acquired, tenant);
        room.inspect_err(|error| self.count_refusal(error, tenant))
    }

    /// [`Self::check_room`] without counting a refusal.
    #[inline]
    fn room_for(&self, needed: u32, acquired: u32, tenant: u8) -> Result<()> {
        if self.capacity.is_asleep() {
            return Err(Error::Asleep);
        }
        self.store.check_room(needed, acquired, tenant)
    }

    /// The number of the tenant of that name; [`OTHERS`] if it is not configured.
    #[inline]
    fn tenant_number(&self, name: &[u8]) -> u8 {
        if self.numbers.is_empty() { OTHERS } else { self.numbered(name) }
    }

    #[cold]
    fn numbered(&self, name: &[u8]) -> u8 {
        self.numbers.get(name).copied().unwrap_or(OTHERS)
    }

    /// That `needed` blocks are more than `tenant` can ever have.
    #[cold]
    fn never_fits(&self, needed: u64, tenant: u8) -> Error {
        let (total, limit) = self.store.limit(tenant);
        let name = self.numbers.iter().find(|&(_, &number)| number == tenant);
        let name = name.map(|(name, _)| format!("tenant {:?}", String::from_utf8_lossy(name)));
        let limit = match (limit, name) {
            (Limit::Pool, _) => WHOLE_POOL,
            (Limit::Quota, Some(name)) => format!("{name} has a quota of").into(),
            (_, Some(name)) => format!("the floors of other tenants leave {name}").into(),
            (_, None) => "the floors of tenants leave all others".into(),
        };
        Error::NeverFits { needed, total, limit }
    }

    /// What each tenant has, by number, the others first; none where tenants are not told apart.
    pub fn accounts(&self) -> &[Account] {
        self.store.accounts()
    }
}

/// Refuses one policy for several tenants: each needs an instance of its own.
///
/// # Errors
/// [`Error::Invalid`].
fn check_policies(tenants: &[Tenant], policy: &dyn Eviction) -> Result<()> {
    let has = policy.tenants().map_or(1, PerTenant::len);
    let needs = if tenants.is_empty() { 1 } else { tenants.len() + 1 };
    if has == needs {
        return Ok(());
    }
    let limit = format!("{needs} are needed: one for each tenant and one for all others");
    Err(Error::Invalid { what: "policies", value: has.to_string(), limit })
}
