//! What a scheduler does with a running sequence that is known by its keys, in one call.

use crate::error::{Error, Result};
use crate::events::Kind;
use crate::hash::Key;
use crate::manager::Manager;
use crate::sequence::{SeqId, Sequence, check_filled};

impl Manager {
    /// Slots of `seq` up to `until`, unless it has them, as `reserve` gives them; and `keys` of its
    /// full blocks, from the first without one on. Refused if `commit` up to `upto` would be.
    ///
    /// # Errors
    /// As [`Manager::reserve`] and [`Manager::commit`]; [`Error::Invalid`] for keys where the request
    /// came as tokens, or more keys than there are full blocks.
    pub fn advance(&mut self, seq: SeqId, until: u32, keys: &[Key], upto: u32) -> Result<()> {
        let sequence = self.sequences.get(seq)?;
        let len = sequence.len.max(until);
        if !keys.is_empty() {
            self.check_new_keys(seq, keys.len(), len)?;
        }
        if upto > len {
            return Err(Error::CommitPastEnd { asked: u64::from(upto), limit: u64::from(len) });
        }
        if upto < sequence.committed {
            let limit = u64::from(sequence.committed);
            return Err(Error::Backwards { what: "commit", asked: u64::from(upto), limit });
        }
        let with_keys = (self.keyed(sequence) + keys.len()) as u32 * self.block_size();
        let filled = if keys.is_empty() { 0 } else { with_keys };
        check_filled(upto, sequence.filled().max(filled))?;
        if until > sequence.len {
            self.reserve(seq, until)?;
        }
        self.enter_keys(seq, keys)
    }

    /// For replaying a log: `keys` of the full blocks of `seq`, from the first without one on.
    ///
    /// # Errors
    /// As [`Manager::advance`].
    pub fn fill_keys(&mut self, seq: SeqId, keys: &[Key]) -> Result<()> {
        self.check_new_keys(seq, keys.len(), self.sequences.get(seq)?.len)?;
        self.enter_keys(seq, keys)
    }

    fn check_new_keys(&self, seq: SeqId, count: usize, len: u32) -> Result<()> {
        let sequence = self.sequences.get(seq)?;
        let full = (len / self.block_size()) as usize;
        let limit = if !sequence.came_as_keys() {
            "the request came as tokens, whose keys are hashed here".to_owned()
        } else if self.keyed(sequence) + count > full {
            format!("{} of the sequence's {full} full blocks have theirs", self.keyed(sequence))
        } else {
            return Ok(());
        };
        Err(Error::Invalid { what: "keys", value: count.to_string(), limit })
    }

    /// The full blocks of a sequence whose keys came. Without prefix caching no keys are kept, and each
    /// block that is filled counts as one.
    fn keyed(&self, sequence: &Sequence) -> usize {
        let filled = (sequence.filled() / self.block_size()) as usize;
        if self.options.prefix_caching { sequence.keys.len() } else { filled }
    }

    fn enter_keys(&mut self, seq: SeqId, keys: &[Key]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let keyed = self.keyed(self.sequences.get(seq)?) + keys.len();
        let (end, is_cached) = (keyed as u32 * self.block_size(), self.options.prefix_caching);
        let sequence = self.sequences.get_mut(seq)?;
        if is_cached {
            sequence.keys.extend_from_slice(keys);
        }
        let filled = sequence.filled().max(end);
        sequence.unknown = sequence.known().saturating_sub(filled);
        if self.store.is_logging() {
            let word = |key: &Key, at: u32| (key.0 >> (32 * at)) as u32;
            let words = keys.iter().flat_map(|key| (0..4).map(move |at| word(key, at)));
            self.store.note_ids(Kind::Keys, seq, (0, 0), &words.collect::<Vec<_>>());
        }
        self.note_computing(seq);
        Ok(())
    }
}
