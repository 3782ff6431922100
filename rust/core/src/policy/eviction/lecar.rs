//! `LeCaR`: recency or frequency names the victim, by the dice, and the one that was wrong lately is
//! trusted less (Vietri et al., `HotStorage` 2018).

use crate::hash::Key;
use crate::policy::adapters::ghosts::Ghosts;
use crate::policy::adapters::heap::{Entry, Heap};
use crate::policy::adapters::rank_order::pack;
use crate::policy::{Access, Eviction, RemovalCause, View, grow};
use crate::pool::{BlockId, NIL, Pool};

/// How fast trust moves, and what is left of a mistake's weight after as many block accesses as there
/// are blocks: both as in the paper.
const LEARNING: f64 = 0.45;
const DISCOUNT: f64 = 0.005;
/// No expert is ever out of the game.
const LEAST: f64 = 1e-10;

const RECENCY: usize = 0;
const FREQUENCY: usize = 1;

#[derive(Debug, Clone, Copy, Default)]
struct Column {
    uses: u32,
    last: u64,
}

/// The evictable leaves in the order of one expert.
#[derive(Debug, Clone, Default)]
struct Order {
    heap: Heap,
    places: Vec<u32>,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Lecar {
    columns: Vec<Column>,
    orders: [Order; 2],
    /// What each expert alone had evicted, and when, in block accesses.
    ghosts: [Ghosts<u64>; 2],
    trust: [f64; 2],
    time: u64,
    dice: u64,
    /// Whose choice the last victim was, if not that of both.
    blamed: Option<usize>,
}

impl Default for Lecar {
    fn default() -> Self {
        Self {
            columns: Vec::new(),
            orders: [Order::default(), Order::default()],
            ghosts: [Ghosts::default(), Ghosts::default()],
            trust: [0.5; 2],
            time: 0,
            dice: 0,
            blamed: None,
        }
    }
}

impl Lecar {
    fn push(&mut self, block: BlockId, view: View<'_>) {
        let Column { uses, last } = self.columns[block as usize];
        let depth = view.pool.depth(block);
        for (order, main) in self.orders.iter_mut().zip([0, uses]) {
            grow(&mut order.places, block, NIL);
            let entry = Entry::of(view.pool, block, pack(main, last, depth));
            order.heap.push(&mut order.places, entry);
        }
    }

    fn take_out(&mut self, block: BlockId) -> bool {
        let mut placed = false;
        for order in &mut self.orders {
            let at = order.places.get(block as usize).copied().filter(|&at| at != NIL);
            if let Some(at) = at {
                order.heap.take_out(&mut order.places, at as usize);
                placed = true;
            }
        }
        placed
    }

    /// A number from 0 on, below 1 (splitmix64).
    fn throw(&mut self) -> f64 {
        self.dice = self.dice.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.dice;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// `expert` had something evicted that was asked for again after `time` block accesses.
    fn blame(&mut self, expert: usize, time: u64, capacity: f64) {
        let regret = DISCOUNT.powf(time as f64 / capacity);
        self.trust[expert] *= (-LEARNING * regret).exp();
        let sum: f64 = self.trust.iter().map(|trust| trust + LEAST).sum();
        self.trust = self.trust.map(|trust| (trust + LEAST) / sum);
    }
}

impl Eviction for Lecar {
    fn name(&self) -> &'static str {
        "lecar"
    }

    fn insert(&mut self, blocks: &[BlockId], _: Access<'_>, view: View<'_>) {
        for &block in blocks {
            self.time += 1;
            grow(&mut self.columns, block, Column::default());
            self.columns[block as usize] = Column { uses: 1, last: view.now };
        }
    }

    fn hit(&mut self, blocks: &[BlockId], _: Access<'_>, view: View<'_>) {
        for &block in blocks {
            self.time += 1;
            let placed = self.take_out(block);
            let Column { uses, last } = &mut self.columns[block as usize];
            (*uses, *last) = (uses.saturating_add(1), view.now);
            // A computed copy may touch a block without an owner.
            if placed {
                self.push(block, view);
            }
        }
    }

    fn acquire(&mut self, blocks: &[BlockId], _: View<'_>) {
        for &block in blocks {
            self.take_out(block);
        }
    }

    fn release(&mut self, blocks: &[BlockId], view: View<'_>) {
        for &block in blocks {
            self.columns[block as usize].last = view.now;
            if view.pool.is_evictable(block) {
                self.push(block, view);
            }
        }
    }

    fn on_evictable(&mut self, block: BlockId, view: View<'_>) {
        self.push(block, view);
    }

    fn priority_changed(&mut self, block: BlockId, view: View<'_>) {
        if self.take_out(block) {
            self.push(block, view);
        }
    }

    fn remove(&mut self, block: BlockId, cause: RemovalCause, view: View<'_>) {
        self.take_out(block);
        if let Some(expert) = self.blamed.take().filter(|_| cause == RemovalCause::Evicted) {
            self.ghosts[expert].add(view.pool.key(block), self.time);
            self.ghosts[expert].trim(view.pool.usable() as usize / 2);
        }
    }

    fn victim(&mut self, _: View<'_>) -> Option<BlockId> {
        let recent = self.orders[RECENCY].heap.first()?.block();
        let frequent = self.orders[FREQUENCY].heap.first()?.block();
        if recent == frequent {
            self.blamed = None;
            return Some(recent);
        }
        let expert = if self.throw() < self.trust[RECENCY] { RECENCY } else { FREQUENCY };
        self.blamed = Some(expert);
        Some([recent, frequent][expert])
    }

    fn next(&self, _: View<'_>) -> Option<BlockId> {
        self.orders[RECENCY].heap.first().map(Entry::block)
    }

    fn on_miss(&mut self, key: Key, view: View<'_>) {
        for expert in [RECENCY, FREQUENCY] {
            if let Some(then) = self.ghosts[expert].forget(key) {
                self.blame(expert, self.time - then, f64::from(view.pool.usable()));
            }
        }
    }

    fn wants_misses(&self) -> bool {
        true
    }

    fn order(&self, view: View<'_>) -> Vec<BlockId> {
        let mut rest = self.clone();
        std::iter::from_fn(|| {
            let block = rest.victim(view)?;
            rest.take_out(block);
            Some(block)
        })
        .collect()
    }

    fn validate(&self, pool: &Pool) -> Result<(), String> {
        let leaves = (0..pool.created()).filter(|&b| pool.is_evictable(b)).count();
        for Order { heap, places } in &self.orders {
            heap.validate(places).map_err(|fault| format!("lecar: {fault}"))?;
            heap.validate_blocks(pool).map_err(|fault| format!("lecar: {fault}"))?;
            if leaves != heap.len() {
                return Err(format!("lecar: {} in a heap, {leaves} may be evicted", heap.len()));
            }
        }
        Ok(())
    }
}
