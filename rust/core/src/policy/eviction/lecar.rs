//! `LeCaR`: recency or frequency names the victim, by the dice, and the one that was wrong lately is
//! trusted less (Vietri et al., `HotStorage` 2018).

use crate::hash::Key;
use crate::policy::adapters::dice::{Dice, SEED};
use crate::policy::adapters::ghosts::Ghosts;
use crate::policy::adapters::rank_order::pack;
use crate::policy::{
    Access, BlockAccess, Configured, Eviction, Lfu, PolicyOption, PolicyOptions, Rank, RankOrder,
    RemovalCause, View, grow,
};
use crate::pool::{BlockId, Pool};

/// How fast trust moves, and what is left of a mistake's weight after as many block accesses as there
/// are blocks: both as in the paper.
const LEARNING: f64 = 0.45;
const DISCOUNT: f64 = 0.005;
/// The least weight of an expert, so that each is still chosen sometimes.
const LEAST: f64 = 1e-10;

const RECENCY: usize = 0;
const FREQUENCY: usize = 1;

/// The order of the first expert: least recently used.
#[derive(Debug, Clone, Default)]
struct Recency {
    last: Vec<u64>,
}

impl Rank for Recency {
    fn name(&self) -> &'static str {
        "lecar"
    }

    fn insert(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        grow(&mut self.last, block, 0);
        self.last[block as usize] = view.now;
    }

    fn hit(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        self.last[block as usize] = view.now;
    }

    fn release(&mut self, block: BlockId, view: View<'_>) {
        self.last[block as usize] = view.now;
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        pack(0, self.last[block as usize], view.pool.depth(block))
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Lecar {
    recent: RankOrder<Recency>,
    frequent: RankOrder<Lfu>,
    /// What each expert alone had evicted, and when, in block accesses.
    ghosts: [Ghosts<u64>; 2],
    trust: [f64; 2],
    time: u64,
    dice: Dice,
    /// Whose choice the last victim was, if not that of both.
    blamed: Option<usize>,
}

impl Configured for Lecar {
    const OPTIONS: &'static [PolicyOption] = &[SEED];

    fn with(options: PolicyOptions<'_>) -> Self {
        Self {
            recent: RankOrder::new(Recency::default()),
            frequent: RankOrder::new(Lfu::default()),
            ghosts: [Ghosts::default(), Ghosts::default()],
            trust: [0.5; 2],
            time: 0,
            dice: Dice::of(options.get(&SEED)),
            blamed: None,
        }
    }
}

impl Lecar {
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

    fn insert(&mut self, blocks: &[BlockId], access: Access<'_>, view: View<'_>) {
        self.time += blocks.len() as u64;
        self.recent.insert(blocks, access, view);
        self.frequent.insert(blocks, access, view);
    }

    fn hit(&mut self, blocks: &[BlockId], access: Access<'_>, view: View<'_>) {
        self.time += blocks.len() as u64;
        self.recent.hit(blocks, access, view);
        self.frequent.hit(blocks, access, view);
    }

    fn acquire(&mut self, blocks: &[BlockId], view: View<'_>) {
        self.recent.acquire(blocks, view);
        self.frequent.acquire(blocks, view);
    }

    fn release(&mut self, blocks: &[BlockId], view: View<'_>) {
        self.recent.release(blocks, view);
        self.frequent.release(blocks, view);
    }

    fn on_evictable(&mut self, block: BlockId, view: View<'_>) {
        self.recent.on_evictable(block, view);
        self.frequent.on_evictable(block, view);
    }

    fn priority_changed(&mut self, block: BlockId, view: View<'_>) {
        self.recent.priority_changed(block, view);
        self.frequent.priority_changed(block, view);
    }

    fn remove(&mut self, block: BlockId, cause: RemovalCause, view: View<'_>) {
        self.recent.remove(block, cause, view);
        self.frequent.remove(block, cause, view);
        if let Some(expert) = self.blamed.take().filter(|_| cause == RemovalCause::Evicted) {
            self.ghosts[expert].add(view.pool.key(block), self.time);
            self.ghosts[expert].trim(view.pool.usable() as usize / 2);
        }
    }

    fn victim(&mut self, view: View<'_>) -> Option<BlockId> {
        let (recent, frequent) = (self.recent.next(view)?, self.frequent.next(view)?);
        if recent == frequent {
            self.blamed = None;
            return Some(recent);
        }
        let expert = if self.dice.share() < self.trust[RECENCY] { RECENCY } else { FREQUENCY };
        self.blamed = Some(expert);
        Some([recent, frequent][expert])
    }

    fn next(&self, view: View<'_>) -> Option<BlockId> {
        self.recent.next(view)
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

    fn order(&self, view: View<'_>, most: usize) -> Vec<BlockId> {
        let mut rest = self.clone();
        std::iter::from_fn(|| {
            let block = rest.victim(view)?;
            rest.acquire(&[block], view);
            Some(block)
        })
        .take(most)
        .collect()
    }

    fn validate(&self, pool: &Pool) -> Result<(), String> {
        self.recent.validate(pool)?;
        self.frequent.validate(pool)
    }
}
