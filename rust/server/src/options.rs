//! How a server is configured.

use kvframe_core::manager::PreemptionOrder;

use crate::speculation::Speculation;
use crate::tiers::ReturnOptions;

/// Which waiting request is admitted first. A preempted request comes before all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueOrder {
    /// In the order of arrival.
    #[default]
    Fcfs,
    /// The request whose class has the highest priority, then in the order of arrival.
    Priority,
    /// The shortest prompt, then in the order of arrival.
    Shortest,
    /// The longest prompt, then likewise.
    Longest,
    /// The shortest answer: its length is the trace's, which no engine knows before.
    ShortestOutput,
    /// The longest answer, likewise.
    LongestOutput,
    /// The least of prompt and answer together, likewise.
    ShortestTotal,
    /// The most of both, likewise.
    LongestTotal,
    /// The one with most prompt tokens cached now, among the first [`QueueOrder::LOOKED_AT`] that wait.
    LongestPrefix,
    /// The one with the fewest tokens to compute before its first token, among as many.
    FewestUncached,
}

impl QueueOrder {
    /// Waiting requests whose prefixes are looked up before each admission, at most.
    pub const LOOKED_AT: usize = 128;

    /// Who has waited longest is passed over so many times at most.
    pub const PATIENCE: u32 = 64;

    /// Whether it depends on what is cached.
    pub fn looks_up(self) -> bool {
        matches!(self, Self::LongestPrefix | Self::FewestUncached)
    }
}

/// What becomes of a sequence that gives its blocks up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preemption {
    /// It is computed again, but for what is still found.
    #[default]
    Recompute,
    /// What it has computed goes to host memory and comes back, where there is room for it.
    Swap,
    /// The faster of the two, by step times and links.
    Auto,
    /// None has to: a request comes in once its blocks and those of all that run fit up to their ends. One that needs
    /// a block that is still being copied waits for it. Of blocks of one group; where tenants have floors, a
    /// sequence may be computed again.
    Never,
}

/// A server's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerOptions {
    /// Sequences that run at once, at most.
    pub max_num_seqs: u32,
    /// Tokens that a step computes, at most.
    pub max_num_batched_tokens: u32,
    /// Tokens of one prompt that a step computes, at most.
    pub long_prefill_token_threshold: u32,
    /// A prompt may be computed in several steps. Otherwise it waits for a step that takes all of it, and only one
    /// that no step could take whole is cut, by the tokens that steps have left; the threshold says nothing.
    pub chunked_prefill: bool,
    /// Who comes in first.
    pub order: QueueOrder,
    /// Priority of each class of the trace, in the order of [`kvframe_trace::Trace::classes`]; larger
    /// is more important. A class that is not listed, and a request without one, has 0.
    pub priorities: Vec<i32>,
    /// Classes are tenants of the manager: they share no block, and where one finds no room, gives its blocks up
    /// or has its share, the others' requests still come in.
    pub tenants: bool,
    /// The most that each class has of the places and of the prompt tokens of a step, 0 to 1, in the order of
    /// [`kvframe_trace::Trace::classes`]; at least one of each. A class that is not listed, and requests
    /// without one, may have all.
    pub shares: Vec<f64>,
    /// The time between arrivals is divided by this.
    pub load: f64,
    /// A turn of a session arrives when the turn before has ended and the trace's time between their
    /// arrivals has passed.
    pub closed_loop: bool,
    /// A request arrives when the one before it has ended, nothing moves in the tiers any more, and its time has
    /// come; its answer has one token.
    pub one_at_a_time: bool,
    /// Blocks that decoding fills become findable, as those of prompts do.
    pub cache_generated: bool,
    /// Requests say when their blocks are used next, whatever the policy.
    pub tell_next_use: bool,
    /// What becomes of a preempted sequence.
    pub preemption: Preemption,
    /// Layers of the model, where a load and the first step behind it go layer by layer side by side; 0: the step
    /// waits for the whole load.
    pub load_layers: u32,
    /// Whether a session's blocks come back into the pool before its next turn.
    pub returns: Option<ReturnOptions>,
    /// Which running sequence is preempted where blocks are short.
    pub preemption_order: PreemptionOrder,
    /// A request whose prompt begins with blocks that a running one is computing waits for them.
    pub join: bool,
    /// Whether answers are drafted.
    pub speculation: Option<Speculation>,
    /// Every step takes this many times what the profile says.
    pub time_factor: f64,
    /// Every step is simulated by itself. The result is the same, only later.
    pub every_step: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            max_num_seqs: 256,
            max_num_batched_tokens: 8_192,
            long_prefill_token_threshold: u32::MAX,
            chunked_prefill: true,
            order: QueueOrder::default(),
            priorities: Vec::new(),
            tenants: false,
            shares: Vec::new(),
            load: 1.0,
            closed_loop: false,
            one_at_a_time: false,
            cache_generated: true,
            tell_next_use: false,
            preemption: Preemption::default(),
            load_layers: 0,
            returns: None,
            preemption_order: PreemptionOrder::LastAdmitted,
            join: false,
            speculation: None,
            time_factor: 1.0,
            every_step: false,
        }
    }
}

impl ServerOptions {
    /// Whether one class's want of room, or of a share, is no other's.
    pub(crate) fn tells_apart(&self) -> bool {
        self.tenants || !self.shares.is_empty()
    }
}
