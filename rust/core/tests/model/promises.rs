//! Pages that must stay as they are: under a lease, behind a fence, or being loaded.

use kvframe_core::groups::GroupReach;
use kvframe_core::manager::Pressure;
use kvframe_core::pool::State;
use kvframe_core::sequence::BlockTable;
use kvframe_core::{BlockId, GroupKind, Manager, NIL, SeqId};

use super::pages::Pages;

/// Pages with what they held when somebody was promised them, as far as it was computed: what was
/// not, a sequence that had the slot already may write.
#[derive(Debug, Default)]
pub struct Kept(Vec<(BlockId, Vec<u64>)>);

impl Kept {
    /// Whole pages.
    pub fn new(pages: &Pages, blocks: impl Iterator<Item = BlockId>) -> Self {
        Self(blocks.filter(|&b| b != NIL).map(|b| (b, pages.page(b).to_vec())).collect())
    }

    /// The first `upto` tokens of a table, from the block `from` on. A state that moves on keeps
    /// nothing but its page.
    pub fn add(
        &mut self,
        pages: &Pages,
        reach: &GroupReach,
        table: &[BlockId],
        from: usize,
        upto: u32,
    ) {
        let span = reach.span as usize;
        for (i, &block) in table.iter().enumerate().skip(from).filter(|&(_, &b)| b != NIL) {
            let page = pages.page(block);
            let mut computed = (upto as usize).saturating_sub(i * span).min(span);
            if reach.kind == GroupKind::State && computed < span {
                computed = 0;
            }
            self.0.push((block, page[..computed].to_vec()));
        }
    }

    fn check(&self, m: &Manager, pages: &Pages, why: &str) {
        for (block, page) in &self.0 {
            let state = m.pool().state(*block);
            let owned = matches!(state, State::Pending | State::Committed);
            assert!(owned, "block {block} {why} and is {}", state.name());
            let now = &pages.page(*block)[..page.len()];
            assert_eq!(now, page, "block {block} {why} and was written");
        }
    }
}

/// Blocks that come from elsewhere.
#[derive(Debug)]
pub struct Load {
    pub ticket: u64,
    /// Place of its first block.
    pub start: u32,
    /// For each unit that hits come in, its pages: (group, place, block).
    pub rows: Vec<Vec<(usize, usize, BlockId)>>,
    /// How many of the rows are good.
    pub good: u32,
    pub pages: Kept,
}

impl Load {
    pub fn lost(&self) -> bool {
        (self.good as usize) < self.rows.len()
    }

    /// How many of its rows, from the first on, `tables` hold.
    pub fn held_by(&self, tables: &[BlockTable]) -> u32 {
        let held = |row: &&Vec<(usize, usize, BlockId)>| {
            row.iter().all(|&(group, at, page)| tables[group].get(at) == Some(&page))
        };
        self.rows.iter().take_while(held).count() as u32
    }
}

/// All that is promised.
#[derive(Debug, Default)]
pub struct Promises {
    pub leases: Vec<(u64, Kept)>,
    pub fenced: Vec<(u64, Kept)>,
    pub loads: Vec<Load>,
    /// Steps begun, and the last that has passed.
    pub steps: u64,
    pub passed: u64,
    pub level: Pressure,
}

impl Promises {
    pub fn is_loading(&self, block: BlockId) -> bool {
        self.loads.iter().any(|load| load.rows.iter().flatten().any(|&(.., b)| b == block))
    }

    /// What must be kept until a step in flight has passed.
    pub fn fence(&mut self, at: u64, kept: Kept) {
        if at > self.passed {
            self.fenced.push((at, kept));
        }
    }

    pub fn pass(&mut self, step: u64) {
        self.passed = self.passed.max(step);
        self.fenced.retain(|&(at, _)| at > step);
    }

    pub fn check(&self, m: &Manager, pages: &Pages) {
        for (_, kept) in &self.leases {
            kept.check(m, pages, "is leased");
        }
        for (_, kept) in &self.fenced {
            kept.check(m, pages, "waits for a step");
        }
        for load in &self.loads {
            load.pages.check(m, pages, "is being loaded");
            for &(block, _) in &load.pages.0 {
                assert_eq!(m.pool().state(block), State::Pending, "found before it came");
            }
        }
        let waits = self.fenced.iter().any(|(_, kept)| !kept.0.is_empty());
        assert!(m.waiting() > 0 || !waits);
    }

    /// What the level must be at that share of use.
    pub fn expect_level(&mut self, m: &Manager) -> Pressure {
        let marks = m.options().watermarks;
        let (usable, available) = (m.pool().usable(), m.pool().available());
        // What waits for a fence and for nothing else is on its way.
        let coming = (0..m.pool().created()).filter(|&b| waits_alone(m, b)).count() as u32;
        let usage = f64::from(usable - available - coming) / f64::from(usable);
        assert!((m.usage() - usage).abs() < 1e-9, "use is {}, and should be {usage}", m.usage());
        let holds = match self.level {
            Pressure::Critical => [marks.low, marks.high],
            Pressure::High => [marks.low, marks.critical],
            Pressure::Normal => [marks.high, marks.critical],
        };
        self.level = match holds.iter().filter(|&&mark| usage >= mark).count() {
            0 => Pressure::Normal,
            1 => Pressure::High,
            _ => Pressure::Critical,
        };
        self.level
    }
}

/// The handles of `seqs` whose tables hold a page of the lost part of `load`.
pub fn spoiled(m: &Manager, load: &Load, seqs: &[SeqId]) -> Vec<SeqId> {
    let lost = &load.rows[load.good as usize..];
    let holds = |seq: &SeqId| {
        let tables = &m.sequence(*seq).expect("live").tables;
        lost.iter().flatten().any(|&(group, _, page)| tables[group].contains(&page))
    };
    let mut found: Vec<SeqId> = seqs.iter().copied().filter(holds).collect();
    found.sort_unstable();
    found
}

/// Whether every owner of a block has left, and waits for a fence.
fn waits_alone(m: &Manager, block: BlockId) -> bool {
    let owners = m.owners(block);
    owners.waiting > 0 && m.pool().refs(block) == owners.waiting
}
