//! Questions about a request that is not allocated yet: nothing is counted, moved or owned.

use crate::error::{Error, Result};
use crate::hash::Key;
use crate::manager::Manager;
use crate::manager::allocate::lookup::{Found, Hit, PrefixQuery};
use crate::pool::BlockId;
use crate::request::Attempt;

/// Whether a request could be allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AllocStatus {
    /// It is larger than the pool.
    Never,
    /// Once others have ended, or the manager is awake.
    Later,
    /// `allocate` would take it in.
    Ok,
}

impl Manager {
    /// Whether `allocate` would take the request in now.
    ///
    /// # Errors
    /// [`Error::Invalid`], as `allocate`.
    pub fn can_allocate<'a>(&self, request: impl Into<Attempt<'a>>) -> Result<AllocStatus> {
        let (known, request) = self.as_it_counts(&request.into())?;
        let counted = self.with_found(&request, known, |wanted, found, _, mut hits| {
            let start = self.find_start(&request, wanted, known, found, &mut hits);
            self.count_needs(&request, known, &start, &hits)
        });
        match counted {
            Ok(_) | Err(Error::NeedVictims { .. }) => Ok(AllocStatus::Ok),
            Err(Error::NoCapacity { .. } | Error::Asleep) => Ok(AllocStatus::Later),
            Err(Error::NeverFits { .. }) => Ok(AllocStatus::Never),
            Err(error) => Err(error),
        }
    }

    /// What `allocate` would find of a request: nothing, if it is not to read.
    ///
    /// # Errors
    /// [`Error::Invalid`], as `allocate`.
    pub fn lookup_request<'a>(&self, request: impl Into<Attempt<'a>>) -> Result<Hit> {
        let (known, request) = self.as_it_counts(&request.into())?;
        Ok(self.with_found(&request, known, |wanted, found, collisions, mut blocks| {
            let mut tokens = found * self.block_size();
            let loads = request.num_external_tokens > 0 || request.external_until > 0;
            if request.read_cache && !loads && self.options.partial_hits {
                let tail = self.find_tail(wanted, self.less_the_last(known), &mut blocks);
                if let Some(tail) = tail {
                    tokens += tail.tokens;
                    blocks.iter_mut().zip(tail.blocks).for_each(|(found, block)| found.push(block));
                }
            }
            Hit { tokens, blocks, collisions, attached: self.find_attached(wanted) }
        }))
    }

    /// Calls `found` with what `allocate` would find first: units at the front, keys that stood for other
    /// tokens, and blocks.
    fn with_found<T>(
        &self,
        request: &Attempt<'_>,
        known: u32,
        found: impl FnOnce(PrefixQuery<'_>, u32, u32, Vec<Vec<BlockId>>) -> T,
    ) -> T {
        let (tokens, mm_items) = (&request.tokens[..], &request.mm_items[..]);
        let root = self.hasher.root(request.space());
        let limit = if request.read_cache { self.hit_limit(known) } else { 0 };
        let mut keys: Vec<Key> = request.keys.to_vec();
        if self.wants_keys() && keys.len() < tokens.len() / self.block_size() as usize {
            self.hasher.extend(root, mm_items, tokens, &mut keys);
        }
        let mut blocks = vec![Vec::new(); self.options.groups.len()];
        let wanted = PrefixQuery { keys: &keys, tokens, root, mm_items, limit };
        let Found { units, collisions, .. } = self.find_prefix(wanted, &mut blocks);
        if self.layout.has_cross() {
            self.find_cross(request, root, &mut blocks);
        }
        found(wanted, units as u32, collisions, blocks)
    }
}
