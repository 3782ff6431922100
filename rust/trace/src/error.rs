//! The one error of this crate: which file, which line, what is wrong.

use std::fmt;

/// A trace that cannot be read. Prints as `path:line: what`, always one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The file as the caller named it (`-` or a label for data that came from memory).
    pub path: String,
    /// Line, from 1, counted after decompression; `None` where no line is at fault (a missing file).
    pub line: Option<u64>,
    /// What is wrong, with the value and the limit.
    pub what: String,
}

impl TraceError {
    pub(crate) fn at(path: &str, line: u64, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), what: what.into() }
    }

    pub(crate) fn whole(path: &str, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, what: what.into() }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A path may hold any character; the message stays one line all the same.
        let path = self.path.replace(['\n', '\r'], "?");
        match self.line {
            Some(line) => write!(f, "{path}:{line}: {}", self.what),
            None => write!(f, "{path}: {}", self.what),
        }
    }
}

impl std::error::Error for TraceError {}

/// The system's words without Rust's "(os error 2)".
pub(crate) fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
