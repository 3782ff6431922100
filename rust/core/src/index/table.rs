//! From a key to the block that is found under it: a hash table of ids, or a column where keys are numbered.

use hashbrown::HashTable;
use hashbrown::hash_table::{Entry, OccupiedEntry};

use crate::hash::Key;
use crate::pool::{BlockId, NIL, Pool};

/// One block for each key. The keys themselves are in the pool.
#[derive(Debug)]
pub(super) enum Table {
    /// Keys of any kind.
    Hashed(HashTable<BlockId>),
    /// Keys that have numbers.
    Numbered(Column),
}

/// By number, the block, or [`NIL`].
#[derive(Debug)]
pub(super) struct Column {
    blocks: Vec<BlockId>,
    len: usize,
}

impl Table {
    pub fn hashed(capacity: usize) -> Self {
        Self::Hashed(HashTable::with_capacity(capacity))
    }

    /// An empty one for keys with numbers below `count`.
    pub fn numbered(count: u32) -> Self {
        Self::Numbered(Column { blocks: vec![NIL; count as usize], len: 0 })
    }

    /// By number, the block, if keys are numbered.
    #[inline]
    pub fn column(&self) -> Option<&[BlockId]> {
        match self {
            Self::Hashed(_) => None,
            Self::Numbered(column) => Some(&column.blocks),
        }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call of its own is 3 % of a lookup")]
    pub fn find(&self, pool: &Pool, key: Key) -> Option<BlockId> {
        match self {
            Self::Hashed(table) => table.find(key.mixed(), |&b| pool.key(b) == key).copied(),
            Self::Numbered(column) => column.find(key),
        }
    }

    /// Puts `block` under `key`, unless there is a block already, which it returns.
    #[inline]
    pub fn enter(&mut self, pool: &Pool, key: Key, block: BlockId) -> Option<BlockId> {
        match self {
            Self::Hashed(table) => {
                let hasher = |&b: &BlockId| pool.key(b).mixed();
                match table.entry(key.mixed(), |&b| pool.key(b) == key, hasher) {
                    Entry::Vacant(entry) => drop(entry.insert(block)),
                    Entry::Occupied(entry) => return Some(*entry.get()),
                }
            }
            Self::Numbered(column) => {
                if let Some(first) = column.find(key) {
                    return Some(first);
                }
                column.put(key, block);
            }
        }
        None
    }

    /// Puts `blocks` under `keys`, which the pool says of them already, up to the first key that has a block.
    /// How many those are.
    pub fn enter_all(&mut self, pool: &Pool, blocks: &[BlockId], keys: &[Key]) -> usize {
        let mut entered = 0;
        match self {
            Self::Hashed(table) => {
                let hasher = |&b: &BlockId| pool.key(b).mixed();
                for (&block, &key) in blocks.iter().zip(keys) {
                    match table.entry(key.mixed(), |&b| pool.key(b) == key, hasher) {
                        Entry::Vacant(entry) => drop(entry.insert(block)),
                        Entry::Occupied(_) => break,
                    }
                    entered += 1;
                }
            }
            Self::Numbered(column) => {
                for (&block, &key) in blocks.iter().zip(keys) {
                    if column.find(key).is_some() {
                        break;
                    }
                    column.put(key, block);
                    entered += 1;
                }
            }
        }
        entered
    }

    /// Puts `block` under `key` in the place of the one that is there.
    pub fn replace(&mut self, pool: &Pool, key: Key, block: BlockId) {
        let place = match self {
            Self::Hashed(table) => table.find_mut(key.mixed(), |&b| pool.key(b) == key),
            Self::Numbered(column) => column.blocks.get_mut(key.number()),
        };
        if let Some(place) = place {
            *place = block;
        }
    }

    /// Whether `block`, which has the `key`, is there.
    #[inline]
    pub fn holds(&self, key: Key, block: BlockId) -> bool {
        match self {
            Self::Hashed(table) => table.find(key.mixed(), |&b| b == block).is_some(),
            Self::Numbered(column) => column.find(key) == Some(block),
        }
    }

    /// Takes `block`, which has the `key`, out. False if it was not there.
    #[inline]
    pub fn remove(&mut self, key: Key, block: BlockId) -> bool {
        match self {
            Self::Hashed(table) => {
                table.find_entry(key.mixed(), |&b| b == block).map(OccupiedEntry::remove).is_ok()
            }
            Self::Numbered(column) => {
                let there = column.find(key) == Some(block);
                if there {
                    column.blocks[key.number()] = NIL;
                    column.len -= 1;
                }
                there
            }
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Hashed(table) => table.len(),
            Self::Numbered(column) => column.len,
        }
    }

    /// The block of each key, in no order.
    pub fn blocks(&self) -> Box<dyn Iterator<Item = BlockId> + '_> {
        match self {
            Self::Hashed(table) => Box::new(table.iter().copied()),
            Self::Numbered(column) => {
                Box::new(column.blocks.iter().copied().filter(|&block| block != NIL))
            }
        }
    }
}

impl Column {
    #[inline]
    fn find(&self, key: Key) -> Option<BlockId> {
        self.blocks.get(key.number()).copied().filter(|&block| block != NIL)
    }

    #[inline]
    fn put(&mut self, key: Key, block: BlockId) {
        self.blocks[key.number()] = block;
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both say the same of keys that come, go and come again under other blocks.
    #[test]
    fn a_column_finds_what_a_table_finds() {
        let (blocks, count) = (40, 64);
        let mut pool = Pool::new(blocks, false);
        while pool.take(0).is_some() {}
        let mut tables = [Table::hashed(blocks as usize), Table::numbered(count)];
        let key = |number: u32| Key((u128::from(number * 77 + 5) << 64) | u128::from(number));
        let mut state = 1_u32;
        let mut draw = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        for _ in 0..5_000 {
            let (block, other) = (draw(blocks), draw(blocks));
            let there = pool.key(block);
            if tables[0].find(&pool, there) == Some(block) {
                let replaced =
                    draw(4) == 0 && tables[0].find(&pool, pool.key(other)) != Some(other);
                for table in &mut tables {
                    if replaced {
                        pool.rename(other, there);
                        table.replace(&pool, there, other);
                    } else {
                        assert!(table.remove(there, block));
                    }
                }
            } else {
                let new = key(draw(count));
                pool.rename(block, new);
                let [hashed, numbered] = &mut tables;
                assert_eq!(hashed.enter(&pool, new, block), numbered.enter(&pool, new, block));
            }
            assert_eq!(tables[0].len(), tables[1].len());
            for number in 0..=count {
                let [hashed, numbered] = &tables;
                assert_eq!(hashed.find(&pool, key(number)), numbered.find(&pool, key(number)));
            }
            for table in &tables {
                let is_found = table.find(&pool, pool.key(block)) == Some(block);
                assert_eq!(table.holds(pool.key(block), block), is_found);
            }
            let found = tables.each_ref().map(|table| {
                let mut blocks: Vec<BlockId> = table.blocks().collect();
                blocks.sort_unstable();
                blocks
            });
            assert_eq!(found[0], found[1]);
            assert!(!tables[1].remove(key(count), block));
        }
    }
}
