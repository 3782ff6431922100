//! Blocks that another engine's pool has, and this one's pool and tiers lack, come from there.
//!
//! They are copied: the other pool keeps them, and evicts none of them before the transfer has ended.

use std::cell::RefCell;
use std::rc::Rc;

use kvframe_core::{Allocation, Error, Key, Request, SeqId};

use crate::cache::Stopped;
use crate::fleet::Directory;
use crate::loading::Loading;
use crate::running::Running;
use crate::scheduler::Scheduler;
use crate::tiers::Landed;

/// Blocks on their way from another engine.
#[derive(Debug, Clone, Copy)]
struct Coming {
    number: u64,
    end: f64,
    seq: SeqId,
    ticket: u64,
    blocks: u32,
}

/// A transfer that has begun: what the other engine must keep meanwhile.
#[derive(Debug)]
pub(crate) struct Begun {
    pub number: u64,
    pub from: usize,
    pub kept: Request,
}

/// What an engine gets from others.
#[derive(Debug)]
pub(crate) struct Peers {
    me: usize,
    directory: Rc<RefCell<Directory>>,
    coming: Vec<Coming>,
    count: u64,
    /// Since they were asked for last: transfers that have begun, and those that have ended.
    begun: Vec<Begun>,
    over: Vec<u64>,
    /// Tokens that came from others, and their bytes.
    pub tokens: u64,
    pub bytes: f64,
}

impl Peers {
    pub fn new(me: usize, directory: Rc<RefCell<Directory>>) -> Self {
        Self {
            me,
            directory,
            coming: Vec::new(),
            count: 0,
            begun: Vec::new(),
            over: Vec::new(),
            tokens: 0,
            bytes: 0.0,
        }
    }

    /// When the first transfer ends, or infinity.
    pub fn next_end(&self) -> f64 {
        self.coming.iter().map(|one| one.end).fold(f64::INFINITY, f64::min)
    }

    /// Transfers that have begun since this was asked last, and those that have ended.
    pub fn news(&mut self) -> (Vec<Begun>, Vec<u64>) {
        (std::mem::take(&mut self.begun), std::mem::take(&mut self.over))
    }
}

impl Scheduler<'_> {
    /// Asks for blocks of the prompt's first `most` that another engine has and this one lacks, with its tiers,
    /// which have the first `below` or less than the pool. Returns who has them.
    pub fn find_at_peers(&mut self, (most, below): (usize, u32)) -> Result<Option<usize>, Stopped> {
        let Some(peers) = &self.peers else { return Ok(None) };
        let Some((from, blocks)) =
            peers.directory.borrow().most(peers.me, &self.asked.keys[..most])
        else {
            return Ok(None);
        };
        let size = self.block_size;
        let pooled = self.cache.manager.lookup_request(&self.asked)?.tokens / size;
        if blocks <= pooled.max(below) {
            return Ok(None);
        }
        self.asked.external_until = blocks * size;
        let until = (blocks * size).saturating_add(self.asked.chunk);
        let until = until.min(self.asked.until.max(blocks * size));
        self.make_room(until.div_ceil(size).saturating_sub(pooled), pooled)?;
        Ok(Some(from))
    }

    /// A request was allocated whose missing blocks another engine has: it waits for them.
    pub fn fetch(
        &mut self,
        one: Running,
        given: &Allocation,
        (from, ticket): (usize, u64),
        now: f64,
    ) {
        let size = self.block_size;
        let blocks = given.external_tokens / size;
        let there = (given.cached_tokens + given.joined_tokens) / size + blocks;
        let kept = kept(&self.asked, there, size);
        if let Some(peers) = &mut self.peers {
            peers.count += 1;
            let (end, bytes) = peers.directory.borrow_mut().send(from, now, blocks);
            let (number, seq) = (peers.count, given.seq);
            peers.coming.push(Coming { number, end, seq, ticket, blocks });
            peers.begun.push(Begun { number, from, kept });
            peers.tokens += u64::from(blocks * size);
            peers.bytes += bytes;
        }
        self.loading.push(Loading::new(one, None, given.joined_tokens));
    }

    /// What has come from other engines by `now` is there.
    pub fn settle_fetches(&mut self, now: f64) -> Result<(), Stopped> {
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let (there, coming): (Vec<_>, _) = peers.coming.iter().partition(|one| one.end <= now);
        peers.coming = coming;
        peers.over.extend(there.iter().map(|one: &Coming| one.number));
        for Coming { seq, ticket, blocks, .. } in there {
            self.cache.loaded(ticket, blocks)?;
            let from_peers = blocks * self.block_size;
            self.has_landed(Landed { seq, from_peers, ..Landed::default() });
        }
        Ok(())
    }

    /// Keeps blocks that another engine reads: a sequence has them until it is released. `None` if the pool has not
    /// all of them, or nothing besides.
    pub fn keep(&mut self, kept: &Request) -> Result<Option<SeqId>, Stopped> {
        let given = match self.cache.allocate(kept) {
            Err(Stopped::ByCore(Error::NeverFits { .. })) | Ok(None) => return Ok(None),
            given => given?,
        };
        let Some(given) = given else { return Ok(None) };
        if given.cached_tokens == kept.until {
            return Ok(Some(given.seq));
        }
        self.cache.manager.release(given.seq)?;
        Ok(None)
    }
}

/// The first `blocks` blocks of a request, and nothing else.
fn kept(asked: &Request, blocks: u32, size: u32) -> Request {
    let keys: Vec<Key> = asked.keys[..blocks as usize].to_vec();
    let next_use = asked.next_use.iter().take(keys.len()).copied().collect();
    // One token more than is kept: the last one of a prompt is never taken from a cache.
    let (num_tokens, until, chunk) = (blocks * size + 1, blocks * size, u32::MAX);
    let external_until = 0;
    Request {
        keys,
        next_use,
        num_tokens,
        until,
        chunk,
        external_until,
        join: false,
        ..asked.clone()
    }
}
