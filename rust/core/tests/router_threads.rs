//! Many threads look into the router's index at once, as `RouterIndex` lets them, between its changes.

use std::thread;

use kvframe_core::router::{Router, Text};

const LOOKERS: u64 = 4;

#[test]
fn threads_that_look_at_once_find_what_is_there() {
    let mut router = Router::new(0, 500);
    for worker in 0..3 {
        assert!(router.add_worker(worker));
    }
    for round in 0..200u64 {
        let chain: Vec<u64> = (0..8).map(|at| 1 + round % 40 * 100 + at).collect();
        for worker in 0..3 {
            router.stored(worker.into(), &chain, None, Text::default(), 0);
        }
        if round % 3 == 0 {
            router.removed((round % 2).into(), &chain[4..], 0);
        }
        let alone = router.match_keys(&chain);
        let shared = &router;
        thread::scope(|threads| {
            let lookers = (0..LOOKERS).map(|_| threads.spawn(|| shared.match_keys(&chain)));
            let lookers: Vec<_> = lookers.collect();
            for looker in lookers {
                let found = looker.join().expect("a looker ends");
                assert_eq!(format!("{found:?}"), format!("{alone:?}"));
            }
        });
        router.check().unwrap();
    }
}
