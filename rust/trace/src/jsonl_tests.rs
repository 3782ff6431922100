use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::{NO_SESSION, TimeUnit, Trace, TraceDefaults};

const GOOD: &str =
    r#"{"timestamp": 5, "input_length": 1000, "output_length": 5, "hash_ids": [1, 2]}"#;

const ORDER: &str = "rows must be in order of time (--sort puts them so)";

fn refused(text: impl AsRef<[u8]>) -> String {
    let message = Trace::parse(text.as_ref(), "t.jsonl", None).unwrap_err().to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

/// The error of a good line, an empty one, and `GOOD` with `from` changed to `to`.
fn third(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    let message = refused(format!("{GOOD}\n\n{}\n", GOOD.replacen(from, to, 1)));
    message.strip_prefix("t.jsonl:3: ").expect(&message).to_owned()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn rows_become_requests() {
    let text = format!(
        "\u{feff}{GOOD}\r\n\n{}\n{}",
        r#"{"x": {"y": [1]}, "hash_ids": [1], "timestamp": 5.5, "output_length": 0, "input_length": 512, "session_id": "a"}"#,
        r#"{"hash_ids": [], "timestamp": 7, "output_length": 0, "input_length": 3, "session_id": null, "block_size": null}"#,
    );
    for data in [text.as_bytes().to_vec(), gzip(text.as_bytes())] {
        let trace = Trace::parse(&data, "t", None).unwrap();
        assert_eq!((trace.block_size, trace.bytes), (512, text.len() as u64));
        let times: Vec<i64> = trace.requests.iter().map(|r| r.timestamp_ms).collect();
        assert_eq!(times, [5, 6, 7]);
        let blocks: Vec<u32> = trace.requests.iter().map(|r| r.blocks).collect();
        assert_eq!(blocks, [2, 1, 0]);
        let sessions: Vec<u32> = trace.requests.iter().map(|r| r.session).collect();
        assert_eq!(sessions, [NO_SESSION, 0, NO_SESSION]);
        assert_eq!(trace.input_tokens(), 1515);
        assert!(trace.parse_seconds > 0.0);
    }
}

#[test]
fn sessions_are_integers_or_strings() {
    let named = |name: &str| GOOD.replace('}', &format!(", \"session_id\": {name}}}\n"));
    let text: String = ["7", "\"7\"", "-1", "7", "\"\\u0037\""].map(named).concat();
    let trace = Trace::parse(text.as_bytes(), "t", None).unwrap();
    let sessions: Vec<u32> = trace.requests.iter().map(|r| r.session).collect();
    assert_eq!(sessions, [0, 1, 2, 0, 1]);
    assert_eq!(
        third("}", ", \"session_id\": 1.5}"),
        "session_id = 1.5: must be an integer or a string"
    );
}

#[test]
fn block_size_is_the_rows_then_the_callers_then_512() {
    let own = GOOD.replace('}', ", \"block_size\": 500}");
    assert_eq!(Trace::parse(own.as_bytes(), "t", Some(999)).unwrap().block_size, 500);
    assert_eq!(Trace::parse(GOOD.as_bytes(), "t", Some(999)).unwrap().block_size, 999);
    assert_eq!(Trace::parse(GOOD.as_bytes(), "t", None).unwrap().block_size, 512);
    assert_eq!(
        third("}", ", \"block_size\": 500}"),
        "block_size = 500: the rows above have 512, and a trace has one block size"
    );
    for bad in ["0", "65537"] {
        let message = third("}", &format!(", \"block_size\": {bad}}}"));
        assert_eq!(message, format!("block_size = {bad}: must be between 1 and 65536"));
    }
    let message = third("}", ", \"block_size\": -1}");
    assert_eq!(message, "block_size = -1: must be an integer between 1 and 65536");
}

#[test]
fn ids_must_be_floor_or_ceil() {
    let message = third("[1, 2]", "[1, 2, 3]");
    let default = "at block size 512 (the default) needs 1 (floor) or 2 (ceil)";
    assert_eq!(message, format!("hash_ids has 3 ids, but input_length 1000 {default}"));
    let message = Trace::parse(GOOD.as_bytes(), "t", Some(1000)).unwrap_err().to_string();
    assert_eq!(
        message,
        "t:1: hash_ids has 2 ids, but input_length 1000 at block size 1000 needs 1"
    );
    assert!(Trace::parse(GOOD.replace("[1, 2]", "[1]").as_bytes(), "t", None).is_ok());
}

#[test]
fn values_out_of_range_are_named() {
    let length = "must be an integer between 0 and 4294967295";
    assert_eq!(third("1000", "-5"), format!("input_length = -5: {length}"));
    assert_eq!(third("1000", "4294967296"), format!("input_length = 4294967296: {length}"));
    assert_eq!(third("h\": 5", "h\": -1"), format!("output_length = -1: {length}"));
    assert_eq!(third("h\": 5", "h\": \"5\""), format!("output_length = \"5\": {length}"));
    let id = "must be an integer between -9223372036854775808 and 18446744073709551615";
    assert_eq!(third("[1, 2]", "[1, 2.5]"), format!("hash_ids[1] = 2.5: {id}"));
    assert_eq!(
        third("[1, 2]", "[18446744073709551616, 2]"),
        format!("hash_ids[0] = 1.8446744073709552e+19: {id}")
    );
    assert_eq!(third("[1, 2]", "7"), "hash_ids = 7: must be a list of integers");
    let time = "must be a number of milliseconds that 64 bits hold";
    assert_eq!(third("p\": 5", "p\": 1e300"), format!("timestamp = 1e+300: {time}"));
    assert_eq!(third("p\": 5", "p\": \"noon\""), format!("timestamp = \"noon\": {time}"));
    assert!(
        Trace::parse(GOOD.replace("[1, 2]", "[18446744073709551615, 0]").as_bytes(), "t", None)
            .is_ok()
    );
}

#[test]
fn times_must_not_go_back() {
    let message = third("p\": 5", "p\": 4");
    assert_eq!(message, format!("timestamp 4 is before the row above's 5: {ORDER}"));
}

#[test]
fn a_missing_key_is_named_with_the_nearest() {
    assert_eq!(third("input_length", "input_len"), "no input_length; is \"input_len\" it?");
    assert_eq!(third("hash_ids", "hashIds"), "no hash_ids; is \"hashIds\" it?");
    assert_eq!(
        third("timestamp", "when"),
        "no timestamp: a row needs timestamp, input_length, output_length, hash_ids"
    );
}

#[test]
fn what_is_not_a_row_is_told() {
    assert_eq!(third("2]}", "2"), "truncated JSON: EOF while parsing a list (column 76)");
    assert_eq!(third("5,", "5"), "not JSON: expected `,` or `}` (column 17)");
    assert_eq!(third("}", "} {}"), "not JSON: trailing characters (column 80)");
    assert_eq!(refused("[1]\n"), "t.jsonl:1: needs a JSON object a line, got a list");
    assert_eq!(refused(""), "t.jsonl:1: no requests: the file is empty");
    assert_eq!(refused("\n \n"), "t.jsonl:2: no requests: only blank lines");
    assert_eq!(
        refused([GOOD.as_bytes(), b"\n{\"\xff\": 1}\n"].concat()),
        "t.jsonl:2: not UTF-8: byte 0xff in column 3"
    );
}

#[test]
fn gzip_damage_is_told() {
    let good = gzip(format!("{GOOD}\n").repeat(3).as_bytes());
    let message = refused(&good[..good.len() - 4]);
    assert!(message.ends_with("the gzip data ends early: the file is truncated"), "{message}");
    let mut bad = good.clone();
    let crc = bad.len() - 8;
    bad[crc] ^= 1;
    let message = refused(&bad);
    assert!(message.starts_with("t.jsonl:4: the gzip data is damaged"), "{message}");
    let message = refused(&good[..1]);
    assert_eq!(
        message,
        "t.jsonl:1: not JSON: expected value (column 1); a trace has one JSON object a line"
    );
    assert!(refused(&good[..2]).contains("the gzip data ends early"));
    assert_eq!(refused(gzip(b"")), "t.jsonl:1: no requests: the file is empty");
    // Two members one after the other are one file, as gzip has it.
    let two = [good.clone(), good].concat();
    assert_eq!(Trace::parse(&two, "t", None).unwrap().requests.len(), 6);
}

/// A row of Qwen-Bailian's form at a time.
fn bailian(at: &str) -> String {
    format!(
        r#"{{"chat_id": 1, "parent_chat_id": -1, "timestamp": {at}, "input_length": 600, "output_length": 35, "type": "text", "turn": 1, "hash_ids": [1, 2]}}"#
    )
}

fn at(times: &[&str], row: impl Fn(&str) -> String, unit: Option<TimeUnit>) -> Trace {
    let text: String = times.iter().map(|at| row(at) + "\n").collect();
    let given = TraceDefaults { time_unit: unit, ..TraceDefaults::default() };
    Trace::parse_as(text.as_bytes(), "t", given).unwrap()
}

// scenario: F24
#[test]
fn the_form_says_the_unit_of_times() {
    let plain = |at: &str| GOOD.replace("p\": 5", &format!("p\": {at}"));
    let (ms, s) = (TimeUnit::Milliseconds, TimeUnit::Seconds);
    let millis =
        |trace: &Trace| -> Vec<i64> { trace.requests.iter().map(|r| r.timestamp_ms).collect() };
    let seconds = at(&["0.007", "0.079", "61.1144", "62"], bailian, None);
    assert_eq!(millis(&seconds), [7, 79, 61_114, 62_000]);
    assert_eq!((seconds.time_unit, seconds.unit_in_doubt), (s, false));
    let whole = at(&["7", "79"], plain, None);
    assert_eq!(millis(&whole), [7, 79]);
    assert_eq!((whole.time_unit, whole.unit_in_doubt), (ms, false));
    // Numbers that do not look like their unit leave doubt, which a unit that is given takes away.
    assert!(at(&["7", "7.5", "8"], plain, None).unit_in_doubt);
    assert!(at(&["7", "8.0"], bailian, None).unit_in_doubt);
    for (row, unit) in [(bailian as fn(&str) -> String, ms), (|at| bailian(at), s)] {
        assert!(!at(&["7", "8.5"], row, Some(unit)).unit_in_doubt);
        assert!(!at(&["7", "8"], row, Some(unit)).unit_in_doubt);
    }
    assert_eq!(millis(&at(&["7", "8.5"], bailian, Some(ms))), [7, 9]);
    assert_eq!(millis(&at(&["7", "8.5"], plain, Some(s))), [7_000, 8_500]);
    // One of its names alone is any other trace's.
    let half = at(&["7"], |at| plain(at).replace('}', ", \"chat_id\": 7, \"turn\": 2}"), None);
    assert_eq!(half.time_unit, ms);
}

// scenario: F24
#[test]
fn rows_of_two_units_are_refused_unless_one_is_given() {
    let mixed = format!("{}\n{}\n", bailian("0.5"), GOOD.replace("p\": 5", "p\": 700"));
    let message = refused(&mixed);
    assert!(message.starts_with("t.jsonl:2: rows with chat_id and parent_chat_id"), "{message}");
    let given = TraceDefaults { time_unit: Some(TimeUnit::Seconds), ..TraceDefaults::default() };
    let trace = Trace::parse_as(mixed.as_bytes(), "t", given).unwrap();
    assert_eq!(trace.requests[1].timestamp_ms, 700_000);
    let back = format!("{}\n{}\n", bailian("0.5"), bailian("0.25"));
    assert_eq!(
        refused(back),
        format!("t.jsonl:2: timestamp 0.25 is before the row above's 0.5: {ORDER}")
    );
    let far = "t.jsonl:1: timestamp: must be a number of seconds that 64 bits hold in milliseconds";
    for late in ["9300000000000000", "9.3e15", "-9.3e15"] {
        assert_eq!(refused(bailian(late)), far);
    }
}

#[test]
fn ids_are_integers_of_64_bits_of_one_sign_convention() {
    let ids = |ids: &str| GOOD.replace("[1, 2]", ids);
    let low = format!("[-1, {}]", i64::MIN);
    let text = [ids(&low), ids("[-1, 5]"), ids("[1, -1]")].join("\n");
    let trace = Trace::parse(text.as_bytes(), "t", None).unwrap();
    assert_eq!(trace.nodes, [0, 1, 0, 2, 3, 4]);
    let mixed = [ids("[-1, 2]"), ids("[18446744073709551615, 2]")].join("\n");
    assert!(refused(mixed).starts_with("t.jsonl:2: hash_ids of this trace are negative"));
}

#[test]
fn an_id_under_two_parents_is_of_a_single_block() {
    let ids = |ids: &str| GOOD.replace("[1, 2]", ids);
    let read = |text: String| Trace::parse(text.as_bytes(), "t", None).unwrap().ids_repeat;
    assert!(read([ids("[1, 16]"), ids("[2, 16]")].join("\n")));
    assert!(!read([ids("[1, 16]"), ids("[1, 16]"), ids("[2, 32]")].join("\n")));
}

#[test]
fn a_chat_is_of_its_parents_session_and_a_type_is_a_class() {
    let chat = |id: i64, parent: i64, kind: &str| {
        bailian("1.5")
            .replace("_id\": -1", &format!("_id\": {parent}"))
            .replace("\"chat_id\": 1,", &format!("\"chat_id\": {id},"))
            .replace("\"text\"", kind)
    };
    let rows = [chat(4, -1, "\"a\""), chat(5, 4, "7"), chat(6, -1, "\"b\""), chat(7, 5, "\"a\"")];
    let trace = Trace::parse(rows.join("\n").as_bytes(), "t", None).unwrap();
    let sessions: Vec<u32> = trace.requests.iter().map(|r| r.session).collect();
    assert_eq!(sessions, [0, 0, 1, 0]);
    assert_eq!((trace.classes, trace.class_of), (vec!["a".into(), "b".into()], vec![1, 0, 2, 1]));
}
