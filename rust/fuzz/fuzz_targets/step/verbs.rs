//! What an input says.

use arbitrary::Arbitrary;

#[derive(Arbitrary, Debug)]
pub struct Input {
    pub setup: Setup,
    pub verbs: Vec<Verb>,
}

#[derive(Arbitrary, Debug)]
pub struct Setup {
    pub blocks: u8,
    pub block_size: u8,
    /// A kind each, and its window.
    pub groups: Vec<u8>,
    pub hash: u8,
    pub policy: u8,
    pub prefix_caching: bool,
    pub null_block: bool,
    pub reserve: u8,
    pub radix: bool,
    pub sessions: bool,
    pub pin_cap: u8,
    pub remap_duplicates: bool,
    pub partial_hits: bool,
}

/// A sequence or ticket by number, ended ones among them; now and then a number nobody gave out.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub struct Pick(pub u8);

#[derive(Arbitrary, Debug)]
pub struct Request {
    /// Tokens of a small vocabulary, so that prefixes meet.
    pub tokens: Vec<u8>,
    pub only_keys: bool,
    pub cache_salt: bool,
    pub lora_name: bool,
    pub item: Option<(u8, u8)>,
    pub unread: bool,
    pub uninserted: bool,
    pub resumed: bool,
    pub partial: bool,
    pub chunk: Option<u8>,
    pub until: Option<u8>,
    pub max_seq_len: u8,
    pub num_external_tokens: u8,
    pub full_sequence_must_fit: bool,
    pub join: bool,
    pub next_use: Vec<u8>,
    pub session: u8,
    pub keep: Option<Keep>,
}

/// Of the tokens up to a length, and of what is decoded.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub struct Keep {
    pub end: u8,
    pub priority: u8,
    pub duration: Option<u8>,
    pub then: u8,
    pub linear: bool,
}

#[derive(Arbitrary, Debug)]
pub enum Verb {
    Allocate(Request),
    Lookup(Request),
    Append(Pick, Vec<u8>),
    AppendUnknown(Pick, u8),
    Fill(Pick, Vec<u8>),
    Extend(Pick, u8),
    Commit(Pick, u8),
    /// All that has slots is computed.
    CommitAll(Pick),
    Truncate(Pick, u8),
    Fork(Pick),
    Release(Pick),
    ReleaseBehind(Pick, u8),
    Pass(u8),
    TakePlan,
    Done(Pick),
    Failed(Pick),
    Loaded(Pick, u8),
    Lease(Pick, u8),
    Lend(u8),
    GiveBack(Vec<u8>),
    ClearCache,
    SetFingerprint(u8),
    Collect(u8),
    Resize(u8),
    Sleep,
    Wake,
    PreemptionOrder(Vec<Pick>),
    PreemptionTo(Vec<Pick>, u8),
    Touch(Vec<Pick>),
    UnpinAll,
    Retain(u8, Keep),
    EndSession(u8),
    PinSession(u8, Option<u8>),
    Step(Step),
    Held(Held),
}

/// What is kept without a sequence, and verbs about it.
#[derive(Arbitrary, Debug)]
pub enum Held {
    Reserve(Pick, u8),
    ForkPrefix(Pick, u8, bool),
    Preempt(Pick),
    Attach(Pick, u8),
    TakeDropped,
    Pin(Request),
    Unpin(u8),
    SetDeadline(Pick, u8),
    Expire(u8),
    Publish(u8, Option<u8>, u8),
    Claim(Vec<u8>),
    Free(Vec<u8>),
    Look(Pick, u8, u8, u8),
    Changes,
    Rematch(Pick, Option<u8>),
    /// Of a salt, an adapter and a session, those that are given.
    ClearScope(Option<bool>, Option<bool>, Option<u8>),
    /// What makes room, by a rule of that number, ends behind a fence.
    MakeRoom(u8, u8, Option<u8>),
    PreemptBehind(Pick, u8),
    ExpectJoins,
}

#[derive(Arbitrary, Debug)]
pub struct Step {
    pub done: Vec<Pick>,
    pub failed: Vec<Pick>,
    pub truncate: Vec<(Pick, u8)>,
    pub commit: Vec<(Pick, u8)>,
    pub release: Vec<Pick>,
    pub fork: Vec<Pick>,
    pub preempt: Vec<Pick>,
    pub fence: Option<u8>,
    pub passed: Option<u8>,
    pub append: Vec<(Pick, u8)>,
    pub extend: Vec<(Pick, u8)>,
    pub allocate: Vec<Request>,
    pub token_budget: Option<u8>,
    pub skip_refused: bool,
}
