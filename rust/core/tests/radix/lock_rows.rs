//! Path locks and receipts.

use kvframe_core::Error;
use kvframe_core::locks::Receipt;

use crate::harness::{Harness, path};

fn eight() -> Harness {
    let mut h = Harness::new(16, 2);
    h.store(path(&[1, 2, 3, 4, 5, 6, 7, 8]), true);
    h
}

// scenario: S9, ST10
#[test]
fn a_lock_keeps_its_own_block_and_those_before_it() {
    let mut h = eight();
    let locked = h.find(path(&[1, 2, 3, 4]));
    let receipt = h.lock(locked[1]).unwrap();
    assert_eq!(h.sizes(), (2, 2, 4));
    assert_eq!(h.evict_all(), 2);
    assert_eq!(h.find(path(&[1, 2, 3, 4, 5, 6])), locked);
    h.unlock(receipt).unwrap();
    assert_eq!(h.sizes(), (2, 0, 2));
    assert_eq!(h.evict_all(), 2);
    h.check();
}

// scenario: S9, S10, S12
#[test]
fn a_receipt_opens_its_lock_once() {
    let mut h = eight();
    let blocks = h.find(path(&[1, 2, 3, 4, 5, 6, 7, 8]));
    let (first, second) = (h.lock(blocks[3]).unwrap(), h.lock(blocks[1]).unwrap());
    h.unlock(first).unwrap();
    assert_eq!(h.sizes(), (2, 2, 4));
    let replays = [
        first,
        Receipt { block: blocks[3], ..second },
        Receipt { id: first.id, block: blocks[1] },
        Receipt { id: 0, block: blocks[1] },
        Receipt { id: 7, block: blocks[1] },
    ];
    for replay in replays {
        let refused = h.unlock(replay).unwrap_err();
        assert!(matches!(refused, Error::UnknownReceipt { .. }), "{refused}");
        assert_eq!(h.sizes(), (2, 2, 4), "nothing changed");
    }
    h.unlock(second).unwrap();
    assert_eq!(h.sizes(), (4, 0, 4));
}

// scenario: S12
#[test]
fn what_is_gone_cannot_be_locked() {
    let mut h = eight();
    let blocks = h.find(path(&[1, 2, 3, 4, 5, 6, 7, 8]));
    h.evict(blocks[3]);
    let refused = h.lock(blocks[3]).unwrap_err();
    assert_eq!(refused.to_string(), "block 3 cannot be locked: it is free, not findable");
    assert_eq!((h.locks.len(), h.sizes()), (0, (3, 0, 3)));
    h.store(path(&[1, 2, 3, 4, 5, 6, 7, 8]), true);
    let again = h.find(path(&[1, 2, 3, 4, 5, 6, 7, 8]));
    let receipt = h.lock(again[3]).unwrap();
    h.unlock(receipt).unwrap();
    assert_eq!(h.sizes(), (4, 0, 4), "only what was taken is released");
}

// scenario: S11
#[test]
fn a_lock_inside_a_node_survives_a_split_of_it() {
    let mut h = eight();
    let locked = h.find(path(&[1, 2, 3, 4, 5]));
    let receipt = h.lock(locked[1]).unwrap();
    h.store(path(&[1, 2, 9, 9, 9, 9]), true);
    h.check();
    h.unlock(receipt).unwrap();
    assert_eq!(h.sizes(), (6, 0, 6), "all of it can go again");
    assert_eq!(h.evict_all(), 6);
}
