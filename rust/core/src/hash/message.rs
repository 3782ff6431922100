//! What a block's key is hashed from, laid out once for all the blocks of a chain.

use sha2::block_api::compress256;
use smallvec::{SmallVec, smallvec};

use super::Key;

/// SHA-256's first state (FIPS 180-4, 5.3.3).
const START: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];
const LINK: usize = 16;

/// A link and the tokens of one block, with SHA-256's padding behind: all messages of a chain are
/// equally long, so it is the same for each.
// A message of a block of up to 128 tokens lies in the struct itself, without an allocation.
pub struct Message {
    chunks: SmallVec<[[u8; 64]; 9]>,
    len: usize,
}

impl Message {
    /// For blocks of `block_size` tokens.
    pub fn new(block_size: usize) -> Self {
        let len = LINK + 4 * block_size;
        let mut chunks: SmallVec<_> = smallvec![[0; 64]; (len + 9).div_ceil(64)];
        let bytes = chunks.as_flattened_mut();
        bytes[len] = 0x80;
        if let Some(bits) = bytes.last_chunk_mut() {
            *bits = (8 * len as u64).to_be_bytes();
        }
        Self { chunks, len }
    }

    /// Replaces the link and the tokens by those of another block. The padding stays.
    pub fn set(&mut self, link: Key, tokens: &[u32]) {
        let (head, body) = self.chunks.as_flattened_mut().split_at_mut(LINK);
        head.copy_from_slice(&link.0.to_le_bytes());
        for (bytes, token) in body.chunks_exact_mut(4).zip(tokens) {
            bytes.copy_from_slice(&token.to_le_bytes());
        }
    }

    /// The link and the tokens, without the padding.
    pub fn bytes(&self) -> &[u8] {
        &self.chunks.as_flattened()[..self.len]
    }

    /// The first half of its SHA-256 digest.
    pub fn sha256(&self) -> Key {
        let mut state = START;
        compress256(&mut state, &self.chunks);
        let mut digest = [0; 16];
        for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        Key::of_digest(&digest)
    }
}
