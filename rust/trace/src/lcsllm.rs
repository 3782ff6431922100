//! lcsllm version 1, the requests of libCacheSim's fork for LLM traffic; little-endian and packed.
//!
//! | part | bytes | fields |
//! | --- | --- | --- |
//! | file header | 8192 | u64 magic, u64 version, i64 requests, blocks, distinct blocks, most blocks a request, first and last time (µs), i32 block size, u8 kind of ids (1: of prefixes), u8 whether next accesses are known, u8 number of classes, u8 0, 8 class names of 16 bytes, zeros, u64 magic |
//! | request | 48 | u64 chat, i64 parent chat (-1: none), i64 time (µs), u32 blocks, input tokens, output tokens, turn, u8 class, 7 zeros |
//! | block, as many as the request says | 16 | u64 id, i64 number of its next access, from 1 (-1: none) |

use crate::build::{Builder, Head};
use crate::bytes::Fields;
use crate::error::TraceError;
use crate::lines::Lines;
use crate::session::{SessionName, Sessions};

/// The first and the last eight bytes of the header.
pub(crate) const MAGIC: [u8; 8] = 0x6c63_736c_6c6d_0001_u64.to_le_bytes();
pub(crate) const VERSION: u64 = 1;
pub(crate) const HEADER: usize = 8_192;
pub(crate) const REQUEST: usize = 48;
pub(crate) const BLOCK: usize = 16;
/// Most classes that the header names, and the bytes of a name.
pub(crate) const CLASSES: usize = 8;
pub(crate) const CLASS_NAME: usize = 16;

/// Reads header and requests into `builder`.
pub(crate) fn read(lines: &mut Lines<'_>, builder: &mut Builder<'_>) -> Result<(), TraceError> {
    let path = lines.path;
    let mut header = [0; HEADER];
    lines.record(&mut header)?;
    lines.number = 0;
    let whole = |what: String| TraceError::whole(path, what);
    let (expected, classes) = head(&header, builder).map_err(whole)?;
    let (mut request, mut block, mut ids) = ([0; REQUEST], [0; BLOCK], Vec::new());
    let mut sessions = Sessions::default();
    let mut found = 0;
    while lines.record(&mut request)? {
        found += 1;
        lines.number = found;
        let at = |what| TraceError::at(path, found, what);
        let mut fields = Fields(&request);
        let (chat, parent) = (fields.u64(), fields.i64());
        let timestamp_ms = fields.i64().div_euclid(1_000);
        let (blocks, input_tokens, output_tokens) = (fields.u32(), fields.u32(), fields.u32());
        let (_turn, class) = (fields.u32(), fields.take::<1>()[0]);
        ids.clear();
        for _ in 0..blocks {
            if !lines.record(&mut block)? {
                return Err(at(format!("the file ends after {} of {blocks} blocks", ids.len())));
            }
            lines.number = found;
            ids.push(Fields(&block).u64());
        }
        let parent = SessionName::Integer(parent.into());
        let head = Head {
            timestamp_ms,
            input_tokens,
            output_tokens,
            session: sessions.of_chat(SessionName::Integer(chat.into()), &parent),
            class: classes.get(usize::from(class)).copied().unwrap_or(0),
        };
        builder.push_raw(&head, &ids).map_err(at)?;
    }
    builder.trace.sessions = sessions.ids;
    if found != expected {
        return Err(whole(format!(
            "the file ends with {found} requests, but its header says {expected}"
        )));
    }
    if found == 0 {
        return Err(whole("no requests: only a header".to_owned()));
    }
    Ok(())
}

/// What the header says: the number of requests, and a number for each class.
fn head(header: &[u8], builder: &mut Builder<'_>) -> Result<(u64, Vec<u8>), String> {
    let mut fields = Fields(header);
    let _magic = fields.u64();
    let version = fields.u64();
    if version != VERSION {
        return Err(format!("lcsllm of version {version}: this kvframe reads version {VERSION}"));
    }
    if header[HEADER - MAGIC.len()..] != MAGIC {
        return Err("damaged lcsllm header: it does not end with the magic number".to_owned());
    }
    let requests = fields.u64();
    fields.take::<40>();
    let block_size = fields.u32();
    let [_kind, _next, classes, _] = fields.take::<4>();
    builder.row_block_size(Some(block_size))?;
    let mut numbers = Vec::new();
    for _ in 0..CLASSES.min(classes.into()) {
        let name = fields.take::<CLASS_NAME>();
        let name = String::from_utf8_lossy(&name);
        numbers.push(builder.class(name.trim_end_matches('\0')));
    }
    Ok((requests, numbers))
}
