//! What one tenant finds in the cache does not depend on what another one does.
//!
//! `TENANT_REQUESTS=1000000 cargo test --release -p kvframe-core --test tenants -- --nocapture whatever` does as
//! many requests of others, under every policy, and prints what it counted.

mod common;

use kvframe_core::manager::{AllocStatus, PreemptionOrder};
use kvframe_core::policy::{self, Eviction, PolicyOptions, admission};
use kvframe_core::tenants::{Amount, PerTenant, PerTenantAdmission, Tenant};
use kvframe_core::{Group, GroupKind, Manager, Options, Request};

use common::Dice;
use common::tenants::{A, B, Engine, disturb, options, outside, tenant};

/// Policies that go by the clock, with so few ticks that those of others would change an order.
const BY_THE_CLOCK: [(&str, &str, (&str, u32)); 3] = [
    ("ttl of 60 ticks", "ttl", ("session_ticks", 60)),
    ("lfu-aged in 16 ticks", "lfu-aged", ("half_life_ticks", 16)),
    ("wlfu by 8 ticks", "wlfu", ("bonus_ticks", 8)),
];

fn policies(name: &str, n: usize) -> Box<dyn Eviction> {
    let by_the_clock = BY_THE_CLOCK.iter().find(|(label, ..)| *label == name);
    let one = |_| match (name, by_the_clock) {
        ("external", _) => outside(),
        (_, Some(&(_, name, option))) => policy::by_name(name, PolicyOptions(&[option])).unwrap(),
        _ => policy::by_name(name, PolicyOptions::default()).unwrap(),
    };
    Box::new(PerTenant::new((0..n).map(one).collect()))
}

fn manager(options: &Options, name: &str) -> Manager {
    Manager::new(options.clone(), policies(name, options.tenants.len() + 1)).unwrap()
}

/// What `b` finds while others do up to `noise` things between two of its calls, none at all for 0.
fn found_by_b(options: &Options, name: &str, gate: Option<&str>, noise: u64) -> Vec<(u32, u32)> {
    served(options, name, gate, (noise, 0)).0
}

/// The same, until others have had so many requests, and the manager.
fn served(
    options: &Options,
    name: &str,
    gate: Option<&str>,
    (noise, requests): (u64, u64),
) -> (Vec<(u32, u32)>, Manager) {
    let mut m = manager(options, name);
    if let Some(gate) = gate {
        let one = |_| admission::by_name(gate, PolicyOptions::default()).unwrap().unwrap();
        let gates = (0..=options.tenants.len()).map(one).collect();
        m = m.with_admission(Some(Box::new(PerTenantAdmission::new(gates))));
    }
    let mut b = Engine::new(B, SEED_OF_B, 3, 24);
    let mut a = Engine::new(A, 0xC2B2_AE3D_27D4_EB4F + noise, 40, 60);
    let mut other = Engine::new(b"", 0xD6E8_FEB8_6659_FD93, 3, 60);
    let (mut dice, mut loans) = (Dice(77 + noise), Vec::new());
    let had = |m: &Manager| m.accounts()[..2].iter().map(|a| a.counts.requests).sum::<u64>();
    let mut i = 0;
    while i < 900 || had(&m) < requests {
        b.step(&mut m);
        for _ in 0..if noise == 0 { 0 } else { dice.below(noise) } {
            a.step(&mut m);
            other.step(&mut m);
            disturb(&mut m, &mut dice, &mut loans);
        }
        i += 1;
        if i % 100 == 0 && requests == 0 {
            m.check_integrity().unwrap();
        }
    }
    m.check_integrity().unwrap();
    (b.found, m)
}

fn assert_same(alone: &[(u32, u32)], beside: &[(u32, u32)], what: &str) {
    let differs = alone.iter().zip(beside).position(|(a, b)| a != b);
    assert_eq!(differs, None, "{what}: the first call that finds something else");
    assert_eq!(alone.len(), beside.len(), "{what}");
}

fn evicting() -> Vec<&'static str> {
    let needs_future =
        |name: &str| policy::by_name(name, PolicyOptions::default()).unwrap().needs_future();
    let names = policy::NAMES.iter().copied().filter(|&name| !needs_future(name));
    names.chain(["external"]).chain(BY_THE_CLOCK.map(|(label, ..)| label)).collect()
}

/// Requests of others that the test is asked to do; it does fewer where nobody asks.
fn asked_requests() -> Option<u64> {
    std::env::var("TENANT_REQUESTS").ok()?.parse().ok()
}

#[test]
fn by_option_as_many_requests_of_others_as_asked_whatever_the_policy() {
    let Some(requests) = asked_requests() else { return };
    let options = options(64, vec![tenant(A, 0, None), tenant(B, 20, Some(20))]);
    println!("policy: calls of b, requests of others, evicted of theirs, the same");
    for name in evicting() {
        let (alone, _) = served(&options, name, None, (0, 0));
        let (beside, m) = served(&options, name, None, (8, requests));
        let counts = |at: usize| m.accounts()[at].counts;
        let others = counts(0).requests + counts(1).requests;
        let evicted = counts(0).evicted + counts(1).evicted;
        assert!(others >= requests);
        let shared = alone.len().min(beside.len());
        // Alone, b does as many calls again as it did beside others.
        let alone = if shared < beside.len() { again(&options, name, beside.len()) } else { alone };
        let same = alone[..beside.len()] == beside[..];
        println!("{name}: {}, {others}, {evicted}, {same}", beside.len());
        assert!(same, "{name}");
        assert_eq!(counts(2).evicted_for_others, 0);
    }
}

/// What `b` finds alone in at least so many calls that find something or fail.
fn again(options: &Options, name: &str, calls: usize) -> Vec<(u32, u32)> {
    let (mut m, mut b) = (manager(options, name), Engine::new(B, SEED_OF_B, 3, 24));
    while b.found.len() < calls {
        b.step(&mut m);
    }
    b.found
}

const SEED_OF_B: u64 = 0x9E37_79B9_7F4A_7C15;

#[test]
fn what_a_tenant_finds_within_its_quota_depends_on_nobody_else() {
    // Its floor is its quota: it evicts its own blocks, all the time.
    let options = options(64, vec![tenant(A, 0, None), tenant(B, 20, Some(20))]);
    for name in evicting() {
        let alone = found_by_b(&options, name, None, 0);
        assert!(alone.iter().any(|&(hit, _)| hit > 4), "{name}: nothing is found");
        for noise in [3, 8] {
            assert_same(&alone, &found_by_b(&options, name, None, noise), name);
        }
    }
}

#[test]
fn the_same_in_a_pool_with_windows_and_a_null_block() {
    let groups: Vec<Group> =
        vec![GroupKind::Full.into(), GroupKind::SlidingWindow { window: 8 }.into()];
    let tenants = vec![tenant(A, 4, Some(70)), tenant(B, 36, Some(36))];
    let options = Options { groups, null_block: true, ..options(128, tenants) };
    for name in ["lru", "foresight", "s3-fifo", "external"] {
        let alone = found_by_b(&options, name, None, 0);
        assert_same(&alone, &found_by_b(&options, name, None, 6), name);
    }
}

#[test]
fn the_same_under_every_admission_policy() {
    let options = options(64, vec![tenant(A, 0, None), tenant(B, 20, Some(20))]);
    for gate in admission::POLICIES.iter().map(|policy| policy.name).filter(|&g| g != "always") {
        let alone = found_by_b(&options, "lru", Some(gate), 0);
        assert_same(&alone, &found_by_b(&options, "lru", Some(gate), 6), gate);
    }
}

#[test]
fn what_a_tenant_has_below_its_floor_is_never_evicted_for_others() {
    // Without a quota: all that it ever touches fits below its floor.
    let options = options(400, vec![tenant(B, 300, None)]);
    for name in evicting() {
        let mut m = manager(&options, name);
        let mut b = Engine::new(B, 5, 3, 24);
        let mut a = Engine::new(A, 6, 60, 200);
        for _ in 0..400 {
            b.step(&mut m);
            a.step(&mut m);
            a.step(&mut m);
            let account = m.accounts()[1];
            assert!(account.used <= account.floor, "{name}: the test is wrong");
        }
        assert!(m.stats().evictions > 0, "{name}: nothing was evicted");
        assert_eq!(m.accounts()[1].counts.evicted_for_others, 0, "{name}");
        m.check_integrity().unwrap();
    }
}

#[test]
fn unused_floors_are_lent_as_cache_and_come_back_at_once() {
    let options = options(10, vec![tenant(B, 6, None)]);
    let mut m = manager(&options, "lru");
    let of = |tenant: &[u8], tokens: std::ops::Range<u32>| Request {
        tokens: tokens.collect(),
        tenant: tenant.to_vec(),
        ..Request::default()
    };
    for at in 0..5 {
        // Cached, the others' blocks fill the whole pool.
        let seq = m.allocate(&of(A, at * 100..at * 100 + 8)).unwrap().seq;
        m.commit(seq, 8).unwrap();
        m.release(seq).unwrap();
    }
    assert_eq!(m.pool().free(), 0);
    // They may own no more than the floor leaves them.
    assert_eq!(m.can_allocate(&of(A, 900..916)).unwrap(), AllocStatus::Ok);
    assert_eq!(m.can_allocate(&of(A, 900..917)).unwrap(), AllocStatus::Never);
    let owned = m.allocate(&of(A, 900..916)).unwrap();
    assert_eq!(m.can_allocate(&of(A, 950..951)).unwrap(), AllocStatus::Later);
    // And the tenant has its floor whenever it wants it.
    let seq = m.allocate(&of(B, 0..24)).unwrap().seq;
    m.commit(seq, 24).unwrap();
    m.release(seq).unwrap();
    m.release(owned.seq).unwrap();
    m.check_integrity().unwrap();
}

#[test]
fn beyond_floors_the_tenant_furthest_above_its_own_loses() {
    let options = options(12, vec![tenant(A, 2, None), tenant(B, 4, None)]);
    let mut m = manager(&options, "lru");
    let fill = |m: &mut Manager, name: &[u8], from: u32, blocks: u32| {
        let tokens = (from..from + 4 * blocks).collect();
        let request = Request { tokens, tenant: name.to_vec(), ..Request::default() };
        let seq = m.allocate(&request).unwrap().seq;
        m.commit(seq, 4 * blocks).unwrap();
        m.release(seq).unwrap();
    };
    fill(&mut m, A, 0, 5);
    fill(&mut m, B, 0, 7);
    let used = |m: &Manager| m.accounts().iter().map(|a| a.used).collect::<Vec<_>>();
    assert_eq!(used(&m), [0, 5, 7]);
    // Both are 3 above their floors: a third one takes from one and the other in turn.
    fill(&mut m, b"c", 0, 4);
    assert_eq!(used(&m), [4, 3, 5]);
    // Who takes is the furthest above its floor itself.
    fill(&mut m, b"c", 100, 2);
    assert_eq!(used(&m), [4, 3, 5]);
    m.check_integrity().unwrap();
}

#[test]
fn who_is_within_its_floor_is_preempted_last() {
    let mut m = manager(&options(12, vec![tenant(A, 0, None), tenant(B, 4, None)]), "lru");
    let mut run = |name: &[u8], from: u32, blocks: u32| {
        let tokens = (from..from + 4 * blocks).collect();
        let request = Request { tokens, tenant: name.to_vec(), ..Request::default() };
        m.allocate(&request).unwrap().seq
    };
    let seqs = [run(A, 0, 2), run(A, 100, 2), run(B, 200, 2), run(B, 300, 2)];
    let last = PreemptionOrder::LastAdmitted;
    let order = m.preemption_order(&seqs, last).unwrap();
    let order: Vec<_> = order.iter().map(|candidate| candidate.seq).collect();
    assert_eq!(order, [seqs[1], seqs[0], seqs[3], seqs[2]]);
    // Above its floor it is as all others.
    m.append(seqs[3], &[1]).unwrap();
    let order = m.preemption_order(&seqs, last).unwrap();
    assert_eq!(order[0].seq, seqs[3]);
}

#[test]
fn tenants_share_no_block_whatever_their_salts() {
    let mut m = manager(&options(32, vec![tenant(A, 4, None)]), "lru");
    for (name, salt) in [(A, &b""[..]), (B, b""), (b"", b""), (b"", A), (A, B), (b"ab", b"")] {
        let request = Request {
            tokens: (0..9).collect(),
            tenant: name.to_vec(),
            cache_salt: salt.to_vec(),
            ..Request::default()
        };
        let first = m.allocate(&request).unwrap();
        assert_eq!(first.cached_tokens, 0, "{name:?} {salt:?}");
        m.commit(first.seq, 9).unwrap();
        m.release(first.seq).unwrap();
        let again = m.allocate(&request).unwrap();
        assert_eq!(again.cached_tokens, 8);
        m.release(again.seq).unwrap();
    }
}

#[test]
fn limits_that_cannot_hold_are_refused_by_name() {
    let made = |tenants| {
        let options = options(16, tenants);
        let policy = policies("lru", options.tenants.len() + 1);
        Manager::new(options, policy).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let share = |floor| Tenant { floor: Amount::Share(floor), ..tenant(A, 0, None) };
    assert!(made(vec![share(1.5)]).contains("0.0 to 1.0"));
    assert!(made(vec![share(f64::NAN)]).contains("0.0 to 1.0"));
    assert!(made(vec![tenant(A, 9, None), tenant(B, 8, None)]).contains("17 of 16"));
    assert!(made(vec![tenant(A, 9, Some(8))]).contains("the floor, 9"));
    assert!(made(vec![tenant(A, 0, Some(0))]).contains("at least 1"));
    assert!(made(vec![tenant(A, 0, None), tenant(A, 0, None)]).contains("twice"));
    assert!(made(vec![tenant(b"", 0, None)]).contains("empty"));
    assert_eq!(made(vec![share(0.5), tenant(B, 8, Some(8))]), "");
    let one = policy::by_name("lru", PolicyOptions::default()).unwrap();
    let error = Manager::new(options(16, vec![share(0.5)]), one).err().unwrap().to_string();
    assert!(error.contains("one for each tenant"), "{error}");
}

#[test]
fn a_pool_that_cannot_have_the_floors_is_not_made() {
    let mut m = manager(&options(20, vec![tenant(B, 10, None)]), "lru");
    let tokens = (0..40).collect();
    let seq = m.allocate(&Request { tokens, ..Request::default() }).unwrap().seq;
    let error = m.resize(18).unwrap_err().to_string();
    assert!(error.contains("take 20 blocks"), "{error}");
    m.release(seq).unwrap();
    m.resize(18).unwrap();
    m.check_integrity().unwrap();
}

#[test]
fn public_blocks_that_several_compute_at_once_follow_blocks_of_the_same_owner() {
    for seed in 1..60 {
        let floor = Amount::Blocks(4);
        let public = Tenant { is_public: true, floor, quota: Some(floor), ..tenant(B, 0, None) };
        let mut m = manager(&options(48, vec![tenant(A, 2, None), public]), "lru");
        let mut engines = [Engine::new(A, seed * 37, 6, 40), Engine::new(b"", seed * 34, 3, 40)];
        for engine in &mut engines {
            engine.public = 2;
        }
        for at in 0..200 {
            engines[at % 2].step(&mut m);
            m.check_integrity().unwrap_or_else(|why| panic!("seed {seed}, step {at}: {why}"));
        }
    }
}
