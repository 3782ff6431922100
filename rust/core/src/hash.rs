//! Chained block keys.
//!
//! `key[i] = H(link[i] || tokens[i])`, tokens as little-endian u32. `link[i]` is `key[i-1]`, or, where
//! the block carries multimodal items, `SHA256("extras" || key[i-1] || fields)`: of each item
//! its start, its end or the block's if that comes first, both from the block's start, and its id.
//! `link[0]` starts from the *root*, `SHA256("kvframe.v1" || fields)` over block size, hash, weights
//! fingerprint, tenant, salt, adapter and encoder input as tagged, length-prefixed fields. Where blocks at the front are
//! public, the root has a field that says so instead of tenant and salt, and the link of the first private block has
//! an item that stands for these two. Every key is the
//! first 128 bits of its digest, so a sequence can go on from any block's key and roll back for
//! nothing. Root and links are always SHA-256; only the per-block hash is chosen, and where it is
//! not cryptographic the pool keeps links and tokens and compares them. The key of a partial block
//! is `SHA256("tail" || link[i] || tokens)`, whatever the hash.

mod message;

use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_128;

use self::message::Message;
use crate::error::{Error, Result};

/// A block's name: 128 bits over everything its KV depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Key(pub u128);

impl Key {
    /// The key of the same prefix in another layer group.
    #[must_use]
    pub fn for_group(self, group: usize) -> Self {
        // Group 0 keeps the key as it is; the odd constant keeps the others apart.
        Self(self.0 ^ (group as u128).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835))
    }

    /// 64 bits that each bit of both words moves: callers give keys whose words count up, or stand
    /// still.
    #[inline]
    pub fn mixed(self) -> u64 {
        fold(self.0 as u64 ^ 0x9E37_79B9_7F4A_7C15, (self.0 >> 64) as u64 ^ 0xC2B2_AE3D_27D4_EB4F)
    }

    /// The number of a key that has one: its lowest 32 bits.
    #[inline]
    pub fn number(self) -> usize {
        self.0 as u32 as usize
    }

    /// The key of a block whose name, of any length, the caller has.
    pub fn of_name(name: &[u8]) -> Self {
        Self(xxh3_128(name))
    }

    /// The key of a namespace. Names that were made to collide must stay apart: nothing compares them.
    pub fn of_namespace(name: &[u8]) -> Self {
        Self::of_digest(&Sha256::digest(name))
    }

    fn of_digest(digest: &[u8]) -> Self {
        let mut head = [0; 16];
        head.copy_from_slice(&digest[..16]);
        Self(u128::from_le_bytes(head))
    }
}

/// The two halves of a product, one over the other: each bit of either factor moves all of it.
#[inline]
pub fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The hash that chains block keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashAlgo {
    /// Cryptographic, the default.
    Sha256,
    /// Cryptographic, faster where the processor has no SHA instructions.
    Blake3,
    /// Fast and not cryptographic: tokens are kept and compared.
    Xxh3,
}

impl HashAlgo {
    /// The name used in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Blake3 => "blake3",
            Self::Xxh3 => "xxh3-128",
        }
    }

    /// The hash of that name.
    ///
    /// # Errors
    /// [`Error::UnknownName`] lists the names there are.
    pub fn from_name(name: &str) -> Result<Self> {
        match name {
            "sha256" => Ok(Self::Sha256),
            "blake3" => Ok(Self::Blake3),
            "xxh3-128" => Ok(Self::Xxh3),
            _ => Err(Error::UnknownName {
                what: "hash",
                name: name.into(),
                known: "sha256, blake3, xxh3-128".into(),
            }),
        }
    }

    /// Whether two inputs of one key can be taken for equal without comparing them.
    pub fn is_cryptographic(self) -> bool {
        !matches!(self, Self::Xxh3)
    }
}

/// What sets prefixes apart besides their tokens.
#[derive(Debug, Clone, Copy, Default)]
pub struct Space<'a> {
    /// Whose request it is.
    pub tenant: &'a [u8],
    /// What sets requests of one tenant apart.
    pub cache_salt: &'a [u8],
    /// `LoRA` or other adapter.
    pub lora_name: &'a [u8],
    /// Content id of the other input that is attended to (audio, an image).
    pub encoder: &'a [u8],
    /// Blocks at the front that are public: keys begin without tenant and salt, and an item, the last of the multimodal
    /// ones, sets apart what comes behind these blocks ([`MmItem::boundary`]).
    pub public: u32,
}

impl Space<'_> {
    /// Whose blocks the public ones at the front are: those of all tenants and salts.
    #[must_use]
    pub fn of_public(self) -> Self {
        Self { tenant: b"", cache_salt: b"", public: 0, ..self }
    }

    /// Whose blocks the others are.
    #[must_use]
    pub fn of_private(self) -> Self {
        Self { public: 0, ..self }
    }
}

/// A multimodal item: the tokens `start..end` stand for the content `id`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MmItem {
    /// First token, absolute.
    pub start: u32,
    /// One past the last token.
    pub end: u32,
    /// Content hash or other name of the item.
    pub id: Vec<u8>,
}

/// What ids of boundaries begin with.
const BOUNDARY: &[u8] = b"kvframe.private\0";

impl MmItem {
    /// The item that sets block `at` and those behind it apart from blocks of another tenant or salt, where the
    /// blocks before it are public.
    pub fn boundary(at: u32, block_size: u32, space: Space<'_>) -> Self {
        let mut hasher = Sha256::new_with_prefix(BOUNDARY);
        field(&mut hasher, TENANT, space.tenant);
        field(&mut hasher, SALT, space.cache_salt);
        let id = [BOUNDARY, &hasher.finalize()[..]].concat();
        Self { start: at * block_size, end: at * block_size + 1, id }
    }
}

const SALT: u8 = 1;
const ADAPTER: u8 = 2;
const FINGERPRINT: u8 = 3;
const BLOCK_SIZE: u8 = 4;
const HASH: u8 = 5;
const ITEM: u8 = 6;
const ENCODER: u8 = 7;
const TENANT: u8 = 8;
const PUBLIC: u8 = 9;

fn field(hasher: &mut Sha256, tag: u8, value: &[u8]) {
    hasher.update([tag]);
    hasher.update((value.len() as u64).to_le_bytes());
    hasher.update(value);
}

/// Hashes blocks of one size with one hash.
#[derive(Debug, Clone)]
pub struct Hasher {
    algo: HashAlgo,
    block_size: usize,
    fingerprint: Vec<u8>,
    /// The root of prompts without salt and adapter.
    plain: Key,
}

impl Hasher {
    /// A hasher; `fingerprint` names the weights.
    pub fn new(algo: HashAlgo, block_size: u32, fingerprint: &[u8]) -> Self {
        let mut hasher = Self {
            algo,
            block_size: block_size as usize,
            fingerprint: fingerprint.to_vec(),
            plain: Key::default(),
        };
        hasher.plain = hasher.make_root(Space::default());
        hasher
    }

    /// The link that block 0 of a prefix in `space` starts from.
    pub fn root(&self, space: Space<'_>) -> Key {
        if space.public > 0 {
            return self.make_root(space);
        }
        let Space { tenant, cache_salt, lora_name, encoder, .. } = space;
        if [tenant, cache_salt, lora_name, encoder].iter().all(|name| name.is_empty()) {
            return self.plain;
        }
        self.make_root(space)
    }

    fn make_root(&self, space: Space<'_>) -> Key {
        let mut hasher = Sha256::new_with_prefix(b"kvframe.v1");
        field(&mut hasher, BLOCK_SIZE, &(self.block_size as u32).to_le_bytes());
        field(&mut hasher, HASH, self.algo.name().as_bytes());
        field(&mut hasher, FINGERPRINT, &self.fingerprint);
        if space.public > 0 {
            field(&mut hasher, PUBLIC, b"");
        } else {
            if !space.tenant.is_empty() {
                field(&mut hasher, TENANT, space.tenant);
            }
            if !space.cache_salt.is_empty() {
                field(&mut hasher, SALT, space.cache_salt);
            }
        }
        if !space.lora_name.is_empty() {
            field(&mut hasher, ADAPTER, space.lora_name);
        }
        if !space.encoder.is_empty() {
            field(&mut hasher, ENCODER, space.encoder);
        }
        Key::of_digest(&hasher.finalize())
    }

    /// The key of block `index` of another input, which has `tokens` tokens and is named in `root`.
    pub fn cross_key(root: Key, tokens: u32, index: u32) -> Key {
        let mut hasher = Sha256::new_with_prefix(b"cross");
        hasher.update(root.0.to_le_bytes());
        hasher.update(tokens.to_le_bytes());
        hasher.update(index.to_le_bytes());
        Key::of_digest(&hasher.finalize())
    }

    /// What the key of `units` blocks from `first` on was chained from: all of their links.
    pub fn link_of(
        &self,
        root: Key,
        keys: &[Key],
        first: usize,
        units: usize,
        mm_items: &[MmItem],
    ) -> Key {
        let previous = |i: usize| if i == 0 { root } else { keys[i - 1] };
        let link = |i: usize| self.link(previous(i), i, mm_items);
        if units == 1 {
            return link(first);
        }
        let mut hasher = Sha256::new_with_prefix(b"links");
        (first..first + units).for_each(|i| hasher.update(link(i).0.to_le_bytes()));
        Key::of_digest(&hasher.finalize())
    }

    /// The link of block `index` whose predecessor (or root) has the key `previous`.
    pub fn link(&self, previous: Key, index: usize, mm_items: &[MmItem]) -> Key {
        self.link_until(previous, index, mm_items, (index + 1) * self.block_size)
    }

    /// [`Self::link`] where tokens end at `until`, within block `index`: items behind that do not count.
    pub fn link_until(
        &self,
        previous: Key,
        index: usize,
        mm_items: &[MmItem],
        until: usize,
    ) -> Key {
        let start = (index * self.block_size) as i64;
        let end = until as i64;
        let overlaps = |e: &&MmItem| i64::from(e.start) < end && i64::from(e.end) > start;
        let mut items = mm_items.iter().filter(overlaps).peekable();
        if items.peek().is_none() {
            return previous;
        }
        let mut hasher = Sha256::new_with_prefix(b"extras");
        hasher.update(previous.0.to_le_bytes());
        for item in items {
            // Where in the item the block lies matters: two windows of one image differ.
            hasher.update((i64::from(item.start) - start).to_le_bytes());
            // Only as far as the block reaches: its KV depends on nothing behind, and a cut there must
            // leave its key as it is.
            hasher.update((i64::from(item.end).min(end) - start).to_le_bytes());
            field(&mut hasher, ITEM, &item.id);
        }
        Key::of_digest(&hasher.finalize())
    }

    /// What block `index` carries besides its tokens: its link without the prefix. `Key(0)` for nothing.
    pub fn mark(&self, index: usize, mm_items: &[MmItem]) -> Key {
        self.link(Key::default(), index, mm_items)
    }

    /// The marks of those of the first `blocks` blocks that carry anything, in order.
    pub fn marks(&self, mm_items: &[MmItem], blocks: usize) -> Vec<(u32, Key)> {
        let size = self.block_size;
        let spans = mm_items.iter().map(|e| {
            let end = (e.end as usize).div_ceil(size).min(blocks);
            e.start as usize / size..end
        });
        let mut at: Vec<usize> = spans.flatten().collect();
        at.sort_unstable();
        at.dedup();
        let marks = at.into_iter().map(|i| (i as u32, self.mark(i, mm_items)));
        marks.filter(|&(_, mark)| mark != Key::default()).collect()
    }

    /// The key of a full block.
    fn key(&self, message: &Message) -> Key {
        match self.algo {
            HashAlgo::Sha256 => message.sha256(),
            HashAlgo::Blake3 => Key::of_digest(blake3::hash(message.bytes()).as_bytes()),
            HashAlgo::Xxh3 => Key(xxh3_128(message.bytes())),
        }
    }

    /// The key of the partial block `tokens` at place `index` after `previous` (or the root).
    pub fn tail(&self, previous: Key, index: usize, mm_items: &[MmItem], tokens: &[u32]) -> Key {
        let mut hasher = Sha256::new_with_prefix(b"tail");
        let until = index * self.block_size + tokens.len();
        hasher.update(self.link_until(previous, index, mm_items, until).0.to_le_bytes());
        for token in tokens {
            hasher.update(token.to_le_bytes());
        }
        Key::of_digest(&hasher.finalize())
    }

    /// Appends to `keys` the keys of the full blocks of `tokens` that it does not hold yet.
    pub fn extend(&self, root: Key, mm_items: &[MmItem], tokens: &[u32], keys: &mut Vec<Key>) {
        let full = tokens.len() / self.block_size;
        if keys.len() >= full {
            return;
        }
        keys.reserve(full - keys.len());
        let mut message = Message::new(self.block_size);
        for i in keys.len()..full {
            let previous = if i == 0 { root } else { keys[i - 1] };
            let link =
                if mm_items.is_empty() { previous } else { self.link(previous, i, mm_items) };
            let block = &tokens[i * self.block_size..(i + 1) * self.block_size];
            message.set(link, block);
            keys.push(self.key(&message));
        }
    }
}
