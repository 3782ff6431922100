//! The core's request for one that the input asks for.

use kvframe_core::hash::MmItem;
use kvframe_core::retention::{self, Decay, Retention, TokenRange};
use kvframe_core::sequence::Meta;
use kvframe_core::{Manager, Request};

use crate::verbs::{self, Keep};

/// Priorities over 100 are refused.
pub fn keep_of(asked: &Keep) -> retention::Keep {
    retention::Keep {
        priority: asked.priority / 2,
        duration: asked.duration.map(u64::from),
        then: asked.then / 2,
        decay: if asked.linear { Decay::Linear } else { Decay::Step },
    }
}

fn retention_of(asked: &Keep) -> Retention {
    let keep = keep_of(asked);
    let ranges = vec![TokenRange { start: 0, end: asked.end.into(), keep }];
    Retention { ranges, decode: asked.linear.then_some(keep) }
}

/// Tokens of a vocabulary of three.
pub fn tokens(bytes: &[u8]) -> Vec<u32> {
    bytes.iter().map(|&b| u32::from(b % 3)).collect()
}

/// As the manager is asked, by tokens or by their keys.
pub fn request_of(m: &Manager, asked: &verbs::Request) -> Request {
    let item = asked.item.map(|(start, len)| MmItem {
        start: start.into(),
        end: u32::from(start) + u32::from(len) + 1,
        id: vec![start % 2],
    });
    let size = m.options().block_size;
    // Mostly whole blocks: nothing else is taken.
    let num_external_tokens = u32::from(asked.num_external_tokens % 4) * size
        + u32::from(asked.num_external_tokens / 250);
    let mut request = Request {
        cache_salt: if asked.cache_salt { b"salt".to_vec() } else { Vec::new() },
        lora_name: if asked.lora_name { b"lora".to_vec() } else { Vec::new() },
        mm_items: item.into_iter().collect(),
        read_cache: !asked.unread,
        write_cache: !asked.uninserted,
        resumed: asked.resumed,
        partial: asked.partial,
        chunk: asked.chunk.map_or(u32::MAX, u32::from),
        until: asked.until.map_or(u32::MAX, u32::from),
        max_seq_len: asked.max_seq_len.into(),
        num_external_tokens,
        full_sequence_must_fit: asked.full_sequence_must_fit,
        join: asked.join,
        next_use: asked.next_use.iter().map(|&next| next.into()).collect(),
        meta: Meta { session: (asked.session % 4).into(), ..Meta::default() },
        retention: asked.keep.as_ref().map(retention_of),
        ..Request::of_tokens(&tokens(&asked.tokens))
    };
    if asked.only_keys {
        request.keys = m.keys(&request.tokens, request.space(), &request.mm_items);
        request.num_tokens = request.len();
        request.tokens.clear();
    }
    request
}
