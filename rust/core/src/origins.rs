//! Whose KV the findable blocks hold: for which tenant and under which salt and adapter it was computed, and which session
//! alone has used it.
//!
//! Two columns, each empty until the first request that needs it: 4 bytes a block once one has a salt
//! or an adapter, 8 more once one has a session.

use hashbrown::HashMap;

use crate::hash::{Key, Space};
use crate::policy::grow;
use crate::pool::{BlockId, Pool};

/// Which blocks to forget: those to which every given condition applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scope<'a> {
    /// Computed for this tenant.
    pub tenant: Option<&'a [u8]>,
    /// Computed under this salt.
    pub cache_salt: Option<&'a [u8]>,
    /// Computed under this adapter.
    pub lora_name: Option<&'a [u8]>,
    /// Used by requests of this session alone.
    pub session: Option<u64>,
}

impl Scope<'_> {
    /// Whether it holds what was computed in `space`, sessions apart.
    pub fn covers(&self, space: Space<'_>) -> bool {
        self.tenant.is_none_or(|tenant| tenant == space.tenant)
            && self.cache_salt.is_none_or(|salt| salt == space.cache_salt)
            && self.lora_name.is_none_or(|adapter| adapter == space.lora_name)
    }

    /// Whether a sequence in `space` and of `session` computes what it holds.
    pub fn runs(&self, space: Space<'_>, session: u64) -> bool {
        self.covers(space) && self.session.is_none_or(|wanted| wanted == session)
    }
}

/// Several sessions used it, or a request without one.
const SHARED: u64 = 0;

/// Of blocks without tenant, salt and adapter.
const PLAIN: u32 = 0;

/// Of a block that was published by itself, under a key of its owner's: its salt and adapter are not
/// known.
const UNKNOWN: u32 = u32::MAX;

#[derive(Debug, Default)]
struct Name {
    root: Key,
    tenant: Vec<u8>,
    salt: Vec<u8>,
    adapter: Vec<u8>,
    /// Findable blocks under it.
    blocks: u32,
}

/// Where findable blocks come from.
#[derive(Debug, Default)]
pub struct Origins {
    /// By block: one more than the place in `names`, or [`PLAIN`] or [`UNKNOWN`].
    spaces: Vec<u32>,
    /// By block.
    sessions: Vec<u64>,
    names: Vec<Name>,
    vacant: Vec<u32>,
    /// Places in `names`, by the root of their keys.
    places: HashMap<Key, u32>,
    had_unknown: bool,
}

impl Origins {
    /// `blocks` became findable: a request in `space`, whose keys start from `root`, computed them.
    #[inline]
    pub fn publish(&mut self, blocks: &[BlockId], root: Key, space: Space<'_>, session: u64) {
        let plain =
            space.tenant.is_empty() && space.cache_salt.is_empty() && space.lora_name.is_empty();
        if !plain || !self.spaces.is_empty() {
            self.name_all(blocks, root, space, plain);
        }
        if session != SHARED || !self.sessions.is_empty() {
            for &block in blocks {
                grow(&mut self.sessions, block, SHARED);
                self.sessions[block as usize] = session;
            }
        }
    }

    /// A block became findable under a key of its owner's.
    pub fn publish_unknown(&mut self, block: BlockId) {
        grow(&mut self.spaces, block, PLAIN);
        self.spaces[block as usize] = UNKNOWN;
        self.had_unknown = true;
        if let Some(user) = self.sessions.get_mut(block as usize) {
            *user = SHARED;
        }
    }

    /// Whether some block ever became findable under a key of its owner's.
    pub fn had_unknown(&self) -> bool {
        self.had_unknown
    }

    /// A request of `session` uses findable `blocks`.
    #[inline]
    pub fn used(&mut self, blocks: &[BlockId], session: u64) {
        if self.sessions.is_empty() {
            return;
        }
        for &block in blocks {
            if let Some(user) = self.sessions.get_mut(block as usize)
                && *user != session
            {
                *user = SHARED;
            }
        }
    }

    /// `copy` stays in the place of `block`, and is used by the sessions of both.
    pub fn inherit(&mut self, copy: BlockId, block: BlockId) {
        if let Some(&session) = self.sessions.get(block as usize) {
            self.used(&[copy], session);
        }
    }

    /// As [`Self::used`], for a prefix: a request uses no block without the blocks before it. So once a
    /// block's entry does not change, the blocks before it were used by the same session, or by more, and
    /// need no look.
    #[inline]
    pub fn used_prefix(&mut self, blocks: &[BlockId], session: u64) {
        for &block in blocks.iter().rev() {
            match self.sessions.get_mut(block as usize) {
                Some(user) if *user != session && *user != SHARED => *user = SHARED,
                _ => break,
            }
        }
    }

    /// `block` is findable no more.
    #[inline]
    pub fn unpublish(&mut self, block: BlockId) {
        let Some(space) = self.spaces.get_mut(block as usize) else { return };
        let space = std::mem::take(space);
        if space != PLAIN && space != UNKNOWN {
            self.leave(space - 1);
        }
    }

    /// The findable blocks of `pool` in `scope`. One pass over the pool.
    pub fn blocks_in(&self, scope: Scope<'_>, pool: &Pool) -> Vec<BlockId> {
        let covered: Vec<bool> = self.names.iter().map(|name| scope.covers(name.space())).collect();
        let unscoped =
            scope.tenant.is_none() && scope.cache_salt.is_none() && scope.lora_name.is_none();
        let plain = scope.covers(Space::default());
        let in_space = |block: BlockId| match self.spaces.get(block as usize) {
            None | Some(&PLAIN) => plain,
            Some(&UNKNOWN) => unscoped,
            Some(&space) => covered[space as usize - 1],
        };
        let alone = |block: BlockId| match scope.session {
            None => true,
            Some(session) => self.sessions.get(block as usize) == Some(&session),
        };
        let found = (0..pool.created()).filter(|&b| pool.is_findable(b) && in_space(b) && alone(b));
        found.collect()
    }

    /// Salts of findable blocks, each once; those without one apart.
    pub fn salts(&self) -> Vec<&[u8]> {
        let mut salts: Vec<&[u8]> = self.names.iter().map(|name| &name.salt[..]).collect();
        salts.retain(|salt| !salt.is_empty());
        salts.sort_unstable();
        salts.dedup();
        salts
    }

    /// What disagrees with the pool, if anything.
    ///
    /// # Errors
    /// One line.
    pub fn validate(&self, pool: &Pool) -> Result<(), String> {
        let mut counts = vec![0; self.names.len()];
        for (block, &space) in (0..).zip(&self.spaces) {
            if space == PLAIN {
                continue;
            }
            if !pool.is_findable(block) {
                return Err(format!("block {block} is not findable and has an origin"));
            }
            if space != UNKNOWN {
                counts[space as usize - 1] += 1;
            }
        }
        let named = self.names.iter().zip(&counts).enumerate();
        for (at, (name, &count)) in named {
            let known = self.places.get(&name.root) == Some(&(at as u32));
            if name.blocks != count || known != (count > 0) {
                return Err(format!("origin {at} counts {} blocks, {count} have it", name.blocks));
            }
        }
        Ok(())
    }

    #[cold]
    fn name_all(&mut self, blocks: &[BlockId], root: Key, space: Space<'_>, plain: bool) {
        if blocks.is_empty() {
            return;
        }
        let value = if plain { PLAIN } else { self.enter(root, space, blocks.len() as u32) + 1 };
        for &block in blocks {
            grow(&mut self.spaces, block, PLAIN);
            self.spaces[block as usize] = value;
        }
    }

    /// Finds or makes the place of a name, under which `blocks` more blocks are now findable.
    fn enter(&mut self, root: Key, space: Space<'_>, blocks: u32) -> u32 {
        if let Some(&at) = self.places.get(&root) {
            self.names[at as usize].blocks += blocks;
            return at;
        }
        let (salt, adapter) = (space.cache_salt.to_vec(), space.lora_name.to_vec());
        let tenant = space.tenant.to_vec();
        let name = Name { root, tenant, salt, adapter, blocks };
        let at = if let Some(at) = self.vacant.pop() {
            self.names[at as usize] = name;
            at
        } else {
            self.names.push(name);
            self.names.len() as u32 - 1
        };
        self.places.insert(root, at);
        at
    }

    fn leave(&mut self, at: u32) {
        let name = &mut self.names[at as usize];
        name.blocks -= 1;
        if name.blocks == 0 {
            self.places.remove(&name.root);
            *name = Name::default();
            self.vacant.push(at);
        }
    }
}

impl Name {
    fn space(&self) -> Space<'_> {
        Space {
            tenant: &self.tenant,
            cache_salt: &self.salt,
            lora_name: &self.adapter,
            encoder: &[],
            public: 0,
        }
    }
}
