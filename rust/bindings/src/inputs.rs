//! What a step is asked, from what Python gives.

use kvframe_core::manager::Ids;
use pyo3::prelude::*;

use crate::buffers::{length, tokens, u64s};
use crate::calls::item;
use crate::errors::{is_wrong, shown, unless_raised, usage};

/// The two halves of a pair of arrays.
fn halves<'py>(
    name: &str,
    parts: [&str; 2],
    pair: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let py = pair.py();
    let wrong = || {
        let ([first, second], shown) = (parts, shown(pair));
        usage(py, format!("{name} = {shown}: must be a pair ({first}, {second})"))
    };
    let halves = || match pair.len()? {
        2 => Ok(Some((item(pair, 0)?, item(pair, 1)?))),
        _ => Ok(None),
    };
    let read: PyResult<_> = halves();
    read.map_err(|error| unless_raised(py, error, wrong))?.ok_or_else(wrong)
}

/// Yes or no.
pub fn flag(name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    let wrong = || usage(py, format!("{name} = {}: must be True or False", shown(value)));
    value.extract().map_err(|error| unless_raised(py, error, wrong))
}

/// Sequences (or tickets) and a number for each.
pub fn pairs(
    name: &str,
    parts: [&str; 2],
    pair: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<(u64, u32)>> {
    let Some(pair) = pair else { return Ok(Vec::new()) };
    let py = pair.py();
    let (seqs, numbers) = halves(name, parts, pair)?;
    let (seqs, numbers) = (u64s(Some(&seqs), name)?, u64s(Some(&numbers), name)?);
    if seqs.len() != numbers.len() {
        let [first, second] = parts;
        let message = format!("{name}: {} {first}, {} {second}", seqs.len(), numbers.len());
        return Err(usage(py, message));
    }
    if let Some(&largest) = numbers.iter().max() {
        length(py, name, largest)?;
    }
    Ok(seqs.into_iter().zip(numbers).map(|(s, n)| (s, n as u32)).collect())
}

/// Sequences, and tokens for each of them one after the other.
pub struct Growths {
    name: &'static str,
    seqs: Vec<u64>,
    counts: Option<Vec<u64>>,
    ids: Option<Vec<u32>>,
}

impl Growths {
    /// `counts[i]` tokens (one where None) for each of `seqs`, whose ids are known or None.
    pub fn new(
        name: &'static str,
        seqs: Option<&Bound<'_, PyAny>>,
        counts: Option<&Bound<'_, PyAny>>,
        ids: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let seqs = u64s(seqs, name)?;
        let counts = counts.map(|c| u64s(Some(c), "counts")).transpose()?;
        let ids = ids.map(|t| tokens(t, "tokens")).transpose()?;
        Ok(Self { name, seqs, counts, ids })
    }

    /// `(sequences, ids)`, or `(sequences, counts, ids)`.
    pub fn of_tuple(name: &'static str, given: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(given) = given else { return Self::new(name, None, None, None) };
        let three = match given.len() {
            Ok(parts) => parts == 3,
            Err(error) if is_wrong(given.py(), &error) => false,
            Err(error) => return Err(error),
        };
        if three {
            let (seqs, counts) = (item(given, 0)?, item(given, 1)?);
            return Self::new(name, Some(&seqs), Some(&counts), Some(&item(given, 2)?));
        }
        let (seqs, ids) = halves(name, ["sequences", "ids"], given)?;
        Self::new(name, Some(&seqs), None, Some(&ids))
    }

    /// A part for each sequence.
    pub fn split(&self, py: Python<'_>) -> PyResult<Vec<(u64, Ids<'_>)>> {
        let total = match &self.counts {
            None => Some(self.seqs.len() as u64),
            Some(counts) => counts.iter().try_fold(0_u64, |sum, &count| sum.checked_add(count)),
        };
        let counts = self.counts.as_ref().map_or(self.seqs.len(), Vec::len);
        let ids = self.ids.as_deref();
        if self.seqs.len() != counts || ids.is_some_and(|ids| Some(ids.len() as u64) != total) {
            let total = total.map_or("too many".into(), |t| t.to_string());
            let message = format!(
                "{}: {} sequences, {counts} counts of {total} ids, {} ids",
                self.name,
                self.seqs.len(),
                ids.map_or(0, <[u32]>::len)
            );
            return Err(usage(py, message));
        }
        if let (None, Some(ids)) = (&self.counts, ids) {
            let each = ids.iter().map(|id| Ids::Known(std::slice::from_ref(id)));
            return Ok(self.seqs.iter().copied().zip(each).collect());
        }
        let mut rest = ids;
        let mut parts = Vec::with_capacity(self.seqs.len());
        for (i, &seq) in self.seqs.iter().enumerate() {
            let count = self.counts.as_ref().map_or(1, |counts| counts[i]);
            parts.push(match &mut rest {
                None => (seq, Ids::Unknown(length(py, "counts", count)?)),
                Some(rest) => {
                    let (head, tail) = rest.split_at(count as usize);
                    *rest = tail;
                    (seq, Ids::Known(head))
                }
            });
        }
        Ok(parts)
    }
}
