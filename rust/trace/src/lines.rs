//! Lines of a plain or gzip stream, one buffer for all of them, each checked for UTF-8.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

use crate::error::{TraceError, plain};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Bytes that tell a form.
const HEAD: usize = 8;
const BUFFER: usize = 256 * 1024;
/// Bytes of the longest line, after decompression: 8 million token ids and more.
const MOST: u64 = 1 << 26;
const BOM: &str = "\u{feff}";

/// The lines that are not blank, with their numbers.
pub(crate) struct Lines<'a> {
    pub path: &'a str,
    /// Number of the last line read, from 1.
    pub number: u64,
    /// Bytes of all lines read, after decompression.
    pub bytes: u64,
    /// The first bytes of a plain stream.
    head: Option<Vec<u8>>,
    reader: Box<dyn BufRead + 'a>,
    buffer: Vec<u8>,
    again: bool,
}

impl<'a> Lines<'a> {
    /// Tells gzip by its first two bytes, whatever the file is called.
    pub fn new(path: &'a str, mut raw: impl Read + 'a) -> Result<Self, TraceError> {
        let mut head = Vec::with_capacity(HEAD);
        let taken = raw.by_ref().take(HEAD as u64).read_to_end(&mut head);
        taken.map_err(|error| TraceError::whole(path, plain(&error)))?;
        let gzip = head.starts_with(&GZIP_MAGIC);
        let whole = BufReader::with_capacity(BUFFER, Cursor::new(head.clone()).chain(raw));
        let reader: Box<dyn BufRead + 'a> = if gzip {
            Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(whole)))
        } else {
            Box::new(whole)
        };
        let head = if gzip { None } else { Some(head) };
        Ok(Self { path, number: 0, bytes: 0, head, reader, buffer: Vec::new(), again: false })
    }

    /// The next line that is not blank, trimmed; `None` at the end.
    pub fn next(&mut self) -> Result<Option<(u64, &str)>, TraceError> {
        while !std::mem::take(&mut self.again) {
            self.buffer.clear();
            let mut line = self.reader.by_ref().take(MOST + 1);
            let read = line.read_until(b'\n', &mut self.buffer);
            let read = read.map_err(|error| broken(self.path, self.number + 1, &error))?;
            if read as u64 > MOST {
                let what = format!("a line of more than {MOST} bytes");
                return Err(TraceError::at(self.path, self.number + 1, what));
            }
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.bytes += read as u64;
            if !self.buffer.trim_ascii().is_empty() {
                break;
            }
        }
        let text = std::str::from_utf8(&self.buffer).map_err(|error| {
            let at = error.valid_up_to();
            let what = format!("not UTF-8: byte 0x{:02x} in column {}", self.buffer[at], at + 1);
            TraceError::at(self.path, self.number, what)
        })?;
        let text = if self.number == 1 { text.trim_start_matches(BOM) } else { text };
        Ok(Some((self.number, text.trim_ascii())))
    }

    /// Whether the stream, of which no line was read yet, begins with these bytes.
    pub fn starts_with(&mut self, magic: &[u8]) -> Result<bool, TraceError> {
        if let Some(head) = &self.head {
            return Ok(head.starts_with(magic));
        }
        let head = self.reader.fill_buf().map_err(|error| broken(self.path, 1, &error))?;
        Ok(head.starts_with(magic))
    }

    /// Fills `record`, of a binary form; false at the end of the stream. `number` then counts records.
    pub fn record(&mut self, record: &mut [u8]) -> Result<bool, TraceError> {
        let mut filled = 0;
        while filled < record.len() {
            match self.reader.read(&mut record[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(self.path, self.number + 1, &error)),
            }
        }
        self.bytes += filled as u64;
        if filled > 0 && filled < record.len() {
            let what = format!(
                "the file ends inside a record: {filled} of {} bytes; it is truncated",
                record.len()
            );
            return Err(TraceError::at(self.path, self.number + 1, what));
        }
        self.number += u64::from(filled > 0);
        Ok(filled > 0)
    }

    /// Makes the next call of [`next`](Self::next) give the same line once more.
    pub fn unread(&mut self) {
        self.again = true;
    }

    /// An error at the line read last.
    pub fn error(&self, what: impl Into<String>) -> TraceError {
        TraceError::at(self.path, self.number.max(1), what)
    }
}

fn broken(path: &str, line: u64, error: &io::Error) -> TraceError {
    let what = match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            "the gzip data ends early: the file is truncated".to_owned()
        }
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            format!("the gzip data is damaged: {error}")
        }
        _ => plain(error),
    };
    TraceError::at(path, line, what)
}

#[cfg(test)]
mod tests {
    use std::io::repeat;

    use super::*;

    // scenario: F18
    #[test]
    fn a_line_without_an_end_is_refused() {
        let mut lines = Lines::new("t", repeat(b' ')).unwrap();
        let error = lines.next().unwrap_err();
        assert_eq!(error.to_string(), "t:1: a line of more than 67108864 bytes");
    }
}
