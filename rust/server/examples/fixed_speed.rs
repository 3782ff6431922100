use kvframe_core::{Manager, policy::{by_name, PolicyOptions}};
use kvframe_trace::{Mode, Trace, replay::{FixedRates, PreparedTrace, SilentHost}};
use kvframe_server::fixed::simulate_fixed;
use std::time::Instant;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let trace = Trace::load(&a[1], None).unwrap();
    let cap: u32 = a[2].parse().unwrap();
    let rounds: usize = a[3].parse().unwrap();
    let plan = trace.plan(Mode::Timed);
    let prepared = PreparedTrace::new(&trace, Mode::Timed, &plan);
    for _ in 0..rounds {
        let mut m = Manager::new(prepared.options(Some(cap)).unwrap(), by_name(&a[4], PolicyOptions::default()).unwrap()).unwrap();
        let s = Instant::now();
        let r = simulate_fixed((&trace, &prepared), &mut m, &mut SilentHost, FixedRates::default(), a[5].parse().unwrap()).unwrap();
        let t = s.elapsed().as_secs_f64();
        println!("{} requests {} accesses {:.4}s {:.0} req/s {:.1} M acc/s evictions {}", r.requests.len(), plan.block_accesses, t, r.requests.len() as f64 / t, plan.block_accesses as f64/t/1e6, r.evictions);
    }
}
