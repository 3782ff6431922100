//! What the sequences of a step attend to, where their sum does not say it.

use crate::profile::{Batch, Part};
use crate::running::Running;
use crate::scheduler::Scheduler;

impl Scheduler<'_> {
    /// Says in `batch` what its sequences attend to, `after` steps of one token each.
    pub fn attend(&self, batch: &mut Batch, after: u32) {
        if after == 0 && self.times.is_cascade() {
            let requests = scheduled(&self.running).map(|one| one.request);
            batch.shared_prefix = self.prompts.shared_blocks(requests) * self.block_size;
        }
        let Some(layers) = self.times.layers() else { return };
        let parts = scheduled(&self.running).map(|one| Part {
            computed: one.computed + after,
            count: one.scheduled,
            drafts: one.drafts,
            decodes: one.decodes(),
        });
        batch.attention = layers.seconds(parts, batch.shared_prefix);
    }
}

fn scheduled(running: &[Running]) -> impl Iterator<Item = &Running> {
    running.iter().filter(|one| one.scheduled > 0)
}
