//! One policy: its table, its state, the memory it has a share of for each block.

use std::any::Any;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

use kvframe_core::policy::{Access, RemovalCause, View};
use kvframe_core::pool::BlockId;

use crate::v1::{self, Event, FACTS, Table};

/// Memory of whole blocks' shares, aligned to 16 bytes.
type Memory = Vec<u128>;

/// The bit of the next uses, which come with the request.
const NEXT_USES: u32 = 8;

const UNIT: usize = size_of::<u128>();

/// A fault in one line.
pub type Fault = String;

/// A policy with its state. Made when the pool's size is known; ended, once, when dropped.
pub struct Policy {
    table: Table,
    options: Vec<f64>,
    /// Null before the first [`Policy::size`] where there is a `create`.
    state: *mut c_void,
    /// Whether `create` has made it.
    made: bool,
    /// The state, where the core gives it.
    own: Memory,
    memory: Memory,
    /// Blocks that `memory` has room for.
    room: u32,
    /// The number of blocks of which the policy was notified.
    notified: u32,
    facts: Facts,
    /// What keeps the functions loaded; dropped last.
    _keep: Box<dyn Any + Send>,
}

/// Facts of blocks that become findable.
#[derive(Debug, Default)]
struct Facts {
    parents: Vec<u32>,
    depths: Vec<u32>,
    keys: Vec<[u64; 2]>,
    next_uses: Vec<u32>,
}

impl Facts {
    /// The request of an event of `n` blocks, with their next uses where they are `wanted`.
    fn access_of(&mut self, wanted: bool, n: usize, access: &Access<'_>) -> v1::Access {
        let mut next_uses = null();
        if wanted {
            self.next_uses.clear();
            self.next_uses.extend((0..n).map(|i| access.next(i)));
            next_uses = self.next_uses.as_ptr();
        }
        v1::Access {
            session: access.meta.session,
            turn: access.meta.turn,
            request_class: access.meta.class,
            priority: access.meta.priority,
            tokens: access.tokens,
            next_uses,
        }
    }
}

// SAFETY: the contract of the header: any one thread at a time may call, and what the pointers of
// the table lead to is not bound to a thread. `own` and `memory` are ours.
unsafe impl Send for Policy {}

impl Policy {
    /// `keep` is held as long as functions of `table` may be called.
    ///
    /// # Safety
    /// `table` passed [`crate::check::read`] or [`crate::check::sense`], its functions do as
    /// `kvframe_policy.h` says, and `initial` points to `state_bytes` bytes.
    #[must_use]
    pub unsafe fn new(table: Table, options: Vec<f64>, keep: Box<dyn Any + Send>) -> Self {
        let bytes = table.state_bytes as usize;
        let mut own = vec![0; bytes.div_ceil(UNIT)];
        if !table.initial.is_null() {
            // SAFETY: `own` is that long, and the caller says that `initial` is.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    table.initial.cast::<u8>(),
                    own.as_mut_ptr().cast::<u8>(),
                    bytes,
                );
            }
        }
        let state = if bytes > 0 { own.as_mut_ptr().cast() } else { null_mut() };
        Self {
            table,
            options,
            state,
            made: false,
            own,
            memory: Memory::new(),
            room: 0,
            notified: 0,
            facts: Facts::default(),
            _keep: keep,
        }
    }

    /// Whether it scores candidates; else it names victims.
    #[must_use]
    pub fn scores(&self) -> bool {
        self.table.score.is_some()
    }

    /// Whether it listens to what may be evicted.
    #[must_use]
    pub fn hears_evictable(&self) -> bool {
        self.table.on_evictable.is_some()
    }

    /// Whether it wants the keys of blocks that become findable.
    #[must_use]
    pub fn wants_block_keys(&self) -> bool {
        self.table.wants >> FACTS & 4 != 0
    }

    /// Whether it reads this column.
    #[must_use]
    pub fn wants_column(&self, column: usize) -> bool {
        self.table.wants & (1 << column) != 0
    }

    /// Candidates that it asks for, 0 for all.
    #[must_use]
    pub fn window(&self) -> u32 {
        match self.table.window {
            0 => v1::WINDOW,
            v1::ALL => 0,
            window => window,
        }
    }

    /// Bytes of the state that the core gave.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        self.own.len() * UNIT
    }

    /// Makes the state for a pool of `blocks`, or notifies it of more.
    ///
    /// # Errors
    /// It cannot serve them.
    pub fn size(&mut self, blocks: u32, block_size: u32) -> Result<(), Fault> {
        if blocks <= self.notified {
            return Ok(());
        }
        match (self.table.create, self.table.resize) {
            (Some(create), _) if !self.made => self.create(create, blocks, block_size)?,
            (_, Some(resize)) if self.notified > 0 => {
                // SAFETY: `resize` is of this table, and `state` its state.
                let code = unsafe { resize(self.state, blocks) };
                done("resize", code)?;
            }
            (Some(_), None) => {
                return Err(format!(
                    "it was created for {} blocks and has no resize: {blocks} are too many",
                    self.notified
                ));
            }
            _ => {}
        }
        self.notified = blocks;
        Ok(())
    }

    fn create(&mut self, create: v1::Create, blocks: u32, block_size: u32) -> Result<(), Fault> {
        let config = v1::Config {
            size: size_of::<v1::Config>() as u32,
            blocks,
            block_size,
            n_options: self.options.len() as u32,
            options: self.options.as_ptr(),
        };
        // SAFETY: `create` is of this table; `config` outlives the call.
        self.state = unsafe { create(&raw const config) };
        if self.state.is_null() {
            return Err("create answered a null pointer".into());
        }
        self.made = true;
        Ok(())
    }

    /// The memory, with a share for each block there is; null if it wants none.
    #[inline]
    fn memory(&mut self, view: View<'_>) -> *mut c_void {
        if self.table.block_bytes == 0 {
            return null_mut();
        }
        let created = view.pool.created();
        if self.room < created {
            self.grow(created, view.pool.capacity());
        }
        self.memory.as_mut_ptr().cast()
    }

    #[cold]
    fn grow(&mut self, created: u32, capacity: u32) {
        let room = created.max(self.room.saturating_mul(2)).min(capacity);
        let bytes = room as usize * self.table.block_bytes as usize;
        self.memory.resize(bytes.div_ceil(UNIT), 0);
        self.room = room;
    }

    /// See [`kvframe_core::policy::Eviction::insert`].
    ///
    /// # Errors
    /// It failed.
    pub fn insert(
        &mut self,
        blocks: &[BlockId],
        access: &Access<'_>,
        view: View<'_>,
    ) -> Result<(), Fault> {
        let Some(insert) = self.table.insert else { return Ok(()) };
        let memory = self.memory(view);
        let (wants, facts) = (self.table.wants >> FACTS, &mut self.facts);
        let mut parents = null();
        let mut depths = null();
        let mut keys = null();
        if wants & 1 != 0 {
            facts.parents.clear();
            facts.parents.extend(blocks.iter().map(|&b| view.pool.parent(b)));
            parents = facts.parents.as_ptr();
        }
        if wants & 2 != 0 {
            facts.depths.clear();
            facts.depths.extend(blocks.iter().map(|&b| view.pool.depth(b)));
            depths = facts.depths.as_ptr();
        }
        if wants & 4 != 0 {
            let words =
                |&b: &BlockId| [view.pool.key(b).0 as u64, (view.pool.key(b).0 >> 64) as u64];
            facts.keys.clear();
            facts.keys.extend(blocks.iter().map(words));
            keys = facts.keys.as_ptr().cast();
        }
        let c_access = facts.access_of(wants & NEXT_USES != 0, blocks.len(), access);
        let n = blocks.len() as u32;
        // SAFETY: `insert` is of this table; the arrays are n long and outlive the call.
        let code = unsafe {
            insert(
                self.state,
                memory,
                view.now,
                n,
                blocks.as_ptr(),
                parents,
                depths,
                keys,
                &raw const c_access,
            )
        };
        done("insert", code)
    }

    /// See [`kvframe_core::policy::Eviction::hit`].
    ///
    /// # Errors
    /// It failed.
    pub fn hit(
        &mut self,
        blocks: &[BlockId],
        access: &Access<'_>,
        view: View<'_>,
    ) -> Result<(), Fault> {
        let Some(hit) = self.table.hit else { return Ok(()) };
        let memory = self.memory(view);
        let wanted = self.table.wants >> FACTS & NEXT_USES != 0;
        let c_access = self.facts.access_of(wanted, blocks.len(), access);
        let n = blocks.len() as u32;
        // SAFETY: `hit` is of this table; the array is n long, all outlives the call.
        let code =
            unsafe { hit(self.state, memory, view.now, n, blocks.as_ptr(), &raw const c_access) };
        done("hit", code)
    }

    /// See [`kvframe_core::policy::Eviction::acquire`].
    ///
    /// # Errors
    /// It failed.
    pub fn acquire(&mut self, blocks: &[BlockId], view: View<'_>) -> Result<(), Fault> {
        self.event("acquire", self.table.acquire, blocks, view)
    }

    /// See [`kvframe_core::policy::Eviction::release`].
    ///
    /// # Errors
    /// It failed.
    pub fn release(&mut self, blocks: &[BlockId], view: View<'_>) -> Result<(), Fault> {
        self.event("release", self.table.release, blocks, view)
    }

    /// `blocks` may be evicted from now on.
    ///
    /// # Errors
    /// It failed.
    pub fn on_evictable(&mut self, blocks: &[BlockId], view: View<'_>) -> Result<(), Fault> {
        self.event("on_evictable", self.table.on_evictable, blocks, view)
    }

    #[inline]
    fn event(
        &mut self,
        name: &'static str,
        event: Option<Event>,
        blocks: &[BlockId],
        view: View<'_>,
    ) -> Result<(), Fault> {
        let Some(event) = event else { return Ok(()) };
        let memory = self.memory(view);
        // SAFETY: `event` is of this table; the array is as long as said and outlives the call.
        let code =
            unsafe { event(self.state, memory, view.now, blocks.len() as u32, blocks.as_ptr()) };
        done(name, code)
    }

    /// See [`kvframe_core::policy::Eviction::remove`].
    ///
    /// # Errors
    /// It failed.
    pub fn remove(
        &mut self,
        block: BlockId,
        cause: RemovalCause,
        view: View<'_>,
    ) -> Result<(), Fault> {
        let Some(remove) = self.table.remove else { return Ok(()) };
        let memory = self.memory(view);
        let cause = u32::from(cause != RemovalCause::Evicted);
        // SAFETY: `remove` is of this table.
        done("remove", unsafe { remove(self.state, memory, view.now, block, cause) })
    }

    /// The block that it wants to be evicted next. Not checked.
    ///
    /// # Errors
    /// It failed.
    pub fn victim(&mut self, view: View<'_>) -> Result<BlockId, Fault> {
        let Some(victim) = self.table.victim else { return Err("it has no victim".into()) };
        let memory = self.memory(view);
        // SAFETY: `victim` is of this table.
        let answer = unsafe { victim(self.state, memory, view.now) };
        if answer < 0 {
            return Err(format!("victim answered error {answer}"));
        }
        u32::try_from(answer).map_err(|_| format!("victim named {answer}, which is no block id"))
    }

    /// Scores of candidates into `out`. `columns` are as long as `out`, or null.
    ///
    /// # Errors
    /// It failed.
    pub(crate) fn score(
        &mut self,
        columns: &[*const c_void; v1::COLUMNS.len()],
        out: &mut [f64],
        view: View<'_>,
    ) -> Result<(), Fault> {
        let Some(score) = self.table.score else { return Err("it has no score".into()) };
        let memory = self.memory(view);
        // SAFETY: `score` is of this table; `out` and the columns that it wants have as many
        // entries as said, and outlive the call.
        let code = unsafe {
            score(
                self.state,
                memory,
                view.now,
                out.len() as u32,
                columns.as_ptr(),
                out.as_mut_ptr(),
            )
        };
        done("score", code)
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        if let (true, Some(destroy)) = (self.made, self.table.destroy) {
            // SAFETY: `create` has made the state, and nothing else ends it.
            unsafe { destroy(self.state) };
        }
    }
}

#[inline]
fn done(name: &str, code: i32) -> Result<(), Fault> {
    if code == 0 { Ok(()) } else { Err(format!("{name} answered error {code}")) }
}
