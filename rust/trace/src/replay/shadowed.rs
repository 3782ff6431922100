//! A trace as the steps of an engine that serves one request after the other, for shadows.

use kvframe_core::Error;
use kvframe_core::shadow::{Begun, Progress, ShadowSet, Step};

use super::{Host, PATIENCE, PreparedTrace};

impl PreparedTrace<'_> {
    /// Gives the requests of the trace to a set of shadows: each begins and ends by itself. False if the
    /// host stopped it.
    ///
    /// # Errors
    /// What the set says.
    pub fn shadow(&self, set: &mut ShadowSet, host: &mut dyn Host) -> Result<bool, Error> {
        let mut turns = vec![0; self.sessions()];
        for (i, request) in self.trace.requests.iter().enumerate() {
            if i % PATIENCE == 0 && host.stop() {
                return Ok(false);
            }
            let blocks = self.trace.blocks(i, self.mode);
            let slots = blocks * self.trace.block_size;
            let mut keys = Vec::with_capacity(blocks as usize);
            self.keys(i, blocks as usize, &mut keys);
            let begun = Begun {
                id: i as u64,
                keys,
                tokens: request.input_tokens,
                findable: request.input_tokens.saturating_sub(1),
                slots,
                computed: slots,
                found: 0,
                first: true,
                meta: self.meta(i, &mut turns),
            };
            set.step(&Step { begun: vec![begun], ..Step::default() })?;
            let ended = Progress { id: i as u64, keys: Vec::new(), slots, computed: slots };
            set.step(&Step { ended: vec![ended], ..Step::default() })?;
        }
        Ok(true)
    }
}
