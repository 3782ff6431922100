//! Converts a trace to the compact form: `cargo run --release --example compact IN OUT NAME SOURCE LICENCE`.

use std::env;
use std::error::Error;

use kvframe_trace::Trace;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [input, output, name, source, licence] = arguments.as_slice() else {
        return Err("usage: compact IN OUT NAME SOURCE LICENCE".into());
    };
    let mut trace = Trace::load(input, None)?;
    trace.name.clone_from(name);
    trace.source.clone_from(source);
    trace.licence.clone_from(licence);
    let bytes = trace.write_compact(output)?;
    println!("{output}: {} requests, {bytes} bytes", trace.requests.len());
    Ok(())
}
