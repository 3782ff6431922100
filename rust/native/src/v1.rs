//! Version 1 of the interface. `kvframe_policy.h` documents it for users and declares the same in
//! C; `tests/native` checks that the two agree.

use std::ffi::c_void;

/// First field of every table of every version: "KVFE" in memory of a little-endian machine.
pub const MAGIC: u32 = 0x4546_564B;
/// Another major version is another interface.
pub const MAJOR: u16 = 1;
/// A later minor version adds fields at the end.
pub const MINOR: u16 = 0;
/// The name of a capsule that holds a [`Table`].
pub const CAPSULE: &str = "kvframe.eviction.v1";

/// No block; no place; no victim.
pub const NONE: u32 = u32::MAX;
/// A next use that is not known.
pub const NEVER: u32 = u32::MAX;
/// A window of all candidates.
pub const ALL: u32 = u32::MAX;
/// The window of a policy that does not say.
pub const WINDOW: u32 = 256;

/// Bits of [`Table::wants`] from here on are facts that come with `insert`; those below are columns
/// for `score`, by their number.
pub const FACTS: u32 = 16;
/// Columns for `score`, by number.
pub const COLUMNS: [&str; 12] = [
    "block",
    "depth",
    "parent",
    "last_use",
    "inserted",
    "uses",
    "reach",
    "session",
    "turn",
    "request_class",
    "priority",
    "next_use",
];
/// Facts of events, by number: of `insert`, and the last one of `hit` too.
pub const FACT_NAMES: [&str; 4] = ["parents", "depths", "keys", "next_uses"];

/// The bit of a column or a fact.
#[must_use]
pub fn want(name: &str) -> Option<u32> {
    let column = COLUMNS.iter().position(|known| *known == name);
    let fact = FACT_NAMES.iter().position(|known| *known == name);
    column.or(fact.map(|bit| bit + FACTS as usize)).map(|bit| 1 << bit)
}

/// What every table of every version begins with.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Head {
    /// [`MAGIC`].
    pub magic: u32,
    /// [`MAJOR`].
    pub major: u16,
    /// [`MINOR`].
    pub minor: u16,
    /// Bytes of the table.
    pub size: u32,
}

/// What a policy is made for.
#[derive(Debug)]
#[repr(C)]
pub struct Config {
    /// Bytes of this struct.
    pub size: u32,
    /// Block ids are below this.
    pub blocks: u32,
    /// Tokens of a block.
    pub block_size: u32,
    /// How many options.
    pub n_options: u32,
    /// The options' values in the order of their schema.
    pub options: *const f64,
}

/// Who uses the blocks of an event.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Access {
    /// Session; 0 if the engine passed none.
    pub session: u64,
    /// Turn of the session.
    pub turn: u32,
    /// Class of the request.
    pub request_class: u32,
    /// Its priority.
    pub priority: i32,
    /// Its known length in tokens.
    pub tokens: u32,
    /// When each block of the event is used next, [`NEVER`] where that is not known; null where the
    /// policy does not want it.
    pub next_uses: *const u32,
}

/// Makes a state.
pub type Create = unsafe extern "C" fn(*const Config) -> *mut c_void;
/// Ends one.
pub type Destroy = unsafe extern "C" fn(*mut c_void);
/// There may be more blocks from now on. Not 0: it cannot serve them.
pub type Resize = unsafe extern "C" fn(*mut c_void, u32) -> i32;
/// Blocks became findable: state, memory, now, n, blocks, parents, depths, keys, use.
pub type Insert = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    u64,
    u32,
    *const u32,
    *const u32,
    *const u32,
    *const u64,
    *const Access,
) -> i32;
/// An allocation found blocks.
pub type Hit =
    unsafe extern "C" fn(*mut c_void, *mut c_void, u64, u32, *const u32, *const Access) -> i32;
/// Something else happened to blocks.
pub type Event = unsafe extern "C" fn(*mut c_void, *mut c_void, u64, u32, *const u32) -> i32;
/// A block is gone: why is 0 if it was evicted, 1 if it was invalidated.
pub type Remove = unsafe extern "C" fn(*mut c_void, *mut c_void, u64, u32, u32) -> i32;
/// The block that is evicted next, [`NONE`], or an error below 0.
pub type Victim = unsafe extern "C" fn(*mut c_void, *mut c_void, u64) -> i64;
/// Scores of n candidates, by columns.
pub type Score =
    unsafe extern "C" fn(*mut c_void, *mut c_void, u64, u32, *const *const c_void, *mut f64) -> i32;

/// A policy.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Table {
    /// The version.
    pub head: Head,
    /// Columns and facts that it reads.
    pub wants: u32,
    /// Candidates offered to `score` at a time: 0 for [`WINDOW`], or [`ALL`].
    pub window: u32,
    /// Bytes of memory for each block, given by the core.
    pub block_bytes: u32,
    /// Bytes of a state given by the core, where there is no `create`.
    pub state_bytes: u32,
    /// Must be 0.
    pub reserved: u32,
    /// What such a state begins as; null: zeros.
    pub initial: *const c_void,
    /// Makes a state; null: the core gives `state_bytes` that begin as `initial`.
    pub create: Option<Create>,
    /// Frees what `create` made.
    pub destroy: Option<Destroy>,
    /// Tells a state that the pool has another size.
    pub resize: Option<Resize>,
    /// Blocks became findable.
    pub insert: Option<Insert>,
    /// An allocation found them.
    pub hit: Option<Hit>,
    /// Cached ones got an owner.
    pub acquire: Option<Event>,
    /// The last owner of each left; in the order of their prefix.
    pub release: Option<Event>,
    /// These may be evicted from now on, until they are acquired or removed.
    pub on_evictable: Option<Event>,
    /// Gone.
    pub remove: Option<Remove>,
    /// Names the block that is evicted next.
    pub victim: Option<Victim>,
    /// Scores candidates; lower is evicted first.
    pub score: Option<Score>,
}

impl Table {
    /// A table of this version without any function.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            head: Head { magic: MAGIC, major: MAJOR, minor: MINOR, size: size_of::<Self>() as u32 },
            wants: 0,
            window: 0,
            block_bytes: 0,
            state_bytes: 0,
            reserved: 0,
            initial: std::ptr::null(),
            create: None,
            destroy: None,
            resize: None,
            insert: None,
            hit: None,
            acquire: None,
            release: None,
            on_evictable: None,
            remove: None,
            victim: None,
            score: None,
        }
    }
}
