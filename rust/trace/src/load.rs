//! Opening a trace: from a path or from memory, whatever its format.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use crate::build::{Builder, check_block_size};
use crate::error::{TraceError, plain};
use crate::forest::Trace;
use crate::lines::Lines;
use crate::time::TimeUnit;
use crate::{compact, jsonl, lcsllm, oracle};

/// Endings that are the format's and not the trace's name.
const ENDINGS: [&str; 5] = [".gz", ".jsonl", ".json", ".kvt", ".csv"];

/// The forms that are read here, without Python.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Mooncake JSONL, the compact form or lcsllm, told by the first bytes.
    #[default]
    ByContent,
    /// libCacheSim's oracleGeneral, whose bytes have no magic number.
    OracleGeneral,
}

/// What the caller says of a trace whose rows do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceDefaults {
    /// The form, where the file's first bytes do not tell it.
    pub form: Form,
    /// Tokens a block, 1 to [`MAX_BLOCK_SIZE`](crate::MAX_BLOCK_SIZE), where the file gives none;
    /// [`DEFAULT_BLOCK_SIZE`](crate::DEFAULT_BLOCK_SIZE) where the caller gives none either.
    pub block_size: Option<u32>,
    /// The unit of the times of JSONL rows; what their form says if `None`. The compact form is in milliseconds.
    pub time_unit: Option<TimeUnit>,
    /// Put the requests in order of time, all of them in memory; otherwise one that is earlier than the one above is an
    /// error. Of equal times the file's order is kept.
    pub sort: bool,
}

impl Trace {
    /// Reads Mooncake JSONL or the compact form, plain or gzip, both told by content.
    ///
    /// `block_size` (tokens, 1 to [`MAX_BLOCK_SIZE`](crate::MAX_BLOCK_SIZE)) holds where the file gives none;
    /// [`DEFAULT_BLOCK_SIZE`](crate::DEFAULT_BLOCK_SIZE) where the caller gives none either.
    ///
    /// # Errors
    /// [`TraceError`] with file and line: what cannot be opened, decompressed, decoded or parsed, and every row whose values
    /// contradict each other, the limits, or the rows above.
    pub fn load(path: impl AsRef<Path>, block_size: Option<u32>) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let label = path.display().to_string();
        let file = File::open(path).map_err(|error| TraceError::whole(&label, plain(&error)))?;
        read(file, &label, name_of(path), TraceDefaults { block_size, ..TraceDefaults::default() })
    }

    /// As [`load`](Self::load), from memory. `name` names the trace, and stands for the file in errors.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn parse(data: &[u8], name: &str, block_size: Option<u32>) -> Result<Self, TraceError> {
        Self::parse_as(data, name, TraceDefaults { block_size, ..TraceDefaults::default() })
    }

    /// As [`parse_as`](Self::parse_as), from a stream, which is read to its end. `path` stands for the file in errors.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn read(raw: impl Read, path: &str, given: TraceDefaults) -> Result<Self, TraceError> {
        read(raw, path, path.to_owned(), given)
    }

    /// As [`parse`](Self::parse), with all that a caller may say of a trace.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn parse_as(data: &[u8], name: &str, given: TraceDefaults) -> Result<Self, TraceError> {
        read(data, name, name.to_owned(), given)
    }
}

fn read(
    raw: impl Read,
    path: &str,
    name: String,
    given: TraceDefaults,
) -> Result<Trace, TraceError> {
    read_into(raw, path, Builder::new(name, given), given)
}

/// Reads every row into `builder`, whatever the form.
pub(crate) fn read_into(
    raw: impl Read,
    path: &str,
    mut builder: Builder<'_>,
    given: TraceDefaults,
) -> Result<Trace, TraceError> {
    let clock = Instant::now();
    if let Some(block_size) = given.block_size {
        check_block_size(block_size).map_err(|what| TraceError::whole(path, what))?;
    }
    let mut lines = Lines::new(path, raw)?;
    let form = if given.form == Form::ByContent && lines.starts_with(&lcsllm::MAGIC)? {
        Some(lcsllm::read(&mut lines, &mut builder))
    } else if given.form == Form::OracleGeneral {
        Some(oracle::read(&mut lines, &mut builder))
    } else {
        None
    };
    match form {
        Some(read) => read?,
        None => read_text(&mut lines, &mut builder)?,
    }
    let mut trace = builder.finish().map_err(|what| TraceError::whole(path, what))?;
    trace.bytes = lines.bytes;
    trace.parse_seconds = clock.elapsed().as_secs_f64();
    Ok(trace)
}

fn read_text(lines: &mut Lines<'_>, builder: &mut Builder<'_>) -> Result<(), TraceError> {
    let first = lines.next()?.map(|(_, line)| compact::is_header(line));
    lines.unread();
    match first {
        None if lines.number == 0 => Err(lines.error("no requests: the file is empty")),
        None => Err(lines.error("no requests: only blank lines")),
        Some(true) => compact::read(lines, builder),
        Some(false) => jsonl::read(lines, builder),
    }
}

fn name_of(path: &Path) -> String {
    let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let mut name: &str = &file;
    while let Some(shorter) = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)) {
        if shorter.is_empty() {
            break;
        }
        name = shorter;
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_the_format() {
        for path in ["a/x.jsonl.gz", "x.kvt.gz", "x.jsonl", "x", "b/x.json"] {
            assert_eq!(name_of(Path::new(path)), "x");
        }
        assert_eq!(name_of(Path::new(".gz")), ".gz");
    }

    #[test]
    fn a_missing_file_and_a_folder_are_named() {
        let error = Trace::load("no/such.jsonl", None).unwrap_err();
        assert_eq!(error.to_string(), "no/such.jsonl: No such file or directory");
        let folder = env!("CARGO_MANIFEST_DIR");
        let error = Trace::load(folder, None).unwrap_err();
        assert_eq!(error.to_string(), format!("{folder}: Is a directory"));
    }

    #[test]
    fn a_block_size_out_of_range_is_refused_before_reading() {
        for bad in [0, 65_537] {
            let error = Trace::parse(b"", "t", Some(bad)).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("t: block_size = {bad}: must be between 1 and 65536")
            );
        }
    }
}
