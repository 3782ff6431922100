//! Which block has which priority until when.

use super::term::{Keep, Term};
use crate::policy::Timers;
use crate::pool::{BlockId, Pool};

/// What was asked for blocks, and when that changes. Empty, and a branch, until anything is.
#[derive(Debug, Default)]
pub struct RetentionState {
    on: bool,
    /// The time as the caller passed it last.
    time: u64,
    /// The term of each block. It is valid only if its generation is the block's present one.
    terms: Vec<Term>,
    /// Blocks by the time at which their priority changes.
    timers: Timers,
}

impl RetentionState {
    /// A state that counts uses of blocks from the start if it is `on`, else after
    /// [`Self::turn_on`].
    pub fn new(on: bool) -> Self {
        Self { on, ..Self::default() }
    }

    /// Whether uses of blocks count.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Counts uses of blocks from now on.
    pub fn turn_on(&mut self) {
        self.on = true;
    }

    /// The caller's time.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// Sets the time to `now`; it never goes back.
    pub fn set_time(&mut self, now: u64) {
        self.time = self.time.max(now);
    }

    /// A request that used the findable `block` asks for `keep`. `own` says that it computed the block.
    /// The strongest request counts. Returns whether the block's priority has changed.
    pub fn ask(&mut self, pool: &mut Pool, block: BlockId, keep: Keep, own: bool) -> bool {
        let generation = pool.generation(block);
        let term = Term::new(keep, self.time, generation);
        // If another request computed the block, that request asked for nothing, so the default term counts
        // too.
        let other = || (!own).then(|| Term::new(Keep::default(), self.time, generation));
        let before = self.term(pool, block).or_else(other);
        self.put(pool, block, before.map_or(term, |before| before.or(term, self.time)))
    }

    /// Gives a findable block a priority, whatever it had. Returns whether its priority has changed.
    pub fn force(&mut self, pool: &mut Pool, block: BlockId, keep: Keep) -> bool {
        self.put(pool, block, Term::new(keep, self.time, pool.generation(block)))
    }

    /// `copy` gets what `block` has, if that is stronger. Whether its priority is another now.
    pub fn inherit(&mut self, pool: &mut Pool, copy: BlockId, block: BlockId) -> bool {
        let Some(term) = self.term(pool, block) else { return false };
        let term = term.of(pool.generation(copy));
        let plain = || Term::new(Keep::default(), self.time, pool.generation(copy));
        let before = self.term(pool, copy).unwrap_or_else(plain);
        self.put(pool, copy, before.or(term, self.time))
    }

    /// When the priority of a block changes by itself.
    pub fn changes(&self, pool: &Pool, block: BlockId) -> Option<u64> {
        self.term(pool, block)?.changes(self.time)
    }

    /// Applies the next priority change that is due by now, and returns its block.
    pub fn lapse(&mut self, pool: &mut Pool) -> Option<BlockId> {
        while let Some(block) = self.timers.pop_until(self.time) {
            if pool.is_findable(block)
                && let Some(term) = self.term(pool, block)
                && self.put(pool, block, term)
            {
                return Some(block);
            }
        }
        None
    }

    /// Blocks whose priority will change.
    pub fn timed(&self) -> usize {
        self.timers.len()
    }

    /// What disagrees with the pool, if anything.
    ///
    /// # Errors
    /// One line.
    pub fn validate(&self, pool: &Pool) -> Result<(), String> {
        self.timers.validate()?;
        for block in (0..pool.created()).filter(|&block| pool.is_findable(block)) {
            // A time that an earlier life of the block was due at is passed over when it comes.
            let Some(asked) = pool.asked_priority(block) else { continue };
            let Some(term) = self.kept(pool, block) else { continue };
            let (value, due) = (term.value(self.time), term.changes(self.time));
            if value != asked || due != self.timers.due(block) {
                return Err(format!(
                    "block {block} has priority {asked} until {:?}, {value} until {due:?} was asked",
                    self.timers.due(block)
                ));
            }
        }
        Ok(())
    }

    fn term(&self, pool: &Pool, block: BlockId) -> Option<Term> {
        let asked = pool.asked_priority(block)?;
        let default = || Term::new(Keep::forever(asked), self.time, pool.generation(block));
        Some(self.kept(pool, block).unwrap_or_else(default))
    }

    fn kept(&self, pool: &Pool, block: BlockId) -> Option<Term> {
        let generation = pool.generation(block);
        self.terms.get(block as usize).filter(|term| term.is_of(generation)).copied()
    }

    fn put(&mut self, pool: &mut Pool, block: BlockId, term: Term) -> bool {
        crate::policy::grow(&mut self.terms, block, Term::default());
        self.on = true;
        self.terms[block as usize] = term;
        self.timers.set(block, term.changes(self.time));
        let (before, value) = (pool.priority(block), term.value(self.time));
        pool.set_priority(block, value);
        before != value
    }
}
