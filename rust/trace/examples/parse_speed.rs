//! Parsing speed, best of ten: `cargo run --release --example parse_speed FILE...`.

use std::env;
use std::error::Error;

use kvframe_trace::Trace;

fn main() -> Result<(), Box<dyn Error>> {
    for path in env::args().skip(1) {
        let mut best = f64::INFINITY;
        let mut bytes = 0;
        for _ in 0..10 {
            let trace = Trace::load(&path, None)?;
            best = best.min(trace.parse_seconds);
            bytes = trace.bytes;
        }
        println!("{path}: {:.0} MB/s ({bytes} bytes in {best:.4} s)", bytes as f64 / best / 1e6);
    }
    Ok(())
}
