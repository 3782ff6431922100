//! Finds the resident blocks of a prompt's prefix.

mod hash;
mod mirror;
pub mod radix;
mod table;

pub use hash::{HashIndex, KeyMatch, Proof};
pub use mirror::Changes;
pub use radix::Radix;

use crate::error::{Error, Result};
use crate::hash::Key;
use crate::options::Options;
use crate::pool::{BlockId, Pool};

/// How prompts are matched with blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexKind {
    /// By chained keys, one table.
    #[default]
    Hash,
    /// By the tokens themselves, in a tree.
    Radix,
}

impl IndexKind {
    /// The name used in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Radix => "radix",
        }
    }

    /// The index of that name.
    ///
    /// # Errors
    /// [`Error::UnknownName`] lists the names there are.
    pub fn from_name(name: &str) -> Result<Self> {
        match name {
            "hash" => Ok(Self::Hash),
            "radix" => Ok(Self::Radix),
            _ => Err(Error::UnknownName {
                what: "index",
                name: name.into(),
                known: "hash, radix".into(),
            }),
        }
    }
}

/// The index in use. Only what finds and stores knows which one it is.
#[derive(Debug)]
pub enum Index {
    /// Keys.
    Hash(HashIndex),
    /// Tokens.
    Radix(Box<Radix>),
}

impl Index {
    /// The index that `options` ask for, empty; its blocks have up to `span` tokens.
    pub fn new(options: &Options, span: u32) -> Self {
        let &Options { block_size, blocks, index, partial_hits, keep_duplicates, .. } = options;
        // Ids depend on other tenants.
        let by_age = keep_duplicates || !options.tenants.is_empty();
        match index {
            IndexKind::Hash => {
                let hash = HashIndex::new(options.chain_hash(), span, blocks);
                Self::Hash(hash.by_age(by_age))
            }
            IndexKind::Radix => Self::Radix(Box::new(Radix::new(block_size, partial_hits))),
        }
    }

    /// The radix index, if it is that.
    #[inline]
    pub fn radix(&self) -> Option<&Radix> {
        match self {
            Self::Hash(_) => None,
            Self::Radix(radix) => Some(radix),
        }
    }

    /// By number, the block that is found, where keys are [numbered](HashIndex::number).
    #[inline]
    pub fn numbered(&self) -> Option<&[BlockId]> {
        match self {
            Self::Hash(hash) => hash.numbered(),
            Self::Radix(_) => None,
        }
    }

    /// Whether a prompt may come as keys alone.
    #[inline]
    pub fn takes_keys(&self) -> bool {
        matches!(self, Self::Hash(_))
    }

    /// Whether `block`, which has the key, holds what the proof says too.
    pub fn vouches(&self, block: BlockId, proof: Option<Proof<'_>>) -> bool {
        match self {
            Self::Hash(hash) => hash.vouches(block, proof),
            Self::Radix(_) => true,
        }
    }

    /// Whether lookups by key should bring a [`Proof`].
    #[inline]
    pub fn wants_proof(&self) -> bool {
        match self {
            Self::Hash(hash) => hash.wants_proof(),
            Self::Radix(_) => false,
        }
    }

    /// Whether `block` is what is found under its key. A tree of tokens is not asked.
    #[inline]
    pub fn holds(&self, pool: &Pool, block: BlockId) -> bool {
        match self {
            Self::Hash(hash) => hash.holds(pool, block),
            Self::Radix(_) => false,
        }
    }

    /// The block under `key`. A tree of tokens knows none.
    #[inline]
    pub fn find(&self, pool: &Pool, key: Key, proof: Option<Proof<'_>>) -> KeyMatch {
        match self {
            Self::Hash(hash) => hash.find(pool, key, proof),
            Self::Radix(_) => KeyMatch::Nothing,
        }
    }

    /// Makes `block` findable under `key` alone. No tokens are compared with the key.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a tree of tokens.
    pub fn store(&mut self, pool: &Pool, block: BlockId, key: Key) -> Result<KeyMatch> {
        match self {
            Self::Hash(hash) => Ok(hash.store(pool, block, key, None)),
            Self::Radix(_) => Err(self.no_keys()),
        }
    }

    /// Refuses where nothing is findable by key.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a tree of tokens.
    pub fn check_keys(&self) -> Result<()> {
        if self.takes_keys() { Ok(()) } else { Err(self.no_keys()) }
    }

    fn no_keys(&self) -> Error {
        let value = if self.takes_keys() { IndexKind::Hash } else { IndexKind::Radix };
        let limit = "matches tokens and knows no keys: take \"hash\"".into();
        Error::Invalid { what: "index", value: value.name().into(), limit }
    }

    /// Takes `block` out. False if it was not there.
    pub fn remove(&mut self, pool: &Pool, block: BlockId) -> bool {
        match self {
            Self::Hash(hash) => hash.remove(pool, block),
            Self::Radix(radix) => radix.remove(pool, block),
        }
    }

    /// Another findable block with `block`'s prefix.
    pub fn other_copy(&self, pool: &Pool, block: BlockId) -> Option<BlockId> {
        match self {
            Self::Hash(hash) => hash.other_copy(pool, block),
            Self::Radix(radix) => radix.other_copy(block),
        }
    }

    /// Findable blocks.
    pub fn len(&self) -> usize {
        match self {
            Self::Hash(hash) => hash.len(),
            Self::Radix(radix) => radix.len(),
        }
    }

    /// Whether nothing is findable.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every findable block, in no order.
    pub fn blocks(&self) -> Vec<BlockId> {
        match self {
            Self::Hash(hash) => hash.blocks().collect(),
            Self::Radix(radix) => radix.blocks().collect(),
        }
    }

    /// Checks what only the index knows.
    ///
    /// # Errors
    /// One line that says what disagrees.
    pub fn validate(&self, pool: &Pool) -> std::result::Result<(), String> {
        self.radix().map_or(Ok(()), |radix| radix.validate(pool))
    }
}
