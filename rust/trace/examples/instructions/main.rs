//! One hot path at a time, for `python -m perf.instructions` to count under callgrind:
//! `cargo run --release --example instructions WORK` prints how many operations it ran.

mod works;

use std::env;
use std::error::Error;

use works::WORKS;

fn main() -> Result<(), Box<dyn Error>> {
    let asked = env::args().nth(1).unwrap_or_default();
    let Some((_, work)) = WORKS.iter().find(|(name, _)| *name == asked) else {
        let names: Vec<&str> = WORKS.iter().map(|(name, _)| *name).collect();
        println!("{}", names.join("\n"));
        return Ok(());
    };
    println!("{}", work()?);
    Ok(())
}

/// Callgrind collects while this runs, and at no other time. It is found by its name.
#[inline(never)]
fn counted_part<T>(part: impl FnOnce() -> T) -> T {
    std::hint::black_box(part())
}
