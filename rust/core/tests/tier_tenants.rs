//! Floors and quotas in a tier: random stores, loads, loans and failures of several tenants.

use kvframe_core::policy::{NAMES, PolicyOptions, by_name};
use kvframe_core::tenants::{Amount, PerTenant, Tenant};
use kvframe_core::tier::{RequestInfo, TierLimits, TierPages};
use kvframe_core::{Error, Key};

const PAGES: u32 = 32;
const FLOOR: u32 = 8;

/// `SplitMix64`, so that a seed says it all.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// Number 1 may have anything above the floor of number 2, which has that and no more.
fn tier(policy: &str, backed_first: bool) -> TierPages {
    let of = |name: &str, floor, quota: Option<u32>| Tenant {
        name: name.into(),
        floor: Amount::Blocks(floor),
        quota: quota.map(Amount::Blocks),
        is_public: false,
    };
    let tenants = [of("a", 0, None), of("b", FLOOR, Some(FLOOR))];
    let limits = TierLimits { pages: PAGES, in_flight: 1000, backed_first };
    let make = || by_name(policy, PolicyOptions::default()).unwrap();
    let policies = PerTenant::new(vec![make(), make(), make()]);
    TierPages::with_tenants(limits, 4, Box::new(policies), &tenants).unwrap()
}

fn prefix(tenant: u8, text: u64, n: u64) -> Vec<Key> {
    let base = (u128::from(tenant) << 96) + (u128::from(text) << 32);
    (0..n).map(|at| Key(base + u128::from(at) + 1)).collect()
}

/// A request of `tenant`: what it finds, and the rest stored.
fn serve(tier: &mut TierPages, dice: &mut Dice, tenant: u8, open: &mut Vec<(u64, u32)>) -> u32 {
    let keys = prefix(tenant, dice.below(7), 1 + dice.below(7));
    let known = RequestInfo::default();
    let found = tier.find(&keys);
    if found > 0 {
        let load = tier.load(&keys[..found as usize], 0, 1, Some(known)).unwrap();
        tier.end(load.ticket, found, false).unwrap();
    }
    tier.serve(tenant);
    match tier.store_some(&keys, 1, known).unwrap() {
        Some((stored, _)) if stored.ticket > 0 => {
            let moving = stored.pages.len() as u32;
            if tenant == 2 || dice.below(3) > 0 {
                tier.end(stored.ticket, moving, false).unwrap();
            } else {
                open.push((stored.ticket, moving)); // a slow mover: these pages stay owned
            }
        }
        _ => {}
    }
    if dice.below(4) == 0 {
        tier.set_backed(&keys, true);
    }
    found
}

/// What number 2 finds in so many requests, beside others if they have a seed.
fn found(policy: &str, backed_first: bool, requests: usize, seed: Option<u64>) -> Vec<u32> {
    let mut tier = tier(policy, backed_first);
    let (mut own, mut noise) = (Dice(1), Dice(seed.unwrap_or_default()));
    let (mut open, mut lent, mut told) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..requests {
        told.push(serve(&mut tier, &mut own, 2, &mut Vec::new()));
        for _ in 0..seed.map_or(0, |_| noise.below(5)) {
            let other = noise.below(2) as u8;
            serve(&mut tier, &mut noise, other, &mut open);
            tier.serve(other);
            match noise.below(6) {
                0 => lent.extend(tier.take(1 + noise.below(3) as u32).map_or(Vec::new(), |t| t.0)),
                1 => tier.free(&std::mem::take(&mut lent)).unwrap(),
                2 => drop(tier.evict_until(noise.below(PAGES.into()) as u32).unwrap()),
                3 => drop(tier.evict_backed(&prefix(other, noise.below(7), 7), 3)),
                _ => {}
            }
            if open.len() > 3 {
                let (ticket, moving) = open.remove(noise.below(4) as usize);
                tier.end(ticket, noise.below(u64::from(moving) + 1) as u32, false).unwrap();
            }
        }
        tier.check_integrity().unwrap();
        let [_, _, b] = tier.accounts() else { panic!("three accounts") };
        assert!(b.used <= FLOOR, "{policy}: {} pages", b.used);
        assert_eq!(b.counts.evicted_for_others, 0, "{policy}");
    }
    told
}

#[test]
fn what_a_tenant_finds_does_not_depend_on_others_under_any_policy() {
    for policy in NAMES.iter().filter(|&&name| name != "belady") {
        for backed_first in [false, true] {
            let alone = found(policy, backed_first, 300, None);
            assert!(alone.iter().any(|&n| n > 1), "{policy} finds something");
            for seed in [3, 4] {
                let beside = found(policy, backed_first, 300, Some(seed));
                assert_eq!(beside, alone, "{policy}, backed first: {backed_first}, seed {seed}");
            }
        }
    }
}

#[test]
fn nobody_owns_so_much_that_a_floor_cannot_be_had() {
    let mut tier = tier("lru", false);
    let known = RequestInfo::default();
    tier.serve(1);
    let (stored, taken) = tier.store_some(&prefix(1, 0, 40), 1, known).unwrap().unwrap();
    assert_eq!((stored.pages.len(), taken), (24, 24));
    assert_eq!(tier.store_some(&prefix(1, 1, 1), 1, known).unwrap(), None);
    assert!(matches!(tier.take(1), Err(Error::NoCapacity { available: 0, .. })));
    tier.serve(2);
    let (its, _) = tier.store_some(&prefix(2, 0, 9), 1, known).unwrap().unwrap();
    assert_eq!((its.pages.len(), its.evicted.len()), (8, 0));
    tier.end(its.ticket, 8, false).unwrap();
    // At its quota it makes room for itself, although others would have more to lose.
    tier.end(stored.ticket, 24, false).unwrap();
    let again = tier.store(&prefix(2, 1, 2), 1, known).unwrap();
    assert!(again.evicted.iter().all(|(key, _)| prefix(2, 0, 9).contains(key)));
    assert_eq!(again.evicted.len(), 2);
    assert_eq!(tier.room(2), (0, FLOOR));
    // Ahead of need only what is above floors goes.
    tier.evict_until(PAGES).unwrap();
    let used: Vec<u32> = tier.accounts().iter().map(|account| account.used).collect();
    assert_eq!(used, [0, 0, 8]);
    tier.check_integrity().unwrap();
}
