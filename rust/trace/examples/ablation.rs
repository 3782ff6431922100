//! `cargo run --release -p kvframe-trace --example ablation CONVERSATION SYNTHETIC AGENT`: what each
//! part of foresight is worth, on the shipped traces (any form the reader knows), as a Markdown table.

use kvframe_core::policy::{Classed, Foresight, Tuning, by_name};
use kvframe_trace::replay::{Prepared, Undisturbed};
use kvframe_trace::{Mode, Trace};

/// Capacities of a trace, and how many of them are its small half.
const CAPACITIES: [(&[u32], usize); 3] = [
    (&[1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000], 3),
    (&[500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000], 3),
    (&[2_000, 4_000, 8_000, 16_000], 2),
];

fn variants() -> Vec<(&'static str, Tuning)> {
    let whole = Tuning::default();
    let keep = |power: f64| whole.keep.powf(power);
    vec![
        ("as shipped", whole),
        ("no turns", Tuning { generations: 1, ..whole }),
        ("no uses", Tuning { uses: 1, ..whole }),
        ("one class", Tuning { generations: 1, uses: 1, ..whole }),
        ("no rival", Tuning { budget: 1e9, ..whole }),
        ("budget halved", Tuning { budget: whole.budget / 2.0, ..whole }),
        ("budget doubled", Tuning { budget: whole.budget * 2.0, ..whole }),
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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let mut traces = Vec::new();
    for path in &paths {
        traces.push(Trace::load(path, None)?);
    }
    println!("| variant | small half | all | least | least, later half |\n|---|---|---|---|---|");
    for (name, tuning) in variants() {
        let (mut small, mut all, mut least, mut later) = (vec![], vec![], f64::MAX, f64::MAX);
        for (trace, (capacities, half)) in traces.iter().zip(CAPACITIES) {
            let plan = trace.plan(Mode::Engine);
            let prepared = Prepared::new(trace, Mode::Engine, &plan);
            for (i, &capacity) in capacities.iter().enumerate() {
                let lru = by_name("lru", kvframe_core::policy::PolicyOptions::default())?;
                let ours = Box::new(Classed::new(Foresight::new(tuning)));
                let run = |policy| prepared.replay(Some(capacity), policy, &mut Undisturbed);
                let (Some(lru), Some(ours)) = (run(lru)?, run(ours)?) else { continue };
                let share = |hits: u64, of: u64| hits as f64 / of.max(1) as f64 * 100.0;
                let gain = share(ours.hit_tokens, ours.input_tokens)
                    - share(lru.hit_tokens, lru.input_tokens);
                let late = share(ours.hit_tokens_last_half, ours.input_tokens_last_half)
                    - share(lru.hit_tokens_last_half, lru.input_tokens_last_half);
                (least, later) = (least.min(gain), later.min(late));
                all.push(gain);
                if i < half {
                    small.push(gain);
                }
            }
        }
        let mean = |gains: &[f64]| gains.iter().sum::<f64>() / gains.len().max(1) as f64;
        println!(
            "| {name} | {:+.2} | {:+.2} | {least:+.2} | {later:+.2} |",
            mean(&small),
            mean(&all)
        );
    }
    Ok(())
}
