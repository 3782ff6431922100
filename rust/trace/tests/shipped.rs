//! The traces that ship inside the Python package: their totals, that they are what the writer writes, and that damage is seen.

use std::io::Read as _;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use kvframe_trace::{Mode, NO_SESSION, Trace};

fn path(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/kvframe/traces");
    PathBuf::from(folder).join(format!("{name}.kvt.gz"))
}

fn shipped(name: &str) -> Trace {
    let trace = Trace::load(path(name), None).unwrap();
    assert_eq!((trace.name.as_str(), trace.block_size), (name, 512));
    assert_eq!(trace.licence, "Apache-2.0");
    assert!(trace.source.starts_with("https://github.com/"), "{}", trace.source);
    trace
}

#[test]
fn conversation() {
    let trace = shipped("conversation");
    assert_eq!(trace.requests.len(), 12_031);
    assert_eq!(trace.input_tokens(), 144_793_823);
    assert!(trace.requests.iter().all(|request| request.session == NO_SESSION));
    let plan = trace.plan(Mode::Trace);
    assert_eq!((plan.block_accesses, plan.unique), (288_500, 182_790));
    assert_eq!(trace.plan(Mode::Engine).block_accesses, 276_491);
    let mut times: Vec<i64> = trace.requests.iter().map(|request| request.timestamp_ms).collect();
    times.dedup();
    assert_eq!(times.len(), 1_180);
    assert!((0..trace.requests.len()).all(|index| trace.chain(index)[0] == 0));
}

#[test]
fn synthetic() {
    let trace = shipped("synthetic");
    assert_eq!(trace.requests.len(), 3_993);
    assert_eq!(trace.input_tokens(), 61_194_628);
    let plan = trace.plan(Mode::Trace);
    assert_eq!((plan.block_accesses, plan.unique), (121_877, 43_924));
}

#[test]
fn agent() {
    let trace = shipped("agent");
    assert_eq!(trace.requests.len(), 7_529);
    assert_eq!(trace.input_tokens(), 929_658_798);
    assert_eq!(trace.requests.iter().map(|request| request.session).max(), Some(99));
    // Ids are floor(input / 512), so both modes see the same blocks.
    for mode in [Mode::Trace, Mode::Engine] {
        let plan = trace.plan(mode);
        assert_eq!((plan.block_accesses, plan.unique), (1_811_981, 66_298));
    }
}

/// Compared after decompression: what a compressor makes of the same text may change with its version.
#[test]
fn written_again_they_are_the_same_text() {
    for name in ["conversation", "synthetic", "agent"] {
        let text = |bytes: &[u8]| {
            let mut text = String::new();
            GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
            text
        };
        let before = std::fs::read(path(name)).unwrap();
        let after = shipped(name).encode_compact().unwrap();
        assert!(text(&before) == text(&after), "{name}");
    }
}

#[test]
fn a_flipped_or_missing_byte_is_an_error() {
    let bytes = std::fs::read(path("synthetic")).unwrap();
    for at in [20, 100, bytes.len() / 2, bytes.len() - 5] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let error = Trace::parse(&damaged, "x.kvt.gz", None).unwrap_err();
        assert!(error.line.is_some(), "{error}");
        let error = Trace::parse(&bytes[..at], "x.kvt.gz", None).unwrap_err();
        assert!(error.to_string().contains("the file is truncated"), "{error}");
    }
}
