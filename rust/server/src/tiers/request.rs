//! What is known of a request whose pages move.

use std::sync::Arc;

use kvframe_core::sequence::Meta;
use kvframe_core::tier::RequestInfo;

/// What is known of a request; transfers outlive the call that began them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub meta: Meta,
    pub tokens: u32,
    pub next_use: Arc<[u32]>,
}

impl Known {
    pub fn info(&self) -> RequestInfo<'_> {
        RequestInfo { meta: self.meta, tokens: self.tokens, next_use: &self.next_use }
    }
}
