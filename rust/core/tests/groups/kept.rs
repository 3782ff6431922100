//! Models with windows and states keep finding what full attention alone would find: not as much, but never nothing.

use super::common::{SIZE, build, open, run, serve};
use super::dice::{Dice, runs};
use super::helpers::{FULL, STATE, chunked, grouped, window};
use kvframe_core::{Group, GroupKind, Manager, Options};

/// Prompts that share their beginnings: each with so many others, which come after so many other prompts.
struct Traffic {
    head: u32,
    tail: u32,
    sharers: u32,
    gap: u32,
}

/// What counts as something: one token in so many.
const ONE_IN: u32 = 50;

/// Beginnings that differ.
const HEADS: u32 = 240;

impl Traffic {
    fn drawn(dice: &mut Dice) -> Self {
        let (head, tail) = (dice.between(2, 12), dice.between(1, 12));
        Self { head, tail, sharers: dice.between(2, 5), gap: dice.between(1, 4) }
    }

    fn prompts(&self) -> impl Iterator<Item = Vec<u32>> + '_ {
        let length = self.head + self.sharers * self.tail;
        (0..HEADS + self.gap * self.sharers).flat_map(move |step| {
            (0..self.sharers).filter_map(move |nth| {
                let of = step.checked_sub(nth * self.gap).filter(|&of| of < HEADS)?;
                let begin = 1 + of * length;
                let tail = begin + self.head + nth * self.tail;
                Some((begin..begin + self.head).chain(tail..tail + self.tail).collect())
            })
        })
    }

    /// Tokens of the prompts of the later half.
    fn asked(&self) -> u32 {
        HEADS * self.sharers * (self.head + self.tail) * SIZE / 2
    }

    /// Tokens found of them.
    fn found(&self, groups: &[Group], blocks: u32) -> u32 {
        let groups = groups.to_vec();
        let options = Options { blocks, block_size: SIZE, groups, ..Options::default() };
        let mut m: Manager = build(options, "lru");
        let found: Vec<u32> = self.prompts().map(|blocks| serve(&mut m, &open(&blocks))).collect();
        m.check_integrity().unwrap();
        found[found.len() / 2..].iter().sum()
    }
}

fn windowed(dice: &mut Dice) -> GroupKind {
    match dice.below(3) {
        0 => window(dice.between(1, 3 * SIZE)),
        1 => chunked(SIZE * dice.between(2, 4)),
        _ => STATE,
    }
}

#[test]
fn where_full_attention_alone_finds_something_so_do_windows_and_states() {
    let mut told = 0;
    for seed in 0..runs(200) {
        let mut dice = Dice::new(seed);
        let traffic = Traffic::drawn(&mut dice);
        let kind = windowed(&mut dice);
        let more = dice.between(1, 3);
        let groups = [vec![FULL.into()], vec![kind.into(); more as usize]].concat();
        let one = traffic.head + traffic.tail + 1;
        let blocks = (1 + more) * one * dice.between(1, 4 * traffic.gap + 4) + 8;
        let attended = traffic.found(&vec![FULL.into(); 1 + more as usize], blocks);
        if attended * ONE_IN > traffic.asked() {
            told += 1;
            let found = traffic.found(&groups, blocks);
            let Traffic { head, tail, sharers, gap } = traffic;
            assert!(
                found > 0,
                "seed {seed}: {blocks} blocks, {kind:?} x {more}: full attention finds {attended} tokens of heads of \
                 {head} blocks before {tail}, {sharers} of each, {gap} apart; this finds none"
            );
        }
    }
    assert!(10 * told > runs(200), "full attention hardly ever found anything: {told}");
}

/// A beginning that several prompts share is kept from the second on: there they parted.
#[test]
fn a_window_is_kept_where_prompts_part() {
    for kind in [STATE, window(2 * SIZE), chunked(3 * SIZE)] {
        let mut m = grouped(44, &[FULL.into(), kind.into()]);
        let mut once = 1_000;
        let found: Vec<u32> = (0..3)
            .map(|i| {
                let found = serve(&mut m, &open(&[1, 2, 3, 4, 100 + i, 200 + i, 300 + i, 400 + i]));
                for _ in 0..2 {
                    once += 10;
                    serve(&mut m, &open(&(once..once + 8).collect::<Vec<_>>()));
                }
                found
            })
            .collect();
        assert!(found[1] < 4 * SIZE && found[2] == 4 * SIZE, "{kind:?}: {found:?}");
    }
}

/// Blocks within a prompt that nobody else has shared go first, as long as that costs no hits.
#[test]
fn what_lies_within_a_prompt_goes_first() {
    let mut m = grouped(20, &[FULL.into(), window(SIZE).into()]);
    let seq = run(&mut m, &open(&[1, 2, 3, 4, 5]));
    let table = m.sequence(seq).unwrap().tables[1].clone();
    assert_eq!(table.iter().filter(|&&b| b != kvframe_core::NIL).count(), 2);
    m.release(seq).unwrap();
    m.evict_until(m.pool().free() + 3).unwrap();
    assert_eq!(super::common::found(&m, &open(&[1, 2, 3, 4, 5])), 5 * SIZE);
}
