//! Sessions by name.

use sha2::{Digest, Sha256};

/// Set in the number of every session that has a name. Engines that number sessions themselves do not reach
/// it.
const NAMED: u64 = 1 << 63;

/// The number that stands for a session's name, the same in every process and on every machine: the
/// first 8 bytes of the name's SHA-256, low byte first, with the highest bit set. 0 for an empty name,
/// which says that there is no session.
#[must_use]
pub fn session_id(name: &str) -> u64 {
    if name.is_empty() {
        return 0;
    }
    let digest = Sha256::digest(name.as_bytes());
    digest.iter().take(8).rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)) | NAMED
}
