//! Where cached blocks stand: a list for each class of each retention priority, the one idle longest first.

use super::ROOM;
use super::chains::Chains;
use super::column::{
    BAND, COUNTED, Column, EMPTY, FOUND, History, IN_CLASS, LATEST, LISTED, PARKED, Place, STANDS,
};
use crate::pool::{BlockId, NIL, Pool, State};
use crate::retention::DEFAULT_PRIORITY;

/// Where the list of a class stands in its band.
#[inline]
fn slot(class: u8) -> usize {
    class as usize % ROOM
}

#[derive(Debug, Clone, Copy)]
struct List {
    first: BlockId,
    last: BlockId,
}

/// The lists of one retention priority.
#[derive(Debug, Clone)]
struct Band {
    priority: u8,
    lists: [List; ROOM],
    /// A bit for each list that has a block.
    filled: u64,
    /// A bit for each list whose first block is another than when it was asked for last: one used at another
    /// time, or one used at the same time.
    changed: u64,
    alike: u64,
}

/// All of them. A prefix's inner blocks stand in their lists, too, and are passed over: a block that may
/// not be evicted yet leaves its list when it comes first there, and comes back once it may be.
#[derive(Debug, Clone, Default)]
pub(super) struct Lists {
    columns: Vec<Column>,
    /// By priority.
    bands: Vec<Band>,
}

impl Lists {
    #[inline]
    pub fn column(&self, block: BlockId) -> &Column {
        &self.columns[block as usize]
    }

    /// Room for the blocks of a pool that has created so many.
    #[inline]
    pub fn grow(&mut self, created: u32) {
        if self.columns.len() < created as usize {
            self.columns.resize(created as usize, EMPTY);
        }
    }

    /// What is known of `block` from now on; it has an owner. `counted`: its waits are.
    #[inline]
    pub fn enter(&mut self, block: BlockId, history: History, counted: bool) {
        self.columns[block as usize].word = history.word() | u64::from(counted) << COUNTED.ilog2();
    }

    /// An allocation found those at the front of `blocks` that have the history `before`, as the first has: the
    /// history of each from now on. How many they are, and of how many the waits are counted.
    #[inline]
    pub fn find(&mut self, blocks: &[BlockId], before: History, history: History) -> (usize, u32) {
        let (change, mut n, mut counted) = (before.word() ^ history.word(), 0, 0);
        let columns = &mut self.columns[..];
        for &block in blocks {
            let word = &mut columns[block as usize].word;
            if *word & (History::ALL | LISTED) != before.word() {
                break;
            }
            n += 1;
            counted += u32::from(*word & COUNTED > 0);
            *word = (*word ^ change) | FOUND;
        }
        if n == 0
            && let Some(&block) = blocks.first()
        {
            self.find_listed(block, history);
            return (1, u32::from(self.column(block).is_counted()));
        }
        (n, counted)
    }

    /// The same of blocks that had no owner, which leave their lists: those that stand in a row at once.
    #[inline]
    pub fn take_found(
        &mut self,
        blocks: &[BlockId],
        before: History,
        history: History,
    ) -> (usize, u32) {
        let (found, mut n, mut counted) = (history.word() | FOUND, 0, 0);
        while let Some(&root) = blocks.get(n) {
            let columns = &mut self.columns[..];
            let root = columns[root as usize];
            if root.history() != before {
                break;
            }
            let mut next = blocks[n];
            let mut ahead = NIL;
            for &block in &blocks[n..] {
                let column = &mut columns[block as usize];
                if block != next || column.history() != before {
                    break;
                }
                n += 1;
                counted += u32::from(column.word & COUNTED > 0);
                column.word = column.word & COUNTED | found;
                ahead = column.before;
                if !root.is_listed() {
                    break;
                }
                next = ahead;
            }
            if root.is_listed() {
                self.close(ahead, root.after, root.class(), root.band());
            }
        }
        (n, counted)
    }

    /// [`Lists::find`] of a block that stays without an owner: a copy of it was computed.
    #[cold]
    fn find_listed(&mut self, block: BlockId, history: History) {
        let priority = self.columns[block as usize].band();
        self.leave(block);
        let column = &mut self.columns[block as usize];
        column.word = (column.word & !History::ALL) | history.word() | FOUND;
        self.join(block, priority);
    }

    #[inline]
    fn band(&mut self, priority: u8) -> &mut Band {
        // Mostly there is one.
        let leads = self.bands.first().is_some_and(|band| band.priority == priority);
        let at = if leads { 0 } else { self.place_of(priority) };
        &mut self.bands[at]
    }

    /// Where the band of a priority is; makes it, if there is none.
    #[cold]
    fn place_of(&mut self, priority: u8) -> usize {
        self.bands.binary_search_by_key(&priority, |band| band.priority).unwrap_or_else(|at| {
            let none = List { first: NIL, last: NIL };
            let band = Band { priority, lists: [none; ROOM], filled: 0, changed: 0, alike: 0 };
            self.bands.insert(at, band);
            at
        })
    }

    /// Puts `block` last in the list of its class and of this priority.
    fn join(&mut self, block: BlockId, priority: u8) {
        let list = (self.columns[block as usize].class(), priority);
        let before = self.last(list);
        self.columns[block as usize].enlist(before, NIL, priority);
        self.end_at(list, before, block, block);
    }

    /// Puts `blocks`, in the order of their prefix, last in the lists of their classes, the last of them
    /// first.
    pub fn join_all(&mut self, blocks: &[BlockId], pool: &Pool) {
        if pool.has_priorities() {
            let alike = |&a: &BlockId, &b: &BlockId| pool.priority(a) == pool.priority(b);
            for blocks in blocks.chunk_by(alike).rev() {
                self.join_band(blocks, pool.priority(blocks[0]));
            }
        } else {
            self.join_band(blocks, DEFAULT_PRIORITY);
        }
    }

    /// The same of blocks of one priority.
    fn join_band(&mut self, blocks: &[BlockId], priority: u8) {
        let stands = u64::from(priority) << BAND | LISTED;
        let mut rest = blocks.iter().rev().copied();
        let mut next = rest.next();
        while let Some(first) = next {
            let kind = self.columns[first as usize].word;
            let list = (self.columns[first as usize].class(), priority);
            let end = self.last(list);
            let columns = &mut self.columns[..];
            let mut before = end;
            while let Some(block) = next {
                let column = &mut columns[block as usize];
                let word = column.word;
                if (word ^ kind) & IN_CLASS != 0 {
                    break;
                }
                // The one after it is of the same list, mostly.
                next = rest.next();
                let after = next.unwrap_or(NIL);
                *column = Column { before, after, word: word | stands };
                before = block;
            }
            columns[before as usize].after = NIL;
            self.end_at(list, end, first, before);
        }
    }

    /// The last block of a list.
    #[inline]
    fn last(&mut self, (class, priority): (u8, u8)) -> BlockId {
        self.band(priority).lists[slot(class)].last
    }

    /// A list that ended with `before` goes on with `first` now, and ends with `last`.
    fn end_at(
        &mut self,
        (class, priority): (u8, u8),
        before: BlockId,
        first: BlockId,
        last: BlockId,
    ) {
        let band = self.band(priority);
        let list = &mut band.lists[slot(class)];
        list.last = last;
        if before == NIL {
            list.first = first;
            band.filled |= 1 << class;
            band.changed |= 1 << class;
        } else {
            self.columns[before as usize].after = first;
        }
    }

    /// Puts `block` first in its list, if it was passed over.
    #[inline]
    pub fn come_back(&mut self, block: BlockId, pool: &Pool) {
        if !self.columns[block as usize].is_listed() {
            self.put_first(block, pool);
        }
    }

    /// Puts `block` first in its list, and behind it those that it follows, as far as they have no other
    /// follower and would come there next.
    fn put_first(&mut self, block: BlockId, pool: &Pool) {
        let (priority, banded) = (pool.priority(block), pool.has_priorities());
        let history = self.columns[block as usize].history();
        let class = history.class();
        let band = self.band(priority);
        band.changed |= 1 << class;
        band.filled |= 1 << class;
        let list = &mut band.lists[slot(class)];
        let after = std::mem::replace(&mut list.first, block);
        let (mut before, mut last, mut next) = (NIL, block, pool.parent(block));
        while let Some(column) = self.columns.get(next as usize) {
            let alike = column.place() == Place::Parked && column.history() == history;
            if !alike || pool.children(next) > 1 || banded && pool.priority(next) != priority {
                break;
            }
            self.columns[last as usize].enlist(before, next, priority);
            (before, last, next) = (last, next, pool.parent(next));
        }
        self.columns[last as usize].enlist(before, after, priority);
        match after {
            NIL => self.band(priority).lists[slot(class)].last = last,
            after => self.columns[after as usize].before = last,
        }
    }

    /// Puts `block` first in its list, if it was passed over.
    pub fn bare(&mut self, block: BlockId, pool: &Pool) {
        if self.columns[block as usize].place() == Place::Parked {
            self.put_first(block, pool);
        }
    }

    /// Something follows `block` now, which may have been the first of its list.
    pub fn cover(&mut self, block: BlockId) {
        let column = self.columns[block as usize];
        if column.place() == Place::Listed && column.before == NIL {
            self.band(column.band()).changed |= 1 << column.class();
        }
    }

    /// Takes `block` out of its list, which it is likely to be the first of; what was known of it. Nothing
    /// follows a `leaf`.
    #[inline]
    pub fn evict(&mut self, block: BlockId, leaf: impl FnOnce(BlockId) -> bool) -> Column {
        let columns = &mut self.columns[..];
        let column = &mut columns[block as usize];
        let known = *column;
        if !known.is_listed() || known.before != NIL {
            return self.leave_amid(block);
        }
        column.word = known.word & !STANDS;
        let (after, class) = (known.after, known.class());
        // Mostly the block that it followed.
        let alike = columns.get_mut(after as usize).is_some_and(|next| {
            next.before = NIL;
            (next.word ^ known.word) & LATEST == 0 && leaf(after)
        });
        let band = match self.bands.first_mut() {
            Some(band) if band.priority == known.band() => band,
            _ => self.band(known.band()),
        };
        let (list, bit) = (&mut band.lists[slot(class)], 1 << class);
        list.first = after;
        if alike {
            band.alike |= bit;
        } else {
            band.changed |= bit;
            if after == NIL {
                list.last = NIL;
                band.filled &= !bit;
            }
        }
        known
    }

    /// The same of one that is not the first of its list.
    #[cold]
    #[inline(never)]
    fn leave_amid(&mut self, block: BlockId) -> Column {
        let known = self.columns[block as usize];
        self.leave(block);
        known
    }

    /// Takes `block` out of its list, if it is in one.
    pub fn leave(&mut self, block: BlockId) {
        let column = &mut self.columns[block as usize];
        let known = *column;
        column.word &= !STANDS;
        if known.is_listed() {
            self.close(known.before, known.after, known.class(), known.band());
        }
    }

    /// Takes `blocks`, in the order of their prefix, out of their lists: those that stand in a row at once.
    pub fn leave_all(&mut self, blocks: &[BlockId]) {
        let mut rest = blocks.iter().copied();
        let mut next = rest.next();
        while let Some(root) = next {
            next = rest.next();
            let columns = &mut self.columns[..];
            let column = &mut columns[root as usize];
            let known = *column;
            column.word &= !STANDS;
            if !known.is_listed() {
                continue;
            }
            let mut before = known.before;
            // None but the last stands before NIL.
            while let Some(block) = next
                && block == before
            {
                let column = &mut columns[block as usize];
                column.word &= !STANDS;
                before = column.before;
                next = rest.next();
            }
            self.close(before, known.after, known.class(), known.band());
        }
    }

    /// Joins what stands before and after blocks that leave.
    fn close(&mut self, before: BlockId, after: BlockId, class: u8, band: u8) {
        if before != NIL {
            self.columns[before as usize].after = after;
        }
        if after != NIL {
            self.columns[after as usize].before = before;
        }
        if before != NIL && after != NIL {
            return;
        }
        let band = self.band(band);
        let list = &mut band.lists[slot(class)];
        if after == NIL {
            list.last = before;
        }
        if before == NIL {
            list.first = after;
            band.changed |= 1 << class;
            band.filled &= !(u64::from(after == NIL) << class);
        }
    }

    /// `block` has this priority now.
    pub fn lift(&mut self, block: BlockId, priority: u8) {
        let Some(column) = self.columns.get(block as usize) else { return };
        if column.place() == Place::Listed && column.band() != priority {
            self.leave(block);
            self.join(block, priority);
        }
    }

    /// Takes blocks that may not be evicted yet from the front of a list; the first that may, if there
    /// is one.
    pub fn first(
        &mut self,
        at: usize,
        class: usize,
        chains: &Chains,
        pool: &Pool,
    ) -> Option<BlockId> {
        let band = self.bands.get_mut(at)?;
        let list = &mut band.lists[class % ROOM];
        let mut block = list.first;
        let columns = &mut self.columns[..];
        // A caller that counts an owner for a while knows that it is named nevertheless.
        while block != NIL && (pool.is_inner(block) || chains.is_inner(block, pool)) {
            let column = &mut columns[block as usize];
            column.word ^= LISTED ^ PARKED;
            block = column.after;
        }
        if block != list.first {
            list.first = block;
            if block == NIL {
                list.last = NIL;
                band.filled &= !(1 << class);
            } else {
                self.columns[block as usize].before = NIL;
            }
        }
        (block != NIL).then_some(block)
    }

    /// The block that comes first in a list.
    #[inline]
    pub fn front(&self, at: usize, class: usize) -> Option<BlockId> {
        let block = self.bands.get(at)?.lists[class % ROOM].first;
        (block != NIL).then_some(block)
    }

    /// The block that comes first in a list of the lowest priority, if no other list there has another first
    /// block than when it was asked for last, and the block is as old as the one before it.
    #[inline]
    pub fn next_alike(&self, class: usize) -> Option<BlockId> {
        let band = self.bands.first()?;
        let unchanged = (band.changed | band.alike & !(1 << class)) == 0;
        let block = band.lists[class % ROOM].first;
        (unchanged && block != NIL).then_some(block)
    }

    /// The lists of band `at` whose first block is another than at the last call, a bit each: used at another
    /// time, and used at the same time.
    #[inline]
    pub fn take_changed(&mut self, at: usize) -> (u64, u64) {
        let take =
            |band: &mut Band| (std::mem::take(&mut band.changed), std::mem::take(&mut band.alike));
        self.bands.get_mut(at).map_or((0, 0), take)
    }

    /// The lists of band `at` that are not empty, a bit each.
    pub fn filled(&self, at: usize) -> u64 {
        self.bands.get(at).map_or(0, |band| band.filled)
    }

    /// How many bands there are.
    pub fn bands(&self) -> usize {
        self.bands.len()
    }

    /// The priority of band `at`.
    pub fn priority(&self, at: usize) -> Option<u8> {
        self.bands.get(at).map(|band| band.priority)
    }

    /// The first of some list of the lowest priority that has one, without passing over any.
    pub fn any(&self, chains: &Chains, pool: &Pool) -> Option<BlockId> {
        self.bands.iter().find_map(|band| {
            let firsts = band.lists.iter().map(|list| list.first);
            let rows = firsts.flat_map(|first| self.row(first));
            rows.into_iter().find(|&block| pool.is_evictable(block) && chains.is_end(block))
        })
    }

    /// The list of a class of the lowest priority.
    pub fn from(&self, class: usize) -> impl Iterator<Item = BlockId> + '_ {
        self.row(self.front(0, class).unwrap_or(NIL))
    }

    fn row(&self, first: BlockId) -> impl Iterator<Item = BlockId> + '_ {
        let known = |block: BlockId| (block != NIL).then_some(block);
        std::iter::successors(known(first), move |&block| known(self.columns[block as usize].after))
    }

    /// What disagrees with the pool, if anything.
    pub fn validate(&self, chains: &Chains, pool: &Pool) -> Result<(), String> {
        let is_leaf = |block: BlockId| pool.is_evictable(block) && chains.is_end(block);
        let mut listed = 0;
        for band in &self.bands {
            for (class, list) in band.lists.iter().enumerate() {
                let mut before = NIL;
                for block in self.row(list.first) {
                    let column = self.column(block);
                    let known = (column.before, column.class() as usize, column.band());
                    if known != (before, class, band.priority) || column.place() != Place::Listed {
                        return Err(format!("block {block} is misplaced"));
                    }
                    if pool.state(block) != State::Cached || pool.priority(block) != band.priority {
                        return Err(format!("block {block} does not belong into its list"));
                    }
                    listed += usize::from(is_leaf(block));
                    before = block;
                }
                if list.last != before {
                    return Err(format!("the list of class {class} has another end"));
                }
            }
        }
        let leaves = (0..pool.created()).filter(|&block| is_leaf(block)).count();
        if leaves != listed {
            return Err(format!("{listed} in the lists, {leaves} may be evicted"));
        }
        Ok(())
    }
}
