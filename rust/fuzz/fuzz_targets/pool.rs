//! The pool's columns beside a model that keeps one struct a block and counts by looking.
#![no_main]

use arbitrary::Arbitrary;
use kvframe_core::pool::{Pool, State};
use kvframe_core::{BlockId, Key, NIL};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    capacity: u8,
    null_block: bool,
    ops: Vec<Op>,
}

/// Blocks are picked by number among those that an operation is allowed on.
#[derive(Arbitrary, Debug)]
enum Op {
    Take { group: u8 },
    Lend,
    EndLoan { pick: u8, undo: bool },
    Share { pick: u8 },
    Unshare { pick: u8 },
    Publish { pick: u8, parent: u8, key: u8 },
    PublishChain { skip: u8, count: u8, parent: u8, key: u8 },
    Unpublish { pick: u8 },
    Duplicate { pick: u8, yes: bool },
    ShareChain { leaf: u8, skip: u8 },
    UnshareChain { leaf: u8, skip: u8 },
    LeaveShared { leaf: u8, skip: u8 },
    Follow { leaf: u8, from: u8 },
    Resize { capacity: u8 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    state: State,
    refs: u32,
    parent: BlockId,
    depth: u32,
    group: u8,
    key: Key,
    duplicated: bool,
}

const UNUSED: Entry = Entry {
    state: State::Free,
    refs: 0,
    parent: NIL,
    depth: 0,
    group: 0,
    key: Key(0),
    duplicated: false,
};

/// What the pool must say.
struct Model {
    capacity: usize,
    entries: Vec<Entry>,
    generations: Vec<u32>,
    free: Vec<BlockId>,
}

impl Model {
    fn new(capacity: u8, null_block: bool) -> Self {
        let mut model = Self {
            capacity: capacity.into(),
            entries: Vec::new(),
            generations: vec![0; 256],
            free: Vec::new(),
        };
        if null_block {
            model.entries.push(Entry { state: State::Null, ..UNUSED });
        }
        model
    }

    fn next(&mut self) -> Option<BlockId> {
        self.free.pop().or_else(|| {
            (self.entries.len() < self.capacity).then(|| {
                self.entries.push(UNUSED);
                self.entries.len() as BlockId - 1
            })
        })
    }

    fn at(&mut self, block: BlockId) -> &mut Entry {
        &mut self.entries[block as usize]
    }

    fn children(&self, block: BlockId) -> usize {
        self.entries.iter().filter(|e| e.parent == block && findable(e)).count()
    }

    fn put_back(&mut self, block: BlockId) {
        let entry = self.at(block);
        (entry.state, entry.refs) = (State::Free, 0);
        self.generations[block as usize] += 1;
        self.free.push(block);
    }

    fn count(&self, state: State) -> u32 {
        self.entries.iter().filter(|e| e.state == state).count() as u32
    }

    /// The `pick`th block that `may`.
    fn pick(&self, pick: u8, may: impl Fn(BlockId, &Entry) -> bool) -> Option<BlockId> {
        let blocks = self.entries.iter().zip(0..).filter(|&(e, b)| may(b, e));
        let blocks: Vec<BlockId> = blocks.map(|(_, b)| b).collect();
        (!blocks.is_empty()).then(|| blocks[pick as usize % blocks.len()])
    }

    /// The prefix that ends in a findable block, less its first `skip`.
    fn chain(&self, leaf: u8, skip: u8) -> Vec<BlockId> {
        let mut path = Vec::new();
        let mut block = self.pick(leaf, |_, e| findable(e)).unwrap_or(NIL);
        while block != NIL {
            path.push(block);
            block = self.entries[block as usize].parent;
        }
        path.reverse();
        path.split_off(skip as usize % (path.len() + 1))
    }
}

fn findable(entry: &Entry) -> bool {
    matches!(entry.state, State::Committed | State::Cached)
}

fn owned(entry: &Entry) -> bool {
    matches!(entry.state, State::Pending | State::Committed)
}

fn act(pool: &mut Pool, model: &mut Model, op: &Op) -> Option<()> {
    match *op {
        Op::Take { group } => {
            let expected = model.next();
            assert_eq!(pool.take(group), expected);
            *model.at(expected?) = Entry { state: State::Pending, refs: 1, group, ..UNUSED };
        }
        Op::Lend => {
            let expected = model.next();
            assert_eq!(pool.lend(), expected);
            *model.at(expected?) = Entry { state: State::Lent, refs: 1, ..UNUSED };
        }
        Op::EndLoan { pick, undo } => {
            let block = model.pick(pick, |_, e| e.state == State::Lent)?;
            assert_eq!(pool.end_loans(&[block]), 1);
            if undo {
                pool.mark_lent(block);
            } else {
                pool.put_back(block);
                model.put_back(block);
            }
        }
        Op::Share { pick } => {
            let block = model.pick(pick, |_, e| owned(e) || findable(e))?;
            let entry = model.at(block);
            assert_eq!(pool.share(block), entry.state == State::Cached);
            entry.refs += 1;
            if entry.state == State::Cached {
                entry.state = State::Committed;
            }
        }
        Op::Unshare { pick } => {
            let block = model.pick(pick, |_, e| owned(e))?;
            let entry = model.at(block);
            entry.refs -= 1;
            let left = pool.unshare(block);
            if entry.refs > 0 {
                assert_eq!(left, None);
            } else if entry.state == State::Committed {
                entry.state = State::Cached;
                assert_eq!(left, Some(State::Cached));
            } else {
                assert_eq!(left, Some(State::Pending));
                pool.put_back(block);
                model.put_back(block);
            }
        }
        Op::Publish { pick, parent, key } => {
            let block = model.pick(pick, |_, e| e.state == State::Pending)?;
            let parent = model.pick(parent, |b, e| b != block && findable(e));
            let parent = parent.filter(|_| key % 4 != 0).unwrap_or(NIL);
            let depth = if parent == NIL { 0 } else { model.at(parent).depth + 1 };
            pool.publish(block, Key(key.into()), parent, depth);
            let entry = model.at(block);
            (entry.state, entry.parent, entry.depth) = (State::Committed, parent, depth);
            (entry.key, entry.duplicated) = (Key(key.into()), false);
        }
        Op::PublishChain { skip, count, parent, key } => {
            let pending = model.entries.iter().zip(0..).filter(|(e, _)| e.state == State::Pending);
            let pending = pending.map(|(_, block)| block);
            let chain: Vec<BlockId> = pending.skip(skip.into()).take(count.into()).collect();
            let parent = model.pick(parent, |_, e| findable(e));
            let parent = parent.filter(|_| key % 4 != 0).unwrap_or(NIL);
            let depth = if parent == NIL { 0 } else { model.at(parent).depth + 1 };
            let keys: Vec<Key> = (0..=chain.len()).map(|i| Key(key as u128 + i as u128)).collect();
            assert_eq!(pool.name_chain(&[&chain[..], &[NIL]].concat(), &keys), chain.len());
            pool.publish_chain(&chain, parent, depth);
            let mut above = parent;
            for ((&block, &key), depth) in chain.iter().zip(&keys).zip(depth..) {
                let entry = model.at(block);
                (entry.state, entry.parent, entry.depth) = (State::Committed, above, depth);
                (entry.key, entry.duplicated) = (key, false);
                above = block;
            }
        }
        Op::Unpublish { pick } => {
            let block = model.pick(pick, |b, e| findable(e) && model.children(b) == 0)?;
            let entry = model.at(block);
            assert_eq!(pool.unpublish(block), entry.parent);
            let cached = entry.state == State::Cached;
            (entry.state, entry.parent) = (State::Pending, NIL);
            if cached {
                pool.put_back(block);
                model.put_back(block);
            }
        }
        Op::Duplicate { pick, yes } => {
            let block = model.pick(pick, |_, e| findable(e))?;
            pool.set_duplicated(block, yes);
            model.at(block).duplicated = yes;
        }
        Op::ShareChain { leaf, skip } => {
            let path = model.chain(leaf, skip);
            let cached = path.iter().filter(|&&b| model.entries[b as usize].state == State::Cached);
            let cached = cached.count();
            assert_eq!(pool.count_cached(&path), cached);
            assert_eq!(pool.share_chain(&path), cached);
            for block in path {
                let entry = model.at(block);
                (entry.state, entry.refs) = (State::Committed, entry.refs + 1);
            }
        }
        Op::UnshareChain { leaf, skip } => {
            let path = model.chain(leaf, skip);
            let last = |e: &Entry| e.refs == 1 && e.state == State::Committed && !e.duplicated;
            let all = path.iter().all(|&b| last(&model.entries[b as usize]));
            assert_eq!(pool.unshare_chain(&path), all);
            for block in path.into_iter().filter(|_| all) {
                let entry = model.at(block);
                (entry.state, entry.refs) = (State::Cached, 0);
            }
        }
        Op::LeaveShared { leaf, skip } => {
            let path = model.chain(leaf, skip);
            let shared = path.iter().take_while(|&&b| model.entries[b as usize].refs > 1).count();
            assert_eq!(pool.leave_shared(&path), shared);
            path[..shared].iter().for_each(|&block| model.at(block).refs -= 1);
        }
        Op::Follow { leaf, from } => {
            let path = model.chain(leaf, 0);
            let at = from as usize % path.len().max(1);
            let start = *path.get(at)?;
            let keys: Vec<Key> = path[at + 1..].iter().map(|&b| model.at(b).key).collect();
            let mut found = vec![start];
            pool.follow_children(start, &keys, &mut found);
            for (pair, key) in found.windows(2).zip(&keys) {
                let child = model.at(pair[1]);
                assert_eq!((child.parent, child.key), (pair[0], *key), "not a child of that key");
                assert!(findable(child));
            }
        }
        Op::Resize { capacity } => {
            let capacity = usize::from(capacity);
            let used = model.entries.iter().rposition(|e| e.state != State::Free);
            if capacity <= used.unwrap_or(0) {
                return None;
            }
            pool.resize(capacity as u32);
            model.capacity = capacity;
            model.entries.truncate(capacity);
            model.free.retain(|&b| (b as usize) < capacity);
        }
    }
    Some(())
}

fn compare(pool: &Pool, model: &Model) {
    let free = model.capacity - model.entries.len() + model.free.len();
    assert_eq!(pool.capacity() as usize, model.capacity);
    assert_eq!((pool.free() as usize, pool.cached()), (free, model.count(State::Cached)));
    assert_eq!(pool.free() + pool.cached() + pool.referenced(), pool.capacity());
    assert_eq!(pool.usable(), pool.capacity() - model.count(State::Null));
    assert_eq!(pool.free_list(), model.free);
    for (entry, block) in model.entries.iter().zip(0..) {
        let children = model.children(block);
        assert_eq!(pool.state(block), entry.state, "block {block}");
        assert_eq!(pool.refs_or_none(block), Some(entry.refs), "block {block}");
        assert_eq!(pool.generation(block), model.generations[block as usize], "block {block}");
        assert_eq!(pool.children(block) as usize, children, "block {block}");
        let leaf = entry.state == State::Cached && children == 0;
        assert_eq!(pool.is_evictable(block), leaf, "block {block}");
        if findable(entry) {
            let seen = (pool.parent(block), pool.key(block), pool.depth(block));
            assert_eq!(seen, (entry.parent, entry.key, entry.depth), "block {block}");
            assert_eq!(pool.is_duplicated(block), entry.duplicated, "block {block}");
        }
        if owned(entry) {
            assert_eq!(pool.group(block), entry.group, "block {block}");
        }
    }
}

fuzz_target!(|input: Input| {
    let capacity = input.capacity.max(2);
    let mut pool = Pool::new(capacity.into(), input.null_block);
    let mut model = Model::new(capacity, input.null_block);
    for op in &input.ops {
        act(&mut pool, &mut model, op);
        compare(&pool, &model);
    }
});
