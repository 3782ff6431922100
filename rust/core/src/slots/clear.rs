//! What slots hold is forgotten: all of it, or what one adapter, salt or session left.

use super::Slots;
use crate::error::Result;
use crate::hash::Space;
use crate::origins::Scope;
use crate::policy::RemovalCause;

impl Slots {
    /// Forgets what is cached. Sequences that run keep their slots and leave nothing to be found. Returns how
    /// many cached slots are empty now.
    ///
    /// # Errors
    /// [`crate::Error::Integrity`].
    pub fn clear(&mut self) -> Result<u32> {
        self.clear_scope(Scope::default())
    }

    /// As [`Slots::clear`], only for what `scope` holds. Of a session, only the tokens behind those that
    /// other sessions' requests also used are forgotten. Pins then hold only what is left in a slot.
    ///
    /// # Errors
    /// [`crate::Error::Integrity`].
    pub fn clear_scope(&mut self, scope: Scope<'_>) -> Result<u32> {
        let mut cleared = 0;
        for at in 0..self.all.len() as u32 {
            let slot = &mut self.all[at as usize];
            let space = Space {
                cache_salt: &slot.cache_salt,
                lora_name: &slot.lora_name,
                ..Space::default()
            };
            if !scope.runs(space, slot.meta.session) {
                continue;
            }
            let (idle, shared) = (slot.is_idle(), slot.shared);
            slot.private = !idle;
            if slot.found == 0 {
                continue;
            }
            let kept = if scope.session.is_some() { shared } else { 0 };
            if kept == 0 {
                self.unfind(at, RemovalCause::Invalidated)?;
                cleared += u32::from(idle);
                if idle {
                    self.let_go(at)?;
                }
            } else if kept < slot.found {
                self.keep(at, kept)?;
            }
        }
        Ok(cleared)
    }

    /// Shortens a slot to its first `kept` tokens: no more are found, or held by its pins.
    fn keep(&mut self, at: u32, kept: u32) -> Result<()> {
        self.shrink(at, kept)?;
        self.shorten_pins(at, kept);
        let slot = &mut self.all[at as usize];
        if slot.is_idle() {
            slot.tokens.truncate(kept as usize);
            slot.committed = kept;
        }
        Ok(())
    }

    /// The number of the slot's first `tokens` tokens that requests of other sessions used as well, where a
    /// request of `session` continues in that slot.
    pub(super) fn share_in_place(&self, at: u32, tokens: u32, session: u64) -> u32 {
        let slot = &self.all[at as usize];
        if slot.meta.session == session { slot.shared.min(tokens) } else { tokens }
    }

    /// As [`Slots::share_in_place`], if the request takes a copy of the first `tokens` tokens of `from`.
    pub(super) fn share_copy(&mut self, from: u32, tokens: u32, session: u64) -> u32 {
        let source = &mut self.all[from as usize];
        if source.meta.session == session {
            return source.shared.min(tokens);
        }
        source.shared = source.shared.max(tokens);
        tokens
    }
}
