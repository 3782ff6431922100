//! A tier's pages: what is on its way, what fails, what makes room.

use kvframe_core::policy::{NAMES, PolicyOptions, by_name};
use kvframe_core::tier::{RequestInfo, TierChanges, TierLimits, TierPages};
use kvframe_core::{Error, Key, Limit};

fn pages(name: &str, pages: u32) -> TierPages {
    let limits = TierLimits { pages, in_flight: 1000, backed_first: false };
    TierPages::new(limits, 4, by_name(name, PolicyOptions::default()).unwrap()).unwrap()
}

/// The keys of a prefix of `n` pages in the text `text`.
fn prefix(text: u32, n: u32) -> Vec<Key> {
    (0..n).map(|at| Key((u128::from(text) << 32) + u128::from(at) + 1)).collect()
}

fn put(tier: &mut TierPages, keys: &[Key]) -> Vec<Key> {
    let stored = tier.store(keys, 1, RequestInfo::default()).unwrap();
    if stored.ticket > 0 {
        tier.end(stored.ticket, stored.pages.len() as u32, false).unwrap();
    }
    stored.evicted.into_iter().map(|(key, _)| key).collect()
}

// scenario: T25, V26
#[test]
fn a_page_on_its_way_is_nobodys() {
    let mut tier = pages("lru", 4);
    let keys = prefix(1, 4);
    let stored = tier.store(&keys, 1, RequestInfo::default()).unwrap();
    assert_eq!((tier.find(&keys), tier.present(&keys), tier.moving()), (0, 4, 4));
    assert!(matches!(
        tier.load(&keys[..1], 0, 1, Some(RequestInfo::default())),
        Err(Error::Invalid { .. })
    ));
    let again = tier.store(&keys, 1, RequestInfo::default()).unwrap();
    assert_eq!((again.ticket, again.present), (0, 4));
    let refused = tier.store(&prefix(2, 1), 1, RequestInfo::default());
    assert_eq!(
        refused,
        Err(Error::NoCapacity { needed: 1, available: 0, total: 4, limit: Limit::Pool, coming: 0 })
    );
    tier.check_integrity().unwrap();
    assert_eq!(tier.end(stored.ticket, 4, false).unwrap().good, 4);
    assert_eq!(tier.find(&keys), 4);
    assert_eq!(put(&mut tier, &prefix(2, 1)), [keys[3]]);
    tier.check_integrity().unwrap();
}

#[test]
fn as_much_of_a_prefix_comes_in_as_there_is_room_for() {
    let limits = TierLimits { pages: 4, in_flight: 3, backed_first: false };
    let lru = || by_name("lru", PolicyOptions::default()).unwrap();
    let mut tier = TierPages::new(limits, 4, lru()).unwrap();
    let (keys, known) = (prefix(1, 6), RequestInfo::default());
    let (stored, taken) = tier.store_some(&keys, 1, known).unwrap().unwrap();
    assert_eq!((taken, stored.present, stored.pages.len()), (4, 0, 4));
    // Neither a page nor a transfer more.
    assert_eq!(tier.store_some(&prefix(2, 1), 1, known), Ok(None));
    tier.end(stored.ticket, 4, false).unwrap();
    // Its own beginning makes no room.
    assert_eq!(tier.store_some(&keys, 1, known), Ok(None));
    let (stored, taken) = tier.store_some(&prefix(2, 9), 1, known).unwrap().unwrap();
    assert_eq!((taken, stored.evicted.len()), (4, 4));
    tier.check_integrity().unwrap();
    assert_eq!([0.0, 0.1, 0.95, 1.0].map(|share| limits.mark(share)), [1, 1, 4, 4]);
}

// scenario: VT63, T1, T8
#[test]
fn what_failed_leaves_nothing_behind_and_takes_what_follows_along() {
    for name in NAMES {
        let mut tier = pages(name, 16);
        let keys = prefix(1, 6);
        let first = tier.store(&keys[..3], 1, RequestInfo::default()).unwrap();
        let second = tier.store(&keys, 1, RequestInfo::default()).unwrap();
        assert_eq!(second.present, 3, "{name}");
        let ended = tier.end(first.ticket, 1, false).unwrap();
        let gone: Vec<Key> = ended.forgotten.iter().map(|&(key, _)| key).collect();
        assert_eq!(gone, [keys[5], keys[4], keys[3], keys[2], keys[1]], "{name}");
        tier.check_integrity().unwrap();
        // The second transfer still owns its prefix, and its places are being written.
        assert_eq!(tier.counts().0, 16 - 6, "{name}");
        assert_eq!(tier.end(second.ticket, 3, false).unwrap().good, 0, "{name}");
        assert_eq!((tier.find(&keys), tier.counts()), (1, (15, 1, 0)), "{name}");
        tier.check_integrity().unwrap();
    }
}

// scenario: T23
#[test]
fn parts_live_and_die_together() {
    let mut tier = pages("lru", 4);
    let keys = prefix(1, 3);
    let stored = tier.store(&keys, 2, RequestInfo::default()).unwrap();
    assert!(!tier.end(stored.ticket, 2, false).unwrap().whole);
    assert_eq!(tier.find(&keys), 0);
    let ended = tier.end(stored.ticket, 3, false).unwrap();
    assert_eq!((ended.whole, ended.good, tier.find(&keys)), (true, 2, 2));
    let opened = tier.load(&keys[..2], 0, 2, Some(RequestInfo::default())).unwrap();
    tier.end(opened.ticket, 2, false).unwrap();
    tier.end(opened.ticket, 1, false).unwrap();
    assert_eq!((tier.find(&keys), tier.stats().failed_loads), (1, 1));
    assert!(tier.end(opened.ticket, 1, false).is_err());
    tier.check_integrity().unwrap();
}

// scenario: VT61
#[test]
fn an_eviction_that_cannot_suffice_changes_nothing() {
    for name in NAMES {
        let mut tier = pages(name, 8);
        put(&mut tier, &prefix(1, 5));
        let mine = prefix(2, 3);
        let on_its_way = tier.store(&mine, 1, RequestInfo::default()).unwrap();
        let before = (tier.counts(), tier.find(&prefix(1, 5)));
        let long: Vec<Key> = [mine, prefix(3, 6)].concat();
        let refused = tier.store(&long, 1, RequestInfo::default());
        assert_eq!(
            refused,
            Err(Error::NoCapacity {
                needed: 6,
                available: 5,
                total: 8,
                limit: Limit::Pool,
                coming: 0
            }),
            "{name}"
        );
        assert_eq!((tier.counts(), tier.find(&prefix(1, 5))), before, "{name}");
        tier.end(on_its_way.ticket, 3, false).unwrap();
        tier.check_integrity().unwrap();
    }
}

// scenario: VT65
#[test]
fn recency_is_that_of_requests_not_of_finished_transfers() {
    let mut tier = pages("lru", 3);
    let open = |tier: &mut TierPages, text| {
        tier.store(&prefix(text, 1), 1, RequestInfo::default()).unwrap().ticket
    };
    let tickets: Vec<u64> = (1..=3).map(|text| open(&mut tier, text)).collect();
    for &ticket in tickets.iter().rev() {
        tier.end(ticket, 1, false).unwrap();
        tier.check_integrity().unwrap();
    }
    assert_eq!(put(&mut tier, &prefix(4, 2)), [prefix(1, 1)[0], prefix(2, 1)[0]]);
}

#[test]
fn a_transfer_that_was_given_up_holds_no_other_up() {
    let mut tier = pages("lru", 3);
    let stuck = tier.store(&prefix(1, 2), 1, RequestInfo::default()).unwrap();
    put(&mut tier, &prefix(2, 1));
    tier.set_deadline(stuck.ticket, 10).unwrap();
    assert!(tier.expire_until(9).unwrap().0.is_empty());
    assert_eq!(tier.counts(), (0, 0, 3));
    assert_eq!(tier.expire_until(10).unwrap().0, [stuck.ticket]);
    assert_eq!((tier.counts(), tier.find(&prefix(1, 2))), ((0, 1, 2), 0));
    assert!(tier.cancel(stuck.ticket).is_err());
    tier.end(stuck.ticket, 2, false).unwrap();
    assert_eq!(tier.counts(), (2, 1, 0));
    assert_eq!((tier.stats().late, tier.stats().stored), (1, 1));
    tier.check_integrity().unwrap();
}

// scenario: T5, T8
#[test]
fn what_has_ended_is_neither_late_nor_given_up_nor_ended_again_while_it_waits_for_another() {
    let mut tier = pages("lru", 4);
    let (slow, fast) = (prefix(1, 1), prefix(2, 1));
    let first = tier.store(&slow, 1, RequestInfo::default()).unwrap().ticket;
    let second = tier.store(&fast, 1, RequestInfo::default()).unwrap().ticket;
    for ticket in [first, second] {
        tier.set_deadline(ticket, 10).unwrap();
    }
    assert_eq!(tier.end(second, 1, false).unwrap().good, 1);
    let unknown = Error::UnknownTicket(second);
    assert_eq!(tier.cancel(second), Err(unknown.clone()));
    assert_eq!(tier.end(second, 1, false), Err(unknown.clone()));
    assert_eq!(tier.set_deadline(second, 20), Err(unknown));
    let (late, gone) = tier.expire_until(10).unwrap();
    assert_eq!((late, gone.len(), tier.stats().late), (vec![first], 1, 1));
    assert_eq!((tier.find(&fast), tier.find(&slow)), (1, 0));
    tier.end(first, 1, false).unwrap();
    assert_eq!(tier.find(&fast), 1);
    tier.check_integrity().unwrap();
}

// scenario: U-10
#[test]
fn backed_pages_die_first_where_asked() {
    for (backed_first, dies) in [(false, 1), (true, 2)] {
        let limits = TierLimits { pages: 3, in_flight: 10, backed_first };
        let lru = by_name("lru", PolicyOptions::default()).unwrap();
        let mut tier = TierPages::new(limits, 4, lru).unwrap();
        (1..=3).for_each(|text| drop(put(&mut tier, &prefix(text, 1))));
        tier.set_backed(&prefix(2, 1), true);
        assert_eq!(put(&mut tier, &prefix(4, 1)), prefix(dies, 1));
        tier.check_integrity().unwrap();
    }
}

#[test]
fn too_much_on_its_way_is_refused_and_one_large_transfer_goes_alone() {
    let limits = TierLimits { pages: 20, in_flight: 4, backed_first: false };
    let mut tier =
        TierPages::new(limits, 4, by_name("lru", PolicyOptions::default()).unwrap()).unwrap();
    let large = tier.store(&prefix(1, 9), 1, RequestInfo::default()).unwrap();
    let busy = |moving| Err(Error::Busy { moving, limit: 4 });
    assert_eq!(tier.store(&prefix(2, 1), 1, RequestInfo::default()), busy(9));
    tier.end(large.ticket, 9, false).unwrap();
    let most = tier.store(&prefix(2, 3), 1, RequestInfo::default()).unwrap();
    assert_eq!(tier.store(&prefix(3, 2), 1, RequestInfo::default()), busy(3));
    assert_eq!(put(&mut tier, &prefix(3, 1)), [], "there is room for one");
    tier.end(most.ticket, 0, false).unwrap();
    assert_eq!((tier.moving(), tier.stats().refused), (0, 2));
}

// scenario: T1
#[test]
fn what_a_load_lost_is_no_hit() {
    let mut tier = pages("lru", 4);
    let keys = prefix(1, 3);
    put(&mut tier, &keys);
    let opened = tier.load(&keys, 0, 1, Some(RequestInfo::default())).unwrap();
    tier.end(opened.ticket, 1, false).unwrap();
    assert_eq!((tier.stats().loaded, tier.stats().failed_loads), (1, 2));
    assert_eq!(tier.present(&keys), 1, "what was gone is not promised again");
    tier.check_integrity().unwrap();
}

// scenario: T8
#[test]
fn a_later_part_that_comes_first_is_found_behind_the_front_alone() {
    let mut tier = pages("lru", 4);
    let keys = prefix(1, 4);
    let front = tier.store(&keys[..2], 1, RequestInfo::default()).unwrap();
    let rest = tier.store(&keys, 1, RequestInfo::default()).unwrap();
    tier.end(rest.ticket, 2, false).unwrap();
    assert_eq!((tier.find(&keys), tier.present(&keys)), (0, 4));
    tier.end(front.ticket, 2, false).unwrap();
    assert_eq!(tier.find(&keys), 4);
    tier.check_integrity().unwrap();
}

// scenario: T8, T19
#[test]
fn a_page_from_before_comes_in_behind_its_parent_alone() {
    let mut tier = pages("lru", 4);
    let keys = prefix(1, 2);
    assert_eq!(tier.adopt(keys[1], Some(keys[0])).unwrap(), None);
    assert_eq!(tier.counts(), (4, 0, 0));
    assert!(tier.adopt(keys[0], None).unwrap().is_some());
    assert!(tier.adopt(keys[1], Some(keys[0])).unwrap().is_some());
    assert_eq!(tier.find(&keys), 2);
    tier.check_integrity().unwrap();
}

// scenario: V29, T31
#[test]
fn a_tier_that_is_cleared_forgets_what_is_on_its_way_too() {
    let mut tier = pages("lru", 16);
    put(&mut tier, &prefix(1, 3));
    let reading = tier.load(&prefix(1, 3), 0, 1, None).unwrap();
    let coming = tier.store(&prefix(2, 2), 1, RequestInfo::default()).unwrap();
    let keys: Vec<Key> = tier.clear().into_iter().map(|(key, _)| key).collect();
    let (one, two) = (prefix(1, 3), prefix(2, 2));
    assert_eq!(keys, [one[2], one[1], two[1], one[0], two[0]]);
    assert_eq!((tier.present(&one), tier.present(&two), tier.counts()), (0, 0, (11, 0, 5)));
    tier.check_integrity().unwrap();
    assert_eq!(tier.end(coming.ticket, 2, false).unwrap().good, 0);
    assert_eq!(tier.end(reading.ticket, 3, false).unwrap().forgotten, []);
    assert_eq!((tier.find(&two), tier.counts()), (0, (16, 0, 0)));
    tier.check_integrity().unwrap();
}

// scenario: U-10, T31
#[test]
fn that_a_page_is_backed_ends_with_it() {
    let limits = TierLimits { pages: 2, in_flight: 10, backed_first: true };
    let lru = by_name("lru", PolicyOptions::default()).unwrap();
    let mut tier = TierPages::new(limits, 4, lru).unwrap();
    (1..=2).for_each(|text| drop(put(&mut tier, &prefix(text, 1))));
    tier.set_backed(&prefix(1, 1), true);
    assert_eq!(put(&mut tier, &prefix(3, 1)), prefix(1, 1));
    assert_eq!(put(&mut tier, &prefix(4, 1)), prefix(2, 1), "the newer is not backed yet");
    tier.check_integrity().unwrap();
}

#[test]
fn lent_pages_are_no_ones_to_evict_and_come_back_once() {
    let mut tier = pages("lru", 4);
    put(&mut tier, &prefix(1, 3));
    let (lent, evicted) = tier.take(3).unwrap();
    assert_eq!((lent.len(), evicted.len()), (3, 2));
    assert!(tier.take(2).is_err());
    assert!(tier.free(&[lent[0], lent[0]]).is_err());
    tier.free(&lent).unwrap();
    assert!(tier.free(&lent).is_err());
    assert_eq!(tier.counts(), (3, 1, 0));
    tier.check_integrity().unwrap();
}

/// A small generator of its own: the same numbers everywhere.
struct Dice(u64);

impl Dice {
    fn upto(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        ((self.0 >> 33) % u64::from(end)) as u32
    }
}

// scenario: T5, T8, T12
#[test]
fn random_transfers_keep_the_state_under_every_policy() {
    for (seed, name) in (1..).zip(NAMES) {
        let mut dice = Dice(seed);
        let limits = TierLimits { pages: 24, in_flight: 16, backed_first: seed % 3 == 0 };
        let mut tier =
            TierPages::new(limits, 4, by_name(name, PolicyOptions::default()).unwrap()).unwrap();
        let mut open: Vec<(u64, u32)> = Vec::new();
        for step in 0..600 {
            let keys = prefix(dice.upto(6), 1 + dice.upto(9));
            let parts = 1 + dice.upto(2);
            match dice.upto(9) {
                0..=2 => {
                    if let Ok(stored) = tier.store(&keys, parts, RequestInfo::default())
                        && stored.ticket > 0
                    {
                        let n = stored.pages.len() as u32;
                        (0..parts).for_each(|_| open.push((stored.ticket, n)));
                    }
                }
                3 => {
                    let found = tier.find(&keys);
                    let from = dice.upto(found + 1);
                    let keys = &keys[..found as usize];
                    if let Ok(opened) = tier.load(keys, from, parts, Some(RequestInfo::default())) {
                        (0..parts).for_each(|_| open.push((opened.ticket, found - from)));
                    }
                }
                4..=5 if !open.is_empty() => {
                    let (ticket, n) = open.swap_remove(dice.upto(open.len() as u32) as usize);
                    let good = if dice.upto(3) == 0 { dice.upto(n + 1) } else { n };
                    tier.end(ticket, good, dice.upto(2) == 0).unwrap();
                }
                6 if !open.is_empty() => {
                    let _ = tier.cancel(open[dice.upto(open.len() as u32) as usize].0);
                }
                7 => drop(tier.forget(keys[0])),
                _ => {
                    tier.set_backed(&keys, dice.upto(2) == 0);
                    tier.evict_until(dice.upto(6)).unwrap();
                }
            }
            tier.check_integrity().unwrap_or_else(|e| panic!("{name}, step {step}: {e}"));
        }
        for (ticket, n) in open {
            tier.end(ticket, n, false).unwrap();
        }
        tier.check_integrity().unwrap();
        assert_eq!(tier.counts().2, 0, "{name}");
    }
}

#[test]
fn a_mirror_is_told_of_pages_after_their_parents_and_of_what_it_was_told_alone() {
    let mut tier = pages("lru", 6);
    let (keys, other, known) = (prefix(1, 4), prefix(2, 3), RequestInfo::default());
    put(&mut tier, &keys[..1]);
    assert_eq!(tier.take_changes(), TierChanges::default());
    tier.watch();
    assert_eq!(tier.take_changes().came, [(keys[0], None)]);
    // The later part arrives first, and waits for the earlier one.
    let first = tier.store(&keys[..2], 1, known).unwrap();
    let second = tier.store(&keys, 1, known).unwrap();
    tier.end(second.ticket, 2, false).unwrap();
    assert_eq!(tier.take_changes(), TierChanges::default());
    tier.end(first.ticket, 1, false).unwrap();
    let came = tier.take_changes().came;
    assert_eq!(came, [1, 2, 3].map(|at: usize| (keys[at], Some(keys[at - 1]))));
    // What came and went in between is not told at all; what was told goes from its end.
    put(&mut tier, &other[..2]);
    let gone = tier.forget(other[0]);
    assert_eq!((gone.len(), tier.take_changes()), (2, TierChanges::default()));
    put(&mut tier, &other);
    let told = tier.take_changes();
    assert_eq!((told.gone, told.came.len()), (vec![keys[3]], 3));
    tier.clear();
    assert_eq!(tier.take_changes().gone.len(), 6);
    put(&mut tier, &other);
    tier.take_changes();
    tier.watch();
    let anew = tier.take_changes();
    assert_eq!((anew.gone.len(), anew.came.len()), (0, 3));
}
