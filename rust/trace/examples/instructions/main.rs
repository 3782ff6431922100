//! One hot path at a time, for `python -m perf.instructions` to count under callgrind:
//! `cargo run --release --example instructions WORK` prints how many operations it ran, and
//! `… WORK SIZE` the same of a work beside so many others. Without a work their names are printed,
//! with `--growth` those of the latter, and whether each names all of the others.

mod growth;
mod works;

use std::env;
use std::error::Error;

use growth::{GROWTH, Names};
use works::WORKS;

fn main() -> Result<(), Box<dyn Error>> {
    let asked = env::args().nth(1).unwrap_or_default();
    if asked == "--growth" {
        for (name, names, _) in GROWTH {
            println!("{name} {}", if *names == Names::All { "all" } else { "few" });
        }
        return Ok(());
    }
    if let Some((.., work)) = GROWTH.iter().find(|(name, ..)| *name == asked) {
        let size = env::args().nth(2).ok_or("a size is missing")?.parse()?;
        println!("{}", work(size)?);
        return Ok(());
    }
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
