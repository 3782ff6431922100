use crate::{NO_SESSION, Trace, TraceError};

const ROWS: &[u8] = br#"{"timestamp": -7, "input_length": 5, "output_length": 1, "hash_ids": [1, 2, 3], "session_id": "b", "block_size": 2}
{"timestamp": 0.6, "input_length": 3, "output_length": 0, "hash_ids": [1]}
{"timestamp": 1, "input_length": 6, "output_length": 1, "hash_ids": [1, 2, 4], "session_id": 9}
{"timestamp": 1, "input_length": 6, "output_length": 1, "hash_ids": [1, 2, 3], "session_id": "b"}
{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": []}
{"timestamp": 9, "input_length": 4, "output_length": 1, "hash_ids": [4, 2]}
"#;

const HEADER: &str =
    r#"#kvframe-trace 1 {"name":"n","block_size":2,"requests":2,"source":"s","licence":"l"}"#;

fn refused(rows: &str) -> String {
    let error: TraceError = Trace::parse(rows.as_bytes(), "t.kvt", None).unwrap_err();
    error.to_string()
}

#[test]
fn round_trip_keeps_the_forest() {
    let mut trace = Trace::parse(ROWS, "t", None).unwrap();
    trace.source = "a \"quoted\"\nsource".to_owned();
    trace.licence = "Apache-2.0".to_owned();
    let bytes = trace.encode_compact().unwrap();
    assert_eq!(bytes, trace.encode_compact().unwrap());
    let again = Trace::parse(&bytes, "other", Some(512)).unwrap();
    assert_eq!(again.requests, trace.requests);
    assert_eq!(again.nodes, trace.nodes);
    assert_eq!(again.parents, trace.parents);
    assert_eq!(
        (again.name, again.source, again.licence, again.block_size),
        (trace.name, trace.source, trace.licence, 2)
    );
    let sessions: Vec<u32> = again.requests.iter().map(|r| r.session).collect();
    assert_eq!(sessions, [0, NO_SESSION, 1, 0, NO_SESSION, NO_SESSION]);
}

#[test]
fn times_may_be_as_far_apart_as_64_bits_allow() {
    let row = |time| {
        format!("{{\"timestamp\":{time},\"input_length\":0,\"output_length\":0,\"hash_ids\":[]}}\n")
    };
    let rows = [i64::MIN, i64::MAX, i64::MAX].map(row).concat();
    let trace = Trace::parse(rows.as_bytes(), "t", None).unwrap();
    let again = Trace::parse(&trace.encode_compact().unwrap(), "t", None).unwrap();
    assert_eq!(again.requests, trace.requests);
}

#[test]
fn plain_text_is_read_too() {
    let trace =
        Trace::parse(format!("{HEADER}\n,0,4,1,,0,2\n,3,5,1,0,1,1\n").as_bytes(), "t", None)
            .unwrap();
    assert_eq!(trace.nodes, [0, 1, 0, 2]);
    assert_eq!(trace.requests[1].timestamp_ms, 3);
}

#[test]
fn written_whole_or_not_at_all() {
    let folder = std::env::temp_dir().join(format!("kvframe-compact-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let trace = Trace::parse(ROWS, "t", None).unwrap();
    let path = folder.join("t.kvt.gz");
    let size = trace.write_compact(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), size);
    assert_eq!(Trace::load(&path, None).unwrap().nodes, trace.nodes);
    let error = trace.write_compact(folder.join("missing/t.kvt.gz")).unwrap_err();
    assert!(error.to_string().contains("missing/t.kvt.gz: cannot be written"), "{error}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn damage_is_told_with_its_line() {
    let row = ",0,4,1,,0,2";
    let cases = [
        (",0,4,1,,0", "t.kvt:3: 6 columns: a row has 7"),
        (",x,4,1,,0,2", "t.kvt:3: timestamp_ms = \"x\": must be an integer that its column holds"),
        (",0,-4,1,,0,2", "t.kvt:3: input = \"-4\": must be an integer that its column holds"),
        (",0,4,1,,,2", "t.kvt:3: shared_blocks = \"\": must be an integer that its column holds"),
        (
            ",-1,4,1,,0,2",
            "t.kvt:3: timestamp -1 is before the row above's 0: rows must be in order of time (--sort puts them so)",
        ),
        (",0,4,1,1,1,1", "t.kvt:3: parent_row = 1: only 1 rows are above"),
        (",0,6,1,0,3,0", "t.kvt:3: shared_blocks = 3: the parent row has 2"),
        (",0,4,1,,1,1", "t.kvt:3: shared_blocks = 1: the parent row has 0"),
        (
            ",0,5,1,0,1,3",
            "t.kvt:3: the row has 4 blocks, but input_length 5 at block size 2 needs 2 (floor) or 3 (ceil)",
        ),
        ("1,0,4,1,,0,2", "t.kvt:3: session = 1: the next new session is 0"),
    ];
    for (bad, message) in cases {
        assert_eq!(refused(&format!("{HEADER}\n{row}\n{bad}\n")), message);
    }
    let huge = format!(",{},4,1,,0,2", i64::MAX);
    assert_eq!(
        refused(&format!("{HEADER}\n,1,4,1,,0,2\n{huge}\n")),
        format!("t.kvt:3: timestamp_ms = {0}: 1 + {0} does not fit 64 bits", i64::MAX)
    );
    assert_eq!(
        refused(&format!("{HEADER}\n{row}\n")),
        "t.kvt:2: the file ends with 1 requests, but its header says 2"
    );
}

#[test]
fn a_damaged_header_is_told() {
    assert_eq!(
        refused("#kvframe-trace 2 {}\n"),
        "t.kvt:1: compact trace of version \"2\": this kvframe reads version 1"
    );
    assert_eq!(
        refused("#kvframe-trace 1 {\"name\":\"n\"}\n"),
        "t.kvt:1: damaged header: missing field `block_size`"
    );
    assert_eq!(
        refused(&HEADER.replace("\"block_size\":2", "\"block_size\":0")),
        "t.kvt:1: block_size = 0: must be between 1 and 65536"
    );
    assert_eq!(
        refused(&HEADER.replace("\"requests\":2", "\"requests\":0")),
        "t.kvt:1: no requests: only a header"
    );
}

#[test]
fn no_single_changed_byte_makes_it_panic() {
    let compact = format!("{HEADER}\n0,0,4,1,,0,2\n0,3,5,1,0,1,1\n").into_bytes();
    for text in [ROWS, &compact, &Trace::parse(ROWS, "t", None).unwrap().encode_compact().unwrap()]
    {
        for at in 0..text.len() {
            for byte in [b'0', b'9', b',', b'-', b'"', b'\n', b'}', 0xff] {
                let mut changed = text.to_vec();
                changed[at] = byte;
                if let Err(error) = Trace::parse(&changed, "t", None) {
                    assert!(error.line.is_some() && !error.to_string().contains('\n'), "{error}");
                }
            }
        }
    }
}
