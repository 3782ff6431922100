//! A table of measured steps, interpolated.
//!
//! Rows are grouped by the tokens of prompts, then by what each of those attends to, then by the sequences
//! that decode, then by the tokens that those attend to. A step between rows is the weighted mean of its
//! neighbours in each of the four; beyond the last row the line through the last two goes on, and never
//! falls.

use std::fmt;

use super::{Batch, StepTime};

/// A measured step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableRow {
    /// Sequences that computed one token of their answer.
    pub n_decode: f64,
    /// Tokens that those attended to, all together.
    pub kv_decode: f64,
    /// Tokens of prompts.
    pub prefill_chunk: f64,
    /// Tokens that each of them attended to, on the mean; the same in all rows where that was not measured.
    pub prefill_context: f64,
    /// How long it took.
    pub seconds: f64,
}

/// Why rows are no table.
#[derive(Debug, Clone, PartialEq)]
pub enum TableError {
    /// There is none.
    Empty,
    /// A number of this row, from 0, is negative or not finite, or its time is not above 0.
    BadRow(usize),
    /// Two rows measure the same step; this is the later one.
    Repeated(usize),
    /// Rows with these prompt tokens all have the same number of decoding sequences, while other rows have
    /// several numbers. The cost of decoding beside these prompt tokens is unknown.
    OneDecode(f64),
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the table has no rows"),
            Self::BadRow(row) => {
                write!(f, "row {}: numbers must be 0 or more, and step_us above 0", row + 1)
            }
            Self::Repeated(row) => write!(f, "row {}: the same step is measured above", row + 1),
            Self::OneDecode(chunk) => write!(
                f,
                "rows with prefill_chunk = {chunk} have one value of n_decode, and other rows have \
                 several: measure this chunk beside other numbers of decoding sequences too"
            ),
        }
    }
}

impl std::error::Error for TableError {}

/// Values along one axis, with what is known at each.
type Axis<T> = Vec<(f64, T)>;

/// The table. See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTable {
    chunks: Axis<Axis<Axis<Axis<f64>>>>,
}

impl StepTable {
    /// Builds a table; rows may come in any order.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn new(rows: &[TableRow]) -> Result<Self, TableError> {
        let mut chunks: Axis<Axis<Axis<Axis<f64>>>> = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            let axes = [row.n_decode, row.kv_decode, row.prefill_chunk, row.prefill_context];
            let mut numbers = axes.into_iter().chain([row.seconds]);
            if numbers.any(|n| !n.is_finite() || n < 0.0) || row.seconds <= 0.0 {
                return Err(TableError::BadRow(at));
            }
            let contexts = entry(&mut chunks, row.prefill_chunk);
            let decodes = entry(&mut contexts.1, row.prefill_context);
            let tokens = entry(&mut decodes.1, row.n_decode);
            match tokens.1.binary_search_by(|(kv, _)| kv.total_cmp(&row.kv_decode)) {
                Ok(_) => return Err(TableError::Repeated(at)),
                Err(place) => tokens.1.insert(place, (row.kv_decode, row.seconds)),
            }
        }
        if chunks.is_empty() {
            return Err(TableError::Empty);
        }
        let measured = || {
            chunks.iter().flat_map(|(chunk, contexts)| {
                contexts.iter().map(|(_, decodes)| (*chunk, decodes.len()))
            })
        };
        let several = measured().any(|(_, decodes)| decodes > 1);
        match measured().find(|&(_, decodes)| several && decodes == 1) {
            Some((chunk, _)) => Err(TableError::OneDecode(chunk)),
            None => Ok(Self { chunks }),
        }
    }
}

/// The entry at `value`, made where there is none.
fn entry<T: Default>(axis: &mut Axis<T>, value: f64) -> &mut (f64, T) {
    let at = axis.binary_search_by(|(known, _)| known.total_cmp(&value)).unwrap_or_else(|at| {
        axis.insert(at, (value, T::default()));
        at
    });
    &mut axis[at]
}

/// What an axis says at `value`, where `read` says it of an entry.
fn along<T>(axis: &Axis<T>, value: f64, read: impl Fn(&T) -> f64) -> f64 {
    let above = axis.partition_point(|(known, _)| *known < value);
    if let Some((known, entry)) = axis.get(above)
        && (*known <= value || above == 0)
    {
        return read(entry);
    }
    let is_beyond = above == axis.len();
    if axis.len() == 1 {
        return read(&axis[0].1);
    }
    let right = above.min(axis.len() - 1);
    let ((x0, low), (x1, high)) = (&axis[right - 1], &axis[right]);
    let (low, high) = (read(low), read(high));
    let slope = (high - low) / (x1 - x0);
    if is_beyond { high + slope.max(0.0) * (value - x1) } else { low + slope * (value - x0) }
}

impl StepTime for StepTable {
    fn seconds(&self, batch: &Batch) -> f64 {
        let (n_decode, kv) = (f64::from(batch.n_decode), batch.kv_decode as f64);
        let prefill = f64::from(batch.prefill_tokens);
        let context = batch.prefill_pairs as f64 / prefill.max(1.0);
        along(&self.chunks, prefill, |contexts| {
            along(contexts, context, |decodes| {
                along(decodes, n_decode, |tokens| along(tokens, kv, |&seconds| seconds))
            })
        })
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // sums and products of small whole numbers
mod tests {
    use super::*;

    fn row(n_decode: f64, kv_decode: f64, prefill_chunk: f64, seconds: f64) -> TableRow {
        TableRow { n_decode, kv_decode, prefill_chunk, prefill_context: 0.0, seconds }
    }

    fn seconds(table: &StepTable, n_decode: u32, kv_decode: u64, prefill_tokens: u32) -> f64 {
        table.seconds(&Batch { prefill_tokens, n_decode, kv_decode, ..Batch::default() })
    }

    #[test]
    fn rows_are_met_and_between_them_lies_the_mean() {
        let rows = [
            row(1.0, 100.0, 0.0, 10.0),
            row(1.0, 300.0, 0.0, 20.0),
            row(3.0, 300.0, 0.0, 40.0),
            row(0.0, 0.0, 8.0, 30.0),
            row(1.0, 100.0, 8.0, 50.0),
        ];
        let table = StepTable::new(&rows).unwrap();
        for one in rows {
            let (n, kv) = (one.n_decode as u32, one.kv_decode as u64);
            assert_eq!(seconds(&table, n, kv, one.prefill_chunk as u32), one.seconds);
        }
        assert_eq!(seconds(&table, 1, 200, 0), 15.0);
        // Between one sequence (20) and three (40).
        assert_eq!(seconds(&table, 2, 300, 0), 30.0);
        // Half-way between no prompt tokens (10) and eight (50).
        assert_eq!(seconds(&table, 1, 100, 4), 30.0);
        // Beyond: the line goes on; below the first row it stays.
        assert_eq!(seconds(&table, 1, 500, 0), 30.0);
        assert_eq!(seconds(&table, 1, 0, 0), 10.0);
        assert_eq!(seconds(&table, 1, 100, 16), 90.0);
    }

    #[test]
    fn what_a_prompt_attends_to_counts_where_it_was_measured() {
        let at = |prefill_chunk: f64, prefill_context: f64, seconds: f64| TableRow {
            prefill_context,
            ..row(0.0, 0.0, prefill_chunk, seconds)
        };
        let rows =
            [at(8.0, 4.0, 10.0), at(8.0, 104.0, 30.0), at(16.0, 8.0, 20.0), at(16.0, 108.0, 60.0)];
        let table = StepTable::new(&rows).unwrap();
        let seconds = |prefill_tokens: u32, prefill_pairs: u64| {
            table.seconds(&Batch { prefill_tokens, prefill_pairs, ..Batch::default() })
        };
        assert_eq!(seconds(8, 8 * 54), 20.0);
        assert_eq!(seconds(16, 16 * 8), 20.0);
        // Half-way between 8 and 16 tokens, each with 58 before it: 20.8 and 40.
        assert_eq!(seconds(12, 12 * 58), 30.4);
        assert_eq!(seconds(8, 8 * 204), 50.0);
    }

    #[test]
    fn beyond_the_last_row_a_step_never_gets_shorter() {
        let rows = [row(0.0, 0.0, 1.0, 5.0), row(0.0, 0.0, 2.0, 3.0)];
        let table = StepTable::new(&rows).unwrap();
        assert_eq!(seconds(&table, 0, 0, 100), 3.0);
    }

    #[test]
    fn what_is_no_table_is_refused() {
        assert_eq!(StepTable::new(&[]), Err(TableError::Empty));
        assert_eq!(StepTable::new(&[row(1.0, 1.0, 0.0, 0.0)]), Err(TableError::BadRow(0)));
        assert_eq!(StepTable::new(&[row(1.0, f64::NAN, 0.0, 1.0)]), Err(TableError::BadRow(0)));
        let one = row(1.0, 1.0, 0.0, 1.0);
        assert_eq!(StepTable::new(&[one, one]), Err(TableError::Repeated(1)));
        let rows = [one, row(2.0, 2.0, 0.0, 1.0), row(0.0, 0.0, 512.0, 1.0)];
        assert_eq!(StepTable::new(&rows), Err(TableError::OneDecode(512.0)));
    }
}
