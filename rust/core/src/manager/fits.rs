//! Questions about a request that is not admitted yet: nothing is counted, moved or owned.

use super::Manager;
use super::admit::Admission;
use super::lookup::{Hit, Wanted};
use crate::error::{Error, Result};
use crate::hash::Key;

/// Whether a request could be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fits {
    /// It is larger than the pool.
    Never,
    /// Once others have ended, or the manager is awake.
    Later,
    /// `admit` would take it in.
    Now,
}

impl Manager {
    /// Whether `admit` would take the request in now.
    ///
    /// # Errors
    /// [`Error::Invalid`], as `admit`.
    pub fn fits(&self, request: &Admission<'_>) -> Result<Fits> {
        let (known, request) = self.as_it_counts(request)?;
        let hit = self.lookup_request(&request)?;
        let found = (hit.tokens / self.block_size()) as usize;
        match self.plan_admission(&request, known, found, &hit.blocks) {
            Ok(_) | Err(Error::NeedVictims { .. }) => Ok(Fits::Now),
            Err(Error::NoCapacity { .. } | Error::Asleep) => Ok(Fits::Later),
            Err(Error::NeverFits { .. }) => Ok(Fits::Never),
            Err(error) => Err(error),
        }
    }

    /// What `admit` would find of a request: nothing, if it is not to read.
    ///
    /// # Errors
    /// [`Error::Invalid`], as `admit`.
    pub fn lookup_request(&self, request: &Admission<'_>) -> Result<Hit> {
        let (known, request) = self.as_it_counts(request)?;
        let Admission { prompt, extras, .. } = request;
        let root = self.hasher.root(request.space);
        let limit = if request.read { self.hit_limit(known) } else { 0 };
        let mut keys: Vec<Key> = prompt.keys.to_vec();
        if self.index.takes_keys() && keys.len() < limit {
            let text =
                &prompt.tokens[..(limit * self.block_size() as usize).min(prompt.tokens.len())];
            self.hasher.extend(root, extras, text, &mut keys);
        }
        let mut blocks = vec![Vec::new(); self.options.groups.len()];
        let wanted = Wanted { keys: &keys, tokens: prompt.tokens, root, extras, limit };
        let (count, collisions) = self.find_prefix(wanted, &mut blocks);
        if self.layout.has_cross() {
            self.find_cross(&request, root, &mut blocks);
        }
        Ok(Hit { tokens: count as u32 * self.block_size(), blocks, collisions })
    }
}
