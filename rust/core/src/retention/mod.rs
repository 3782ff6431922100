//! How important blocks are, and for how long.
//!
//! Each findable block has a retention priority from 0 to 100 (TensorRT-LLM's
//! `KvCacheRetentionConfig`), [`DEFAULT_PRIORITY`] unless a caller asks for another. Among
//! evictable blocks, those with the lowest priority are evicted first; the eviction policy ranks
//! blocks of equal priority. A block is still evicted after the blocks that follow it (rule 7),
//! whatever their priorities are.

mod hint;
mod inner;
mod sessions;
mod state;
mod term;

pub use hint::{Hint, HintResult, HintStatus};
pub use inner::InnerBlocks;
pub use sessions::Sessions;
pub use state::RetentionState;
pub use term::{Decay, Keep, Retention, TokenRange};

/// The priority of a block for which no caller asked another, as in TensorRT-LLM.
pub const DEFAULT_PRIORITY: u8 = 35;

/// The priority of blocks that a window, a chunk or a state left behind within a prompt, until another
/// sequence uses them: they serve shorter prompts alone, and go before whole prefixes do.
pub const INNER_PRIORITY: u8 = DEFAULT_PRIORITY - 1;

/// The highest priority.
pub const MAX_PRIORITY: u8 = 100;
