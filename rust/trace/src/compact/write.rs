//! Writing the compact form.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::{Compression, GzBuilder};

use crate::compact::{Header, MAGIC, VERSION};
use crate::error::{TraceError, plain};
use crate::forest::{NO_SESSION, Trace};

impl Trace {
    /// Writes the compact form, gzip, to `path`; returns its size in bytes. The same trace gives the same text, and
    /// with the same compressor the same bytes.
    ///
    /// The file appears whole or not at all: it is written beside `path` and then renamed.
    ///
    /// # Errors
    /// [`TraceError`] when the file cannot be written.
    pub fn write_compact(&self, path: impl AsRef<Path>) -> Result<u64, TraceError> {
        let path = path.as_ref();
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let write = || {
            let bytes = self.encode_compact()?;
            fs::write(&part, &bytes)?;
            fs::rename(&part, path)?;
            Ok(bytes.len() as u64)
        };
        write().map_err(|error: std::io::Error| {
            // The first error is the one to report, whether or not anything is left to remove.
            let _ = fs::remove_file(&part);
            TraceError::whole(
                &path.display().to_string(),
                format!("cannot be written: {}", plain(&error)),
            )
        })
    }

    /// The compact form in memory, gzip.
    ///
    /// # Errors
    /// None in practice: what the compressor could fail at is writing, and it writes to memory.
    pub fn encode_compact(&self) -> std::io::Result<Vec<u8>> {
        // Time 0 and no file name, so that the bytes depend on the trace alone.
        let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
        gzip.write_all(self.compact_text().as_bytes())?;
        gzip.finish()
    }

    fn compact_text(&self) -> String {
        let header = serde_json::json!(Header {
            name: self.name.clone(),
            block_size: self.block_size,
            requests: self.requests.len() as u64,
            source: self.source.clone(),
            licence: self.licence.clone(),
        });
        let mut text = format!("{MAGIC}{VERSION} {header}\n");
        // The request that first had each node. Nodes are numbered by first appearance, so a node is new if
        // its number is not below the length of this list.
        let mut creator: Vec<usize> = Vec::with_capacity(self.parents.len());
        // Wide enough for the difference of any two times.
        let mut above: i128 = 0;
        for (index, request) in self.requests.iter().enumerate() {
            let chain = self.chain(index);
            let shared = chain.partition_point(|&node| (node as usize) < creator.len());
            if request.session != NO_SESSION {
                put(&mut text, request.session);
            }
            text.push(',');
            put(&mut text, i128::from(request.timestamp_ms) - above);
            text.push(',');
            put(&mut text, request.input_tokens);
            text.push(',');
            put(&mut text, request.output_tokens);
            text.push(',');
            if shared > 0 {
                put(&mut text, creator[chain[shared - 1] as usize]);
            }
            text.push(',');
            put(&mut text, shared);
            text.push(',');
            put(&mut text, chain.len() - shared);
            text.push('\n');
            creator.resize(creator.len() + chain.len() - shared, index);
            above = request.timestamp_ms.into();
        }
        text
    }
}

fn put(text: &mut String, value: impl std::fmt::Display) {
    write!(text, "{value}").expect("writing to a String cannot fail");
}
