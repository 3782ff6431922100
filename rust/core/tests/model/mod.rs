//! The one model of the whole manager: an engine of random choices that believes in its sequences, and
//! the pages under them. Property tests, mutants and the fuzz target `step` all drive it.

mod again;
pub mod dice;
mod held;
mod ops;
mod pages;
mod promises;
pub mod seen;
mod steps;
mod tails;
mod texts;
mod verbs;
mod world;

use kvframe_core::groups::Layout;
use kvframe_core::index::IndexKind;
use kvframe_core::tenants::{Amount, Tenant};
use kvframe_core::{Group, GroupKind, HashAlgo, Options, policy::NAMES};

use dice::Dice;
pub use ops::{Run, VERBS};

/// An operation, and the choices in it.
pub type Op = (usize, Vec<u16>);

fn window(window: u32) -> GroupKind {
    GroupKind::SlidingWindow { window }
}

/// A group of any kind.
fn any_group(dice: &mut Dice, size: u32) -> Group {
    let kind = match dice.below(6) {
        0 => GroupKind::Full,
        1 => window(dice.between(1, 3 * size)),
        2 => GroupKind::Chunked { chunk: dice.between(1, 3 * size) },
        3 => GroupKind::SinkWindow { sink: dice.between(0, 5), window: dice.between(1, 6) },
        4 => GroupKind::State,
        _ => GroupKind::Cross,
    };
    let lags = !matches!(kind, GroupKind::State | GroupKind::Cross) && dice.one_in(4);
    let lag = if lags { dice.between(1, size + 1) } else { 0 };
    Group { units: dice.pick(&[1, 1, 2, 3]), lag, ..kind.into() }
}

/// Layer groups of one manager.
pub fn groups(dice: &mut Dice, size: u32) -> Vec<Group> {
    let full = GroupKind::Full;
    let kinds = match dice.below(12) {
        0..=3 => vec![full],
        4 => vec![full, full],
        5 => vec![full, window(dice.between(1, 2 * size + 1))],
        6 => vec![window(dice.between(1, 3 * size))],
        7 => vec![full, window(dice.between(1, 4)), window(dice.between(2, 9))],
        _ => {
            let mut groups: Vec<Group> =
                (0..dice.between(1, 3)).map(|_| any_group(dice, size)).collect();
            if groups.iter().all(|g| g.kind == GroupKind::Cross) {
                groups.push(full.into());
            }
            let unit = Layout::new(&groups, size).expect("sound").unit_tokens();
            for group in groups.iter_mut().filter(|g| !g.kind.keeps_all()) {
                group.interval = dice.one_in(4).then(|| dice.between(0, 2) * unit);
            }
            return groups;
        }
    };
    kinds.into_iter().map(Group::from).collect()
}

/// How a manager is built.
pub fn options(dice: &mut Dice) -> Options {
    let size = dice.pick(&[1, 2, 4]);
    let groups = groups(dice, size);
    let blocks = dice.between(2, 14) * groups.len() as u32;
    let radix = groups.iter().all(|group| *group == GroupKind::Full.into()) && dice.one_in(2);
    let plain = Layout::new(&groups, size).expect("sound").check_plain().is_ok();
    let remaps = plain && !radix && dice.one_in(3);
    let index = if radix { IndexKind::Radix } else { IndexKind::Hash };
    let mut made = Options {
        blocks,
        block_size: size,
        groups,
        index,
        hash: dice.pick(&[HashAlgo::Sha256, HashAlgo::Blake3, HashAlgo::Xxh3]),
        prefix_caching: !dice.one_in(12),
        null_block: dice.one_in(3),
        event_log: dice.one_in(2),
        partial_hits: (radix || plain) && dice.one_in(2),
        pin_cap: dice.pick(&[0.0, 0.3, 1.0]),
        remap_duplicates: remaps,
        reserve: if dice.one_in(4) { dice.between(0, blocks / 4) } else { 0 },
        ..Options::default()
    };
    let copies_may_stay = !radix && !remaps && !made.partial_hits;
    made.keep_duplicates = copies_may_stay && dice.one_in(3);
    if !radix && blocks >= FEW && dice.one_in(3) {
        made.tenants = tenants(dice);
    }
    made
}

/// Fewer blocks than this are not shared out.
pub const FEW: u32 = 6;

/// Two of those that requests name; all others are one.
fn tenants(dice: &mut Dice) -> Vec<Tenant> {
    let floors = [Amount::Blocks(0), Amount::Blocks(2), Amount::Share(0.3)];
    let quotas = [None, Some(Amount::Share(0.5)), Some(Amount::Share(1.0))];
    let tenant = |name: &[u8], dice: &mut Dice| Tenant {
        name: name.to_vec(),
        floor: dice.pick(&floors),
        quota: dice.pick(&quotas),
        is_public: false,
    };
    vec![tenant(b"x", dice), tenant(b"y", dice)]
}

/// Every policy there is; the last lives outside the core and is asked for victims.
pub fn policies() -> Vec<&'static str> {
    NAMES.iter().copied().chain(["external"]).collect()
}

/// One script, and the end of all that it left.
pub fn play(options: Options, policy: &str, script: &[Op]) {
    let mut run = Run::new(options, policy, 0, Dice::Tape(Vec::new()));
    for (verb, choices) in script {
        run.dice = Dice::Tape(choices.iter().rev().copied().collect());
        run.act(*verb);
    }
    // What is left of it has to end somehow: by dice, so that it does.
    run.dice = Dice::new(1);
    run.finish();
}
