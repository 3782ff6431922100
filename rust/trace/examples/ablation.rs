//! `cargo run --release -p kvframe-trace --example ablation CONVERSATION SYNTHETIC AGENT`: what each
//! part of foresight is worth, on the shipped traces (any form the reader knows), as Markdown tables:
//! one request at a time (engine mode), and by the clock beside running sequences (timed mode).
//!
//! Then what a choice among the variants is worth on what it was not chosen by: on the trace left
//! out of three, and on the later half of all, chosen by the earlier one.

use kvframe_core::policy::{Foresight, PolicyOptions, Tuning, by_name};
use kvframe_trace::replay::{Outcome, PreparedTrace, SilentHost};
use kvframe_trace::{Mode, Trace};

/// Capacities of a trace, the smaller half of them first.
const CAPACITIES: [&[u32]; 3] = [
    &[1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000],
    &[500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000],
    &[2_000, 4_000, 8_000, 16_000, 32_000],
];

fn variants() -> Vec<(&'static str, Tuning)> {
    let whole = Tuning::default();
    let keep = |power: f64| whole.keep.powf(power);
    vec![
        ("as shipped", whole),
        ("no turns", Tuning { generations: 1, ..whole }),
        ("no uses", Tuning { uses: 1, ..whole }),
        ("no depth", Tuning { depths: 1, ..whole }),
        ("one class", Tuning { generations: 1, uses: 1, depths: 1, ..whole }),
        ("no rival", Tuning { budget: 1e9, ..whole }),
        ("budget halved", Tuning { budget: whole.budget / 2.0, ..whole }),
        ("budget doubled", Tuning { budget: whole.budget * 2.0, ..whole }),
        ("trusted at once", Tuning { ramp: 1e-9, ..whole }),
        ("trusted half as soon", Tuning { ramp: whole.ramp * 2.0, ..whole }),
        ("every wait counted", Tuning { share: 1, ..whole }),
        ("grace halved", Tuning { grace: whole.grace / 2.0, ..whole }),
        ("grace doubled", Tuning { grace: whole.grace * 2.0, ..whole }),
        ("trust halved", Tuning { trust: whole.trust / 2.0, ..whole }),
        ("trust doubled", Tuning { trust: whole.trust * 2.0, ..whole }),
        ("watched 1", Tuning { watched: 1, ..whole }),
        ("watched halved", Tuning { watched: whole.watched / 2, ..whole }),
        ("watched doubled", Tuning { watched: whole.watched * 2, ..whole }),
        ("memory halved", Tuning { keep: keep(2.0), ..whole }),
        ("memory doubled", Tuning { keep: keep(0.5), ..whole }),
        ("refreshed twice as often", Tuning { refresh: whole.refresh * 2, ..whole }),
        ("refreshed half as often", Tuning { refresh: whole.refresh / 2, ..whole }),
        ("epochs half as long", Tuning { epoch: whole.epoch * 2, ..whole }),
        ("epochs twice as long", Tuning { epoch: whole.epoch / 2, ..whole }),
    ]
}

/// Gains over lru in points of one trace at one capacity.
#[derive(Debug, Clone, Copy)]
struct Cell {
    trace: usize,
    /// Of the small half of its trace's capacities.
    small: bool,
    whole: f64,
    /// Of the earlier half of the requests, and of the later.
    early: f64,
    late: f64,
}

impl Cell {
    fn new(trace: usize, small: bool, ours: &Outcome, lru: &Outcome) -> Self {
        let rates = |o: &Outcome| {
            let share = |hits: u64, of: u64| hits as f64 / of.max(1) as f64 * 100.0;
            let (hits, input) = (o.hit_tokens_last_half, o.input_tokens_last_half);
            let early = share(o.hit_tokens - hits, o.input_tokens - input);
            (share(o.hit_tokens, o.input_tokens), early, share(hits, input))
        };
        let (ours, lru) = (rates(ours), rates(lru));
        let (whole, early, late) = (ours.0 - lru.0, ours.1 - lru.1, ours.2 - lru.2);
        Self { trace, small, whole, early, late }
    }
}

/// Every cell of a variant of foresight, or of lru where there is none.
fn replays(traces: &[Trace], mode: Mode, tuning: Option<Tuning>) -> Vec<(usize, bool, Outcome)> {
    let mut outcomes = Vec::new();
    for (at, (trace, capacities)) in traces.iter().zip(CAPACITIES).enumerate() {
        let plan = trace.plan(mode);
        let prepared = PreparedTrace::new(trace, mode, &plan);
        for (i, &capacity) in capacities.iter().enumerate() {
            let policy = match tuning {
                Some(tuning) => Box::new(Foresight::new(tuning)),
                None => by_name("lru", PolicyOptions::default()).expect("there is lru"),
            };
            let outcome = prepared.replay(Some(capacity), policy, &mut SilentHost);
            let outcome = outcome.expect("a capacity of some blocks").expect("nobody stops it");
            outcomes.push((at, i < capacities.len() / 2, outcome));
        }
    }
    outcomes
}

fn mean(gains: impl Iterator<Item = f64> + Clone) -> f64 {
    gains.clone().sum::<f64>() / gains.count().max(1) as f64
}

fn least(gains: impl Iterator<Item = f64>) -> f64 {
    gains.fold(f64::INFINITY, f64::min)
}

/// The variant that gains most in the small half, of those that lose at most half a point anywhere.
fn best<'v>(
    variants: &'v [(&'static str, Vec<Cell>)],
    seen: impl Fn(&Cell) -> Option<f64> + Copy,
) -> &'v (&'static str, Vec<Cell>) {
    let small = |cells: &[Cell]| mean(cells.iter().filter(|c| c.small).filter_map(seen));
    let safe = |cells: &[Cell]| least(cells.iter().filter_map(seen)) >= -0.5;
    let rank = |cells: &[Cell]| (safe(cells), small(cells));
    let order = |a: &&(_, Vec<Cell>), b: &&(_, Vec<Cell>)| rank(&a.1).partial_cmp(&rank(&b.1));
    variants.iter().max_by(|a, b| order(a, b).expect("no gain is NaN")).expect("there are some")
}

fn show(name: &str, cells: &[Cell], gain: impl Fn(&Cell) -> Option<f64> + Copy) {
    let small = mean(cells.iter().filter(|cell| cell.small).filter_map(gain));
    let all = mean(cells.iter().filter_map(gain));
    let least = least(cells.iter().filter_map(gain));
    println!("| {name} | {small:+.2} | {all:+.2} | {least:+.2} |");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut traces = Vec::new();
    for path in std::env::args().skip(1) {
        traces.push(Trace::load(path, None)?);
    }
    for (mode, called) in [(Mode::Engine, "engine"), (Mode::Timed, "timed")] {
        let lru = replays(&traces, mode, None);
        let mut all = Vec::new();
        println!("\n{called} mode\n\n| variant | small half | all | least | least, later half |");
        println!("|---|---|---|---|---|");
        for (name, tuning) in variants() {
            let ours = replays(&traces, mode, Some(tuning));
            let cells: Vec<Cell> = ours
                .iter()
                .zip(&lru)
                .map(|((at, small, ours), (_, _, lru))| Cell::new(*at, *small, ours, lru))
                .collect();
            println!(
                "| {name} | {:+.2} | {:+.2} | {:+.2} | {:+.2} |",
                mean(cells.iter().filter(|cell| cell.small).map(|cell| cell.whole)),
                mean(cells.iter().map(|cell| cell.whole)),
                least(cells.iter().map(|cell| cell.whole)),
                least(cells.iter().map(|cell| cell.late)),
            );
            all.push((name, cells));
        }
        println!("\n| chosen without, tried on: choice | small half | all | least |");
        println!("|---|---|---|---|");
        for (out, trace) in traces.iter().enumerate() {
            let (name, cells) = best(&all, |cell| (cell.trace != out).then_some(cell.whole));
            let tried = |cell: &Cell| (cell.trace == out).then_some(cell.whole);
            show(&format!("{}: {name}", trace.name), cells, tried);
            show(&format!("{}: as shipped", trace.name), &all[0].1, tried);
        }
        let (name, cells) = best(&all, |cell| Some(cell.early));
        show(&format!("later halves: {name}"), cells, |cell| Some(cell.late));
        show("later halves: as shipped", &all[0].1, |cell| Some(cell.late));
    }
    Ok(())
}
