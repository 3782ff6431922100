//! Other floors, quotas and policies of tenants that are served: who then has what, what stays, what is refused.

mod common;

use kvframe_core::manager::Change;
use kvframe_core::policy::{Consult, Eviction, NAMES, PolicyOptions, admission, by_name};
use kvframe_core::tenants::{Amount, PerTenant, PerTenantAdmission, Tenant};
use kvframe_core::{BlockId, Error, Group, GroupKind, Manager, Options, Request, Result, SeqId};

use common::Dice;
use common::tenants::{A, B, Engine, disturb, options, outside, tenant, with_victims};

fn policies(name: &str, n: usize) -> Box<dyn Eviction> {
    let one = |_| match name {
        "external" => outside(),
        _ => by_name(name, PolicyOptions::default()).expect("a shipped policy"),
    };
    Box::new(PerTenant::new((0..n).map(one).collect()))
}

fn manager(options: &Options, name: &str) -> Manager {
    Manager::new(options.clone(), policies(name, options.tenants.len() + 1)).expect("sound")
}

/// Other shares, and another policy if one is named; a policy outside the core that stays says what goes.
fn change(m: &mut Manager, tenants: Vec<Tenant>, name: Option<&str>) -> Result<()> {
    let then = Options { tenants, ..m.options().clone() };
    let mut policy = name.map(|name| policies(name, then.tenants.len() + 1));
    with_victims(m, |m| {
        if policy.is_none() {
            m.check_ready_to_shed(&then)?;
        }
        let policy = policy.take();
        m.change(&then, Change { policy, ..Change::default() }).map(drop)
    })
}

fn request(name: &[u8], from: u32, blocks: u32) -> Request {
    let tokens = (from..from + 4 * blocks).collect();
    Request { tokens, tenant: name.to_vec(), ..Request::default() }
}

fn run(m: &mut Manager, name: &[u8], from: u32, blocks: u32) -> SeqId {
    let asked = request(name, from, blocks);
    let seq = with_victims(m, |m| m.allocate(&asked)).expect("room").seq;
    m.commit(seq, 4 * blocks).expect("granted");
    seq
}

fn fill(m: &mut Manager, name: &[u8], from: u32, blocks: u32) {
    let seq = run(m, name, from, blocks);
    m.release(seq).expect("live");
}

fn used(m: &Manager) -> Vec<u32> {
    m.accounts().iter().map(|account| account.used).collect()
}

/// The cached blocks of a tenant in the order in which it loses them.
fn order_of(m: &Manager, at: u8) -> Vec<BlockId> {
    let order = m.eviction_order(u32::MAX);
    order.into_iter().filter(|&block| m.pool().tenant(block) == at).collect()
}

/// What is seen of a manager that a refusal must leave as it is.
fn seen(m: &Manager) -> impl PartialEq + std::fmt::Debug + use<> {
    let accounts = format!("{:?}", m.accounts());
    let tenants = m.options().tenants.clone();
    (accounts, tenants, m.eviction_order(u32::MAX), m.pool().free(), m.policy().name())
}

#[test]
fn a_lowered_quota_sheds_what_is_cached_in_the_order_of_the_tenants_own_policy() {
    for name in NAMES.iter().copied().chain(["external"]) {
        let mut m = manager(&options(40, vec![tenant(A, 0, None), tenant(B, 0, Some(20))]), name);
        for at in 0..16 {
            fill(&mut m, B, 100 * at, 1);
            fill(&mut m, A, 100 * at, 1);
        }
        let (own, others) = (order_of(&m, 2), order_of(&m, 1));
        assert_eq!(used(&m), [0, 16, 16]);
        change(&mut m, vec![tenant(A, 0, None), tenant(B, 0, Some(6))], None).expect("sound");
        m.check_integrity().expect("whole");
        assert_eq!(used(&m), [0, 16, 6], "{name}");
        let counts = m.accounts()[2].counts;
        assert_eq!((counts.evicted, counts.evicted_for_others), (10, 0), "{name}");
        assert_eq!(order_of(&m, 1), others, "{name}: nothing of others goes");
        // Whatever a policy says before of its order, this is what is settled in it.
        if ["lru", "fifo", "mru"].contains(&name) {
            assert_eq!(order_of(&m, 2), own[10..], "{name}");
        }
        // It has its quota, and no more.
        fill(&mut m, B, 9000, 6);
        assert_eq!(used(&m)[2], 6);
        let never = m.allocate(&request(B, 9100, 7)).err();
        assert!(
            matches!(never, Some(Error::NeverFits { needed: 7, total: 6, .. })),
            "{name}: {never:?}"
        );
        let told = never.map(|error| error.to_string()).unwrap_or_default();
        let quota = "needs 7 blocks, but tenant \"b\" has a quota of 6: it can never fit";
        assert_eq!(told, quota, "{name}");
    }
}

#[test]
fn what_runs_above_a_lowered_quota_goes_as_it_ends_and_nothing_is_added_before() {
    for name in ["lru", "lfuda", "s3-fifo", "foresight", "external"] {
        let mut m = manager(&options(40, vec![tenant(B, 0, Some(20))]), name);
        let long = run(&mut m, B, 0, 8);
        // Not yet findable: it becomes so above the quota.
        let fresh = m.allocate(&request(B, 100, 6)).expect("room").seq;
        fill(&mut m, B, 200, 3);
        change(&mut m, vec![tenant(B, 0, Some(5))], None).expect("sound");
        assert_eq!((used(&m)[1], m.accounts()[1].cached), (14, 0), "{name}");
        m.commit(fresh, 24).expect("granted");
        m.check_integrity().expect("whole");
        let never = m.append(long, &[1]);
        assert!(matches!(never, Err(Error::NeverFits { total: 5, .. })), "{name}: {never:?}");
        let later = m.allocate(&request(B, 300, 1)).err();
        assert!(matches!(later, Some(Error::NoCapacity { available: 0, .. })), "{name}: {later:?}");
        m.release(fresh).expect("live");
        m.check_integrity().expect("whole");
        assert_eq!((used(&m)[1], m.accounts()[1].cached), (8, 0), "{name}");
        m.release(long).expect("live");
        m.check_integrity().expect("whole");
        assert_eq!((used(&m)[1], m.accounts()[1].cached), (5, 5), "{name}");
        fill(&mut m, B, 400, 5);
        assert_eq!(used(&m)[1], 5, "{name}");
    }
}

#[test]
fn floors_that_are_too_much_are_told_with_their_sum() {
    let tenants = vec![tenant(A, 12, None), tenant(B, 12, None), tenant(b"third", 6, None)];
    let options = options(20, tenants);
    let refused = Manager::new(options.clone(), policies("lru", options.tenants.len() + 1));
    let told = refused.err().expect("30 blocks of 20").to_string();
    assert!(told.contains("all floors together are 30 of 20 blocks"), "{told}");
}

#[test]
fn floors_that_cannot_be_met_now_are_refused_with_the_numbers() {
    let shares = |a, b| vec![tenant(A, a, None), tenant(B, b, None)];
    let mut m = manager(&options(20, shares(2, 4)), "lru");
    let own = run(&mut m, A, 0, 9);
    fill(&mut m, B, 0, 4);
    let before = seen(&m);
    let refused = change(&mut m, shares(2, 12), Some("fifo")).unwrap_err().to_string();
    assert!(refused.contains("floor = 12"), "{refused}");
    assert!(refused.contains("take 21 of 20 blocks now"), "{refused}");
    assert_eq!(seen(&m), before);
    let beyond = change(&mut m, shares(9, 12), None).unwrap_err().to_string();
    assert!(beyond.contains("all floors together are 21 of 20"), "{beyond}");
    change(&mut m, shares(2, 11), None).expect("there is room");
    m.release(own).expect("live");
    change(&mut m, shares(2, 12), None).expect("what is cached gives way");
    m.check_integrity().expect("whole");
    // Raised, it is had at once, whatever others have cached; lowered, others have it.
    fill(&mut m, B, 500, 12);
    let never = m.allocate(&request(A, 900, 9)).err();
    assert!(matches!(never, Some(Error::NeverFits { total: 8, .. })), "{never:?}");
    change(&mut m, shares(2, 0), None).expect("lowered");
    let all = run(&mut m, A, 900, 20);
    m.release(all).expect("live");
    m.check_integrity().expect("whole");
}

#[test]
fn what_was_promised_is_kept() {
    let shares = |floor, quota| vec![tenant(A, floor, None), tenant(B, 0, quota)];
    let mut m = manager(&options(20, shares(0, None)), "lru");
    let whole = Request { max_seq_len: 48, full_sequence_must_fit: true, ..request(B, 0, 2) };
    let seq = m.allocate(&whole).expect("room").seq;
    assert_eq!(m.accounts()[2].promised, 10);
    let floors = change(&mut m, shares(9, None), None).unwrap_err().to_string();
    assert!(floors.contains("owned and promised above them, take 21 of 20"), "{floors}");
    let quota = change(&mut m, shares(0, Some(11)), None).unwrap_err().to_string();
    assert!(quota.contains("own 2 and were promised 10 more"), "{quota}");
    assert!(quota.contains("quota = 11"), "{quota}");
    change(&mut m, shares(8, Some(12)), None).expect("both fit");
    for token in 0..40 {
        m.append(seq, &[token]).expect("as promised");
    }
    m.check_integrity().expect("whole");
}

#[test]
fn other_tenants_are_refused_by_name() {
    let mut m = manager(&options(20, vec![tenant(A, 2, None), tenant(B, 4, None)]), "lru");
    fill(&mut m, A, 0, 3);
    let before = seen(&m);
    let public = Tenant { is_public: true, quota: Some(Amount::Blocks(4)), ..tenant(B, 4, None) };
    for others in [
        vec![],
        vec![tenant(A, 2, None)],
        vec![tenant(B, 4, None), tenant(A, 2, None)],
        vec![tenant(A, 2, None), tenant(b"c", 4, None)],
        vec![tenant(A, 2, None), public],
    ] {
        let refused = change(&mut m, others, None);
        assert!(matches!(refused, Err(Error::Invalid { what: "tenants", .. })), "{refused:?}");
    }
    let one = by_name("lru", PolicyOptions::default()).expect("a shipped policy");
    let alone = m.change(&m.options().clone(), Change { policy: Some(one), ..Change::default() });
    assert!(matches!(alone, Err(Error::Invalid { what: "policies", .. })));
    assert_eq!(seen(&m), before);
}

#[test]
fn a_pool_that_shrinks_sheds_what_shares_of_it_no_longer_allow() {
    let half = Tenant { quota: Some(Amount::Share(0.5)), ..tenant(B, 0, None) };
    let mut m = manager(&options(40, vec![half]), "lfuda");
    let fresh = m.allocate(&request(B, 0, 12)).expect("room").seq;
    fill(&mut m, B, 100, 6);
    m.resize(20).expect("nothing is owned behind it");
    m.check_integrity().expect("whole");
    m.commit(fresh, 48).expect("granted");
    m.check_integrity().expect("whole");
    m.release(fresh).expect("live");
    m.check_integrity().expect("whole");
    assert_eq!(used(&m)[1], 10);
}

/// From lru to lru nothing changes within a tenant, whoever else runs.
#[test]
fn each_tenants_order_of_before_is_kept() {
    for seed in 1..16 {
        let options = options(60, vec![tenant(A, 5, Some(30)), tenant(B, 8, Some(24))]);
        let mut pair = [manager(&options, "lru"), manager(&options, "lru")];
        let mut engines: Vec<_> = pair
            .iter()
            .map(|_| {
                [(A, 3), (B, 5), (&b""[..], 7)].map(|(who, n)| Engine::new(who, seed * n, 3, 24))
            })
            .collect();
        for step in 0..240 {
            for (m, engines) in pair.iter_mut().zip(&mut engines) {
                for engine in engines {
                    engine.step(m);
                }
            }
            let [m, twin] = &mut pair;
            if step % 9 == 0 {
                change(m, options.tenants.clone(), Some("lru")).expect("sound");
                m.check_integrity().expect("whole");
            }
            assert_eq!(m.eviction_order(u32::MAX), twin.eviction_order(u32::MAX), "seed {seed}");
        }
        for (engine, twin) in engines[0].iter().zip(&engines[1]) {
            assert_eq!(engine.found, twin.found, "seed {seed}");
        }
    }
}

/// What the core keeps of blocks for policies outside of it goes over, each tenant's to that tenant's.
#[test]
fn facts_stay_with_the_blocks_of_each_tenant() {
    let tenants = vec![tenant(A, 2, None), tenant(B, 2, None)];
    let mut m = manager(&options(30, tenants.clone()), "external");
    for _ in 0..3 {
        fill(&mut m, A, 0, 3);
    }
    fill(&mut m, B, 0, 4);
    let rows = |m: &mut Manager| {
        let findable = (0..m.pool().created()).filter(|&b| m.pool().is_findable(b));
        let told = |block| {
            let at = m.pool().tenant(block);
            (at, m.policy().tenants().expect("of each tenant").shown(m.pool(), block))
        };
        let told: Vec<_> = findable.map(told).collect();
        let row = |(at, own)| {
            m.ask_instance(usize::from(at));
            m.external().expect("outside").row(own)
        };
        told.into_iter().map(row).collect::<Vec<_>>()
    };
    let before = rows(&mut m);
    let uses: Vec<_> = before.iter().map(|row| row.uses).collect();
    assert_eq!(uses, [3, 3, 3, 1, 1, 1, 1]);
    change(&mut m, tenants, Some("external")).expect("sound");
    assert_eq!(rows(&mut m), before);
    m.check_integrity().expect("whole");
}

fn shares(dice: &mut Dice, usable: u32) -> Vec<Tenant> {
    let amount = |dice: &mut Dice, most: u32| {
        if dice.below(3) == 0 {
            Amount::Share(dice.below(100) as f64 / 100.0 * f64::from(most) / f64::from(usable))
        } else {
            Amount::Blocks(dice.below(u64::from(most) + 1) as u32)
        }
    };
    let one = |name: &[u8], dice: &mut Dice| {
        let floor = amount(dice, usable / 2);
        let more = 1 + dice.below(u64::from(usable)) as u32;
        let quota = floor.of(usable).saturating_add(more);
        let quota = (dice.below(4) > 0).then_some(Amount::Blocks(quota));
        Tenant { floor, quota, ..tenant(name, 0, None) }
    };
    vec![one(A, dice), one(B, dice)]
}

/// Two tenants, or one and public prefixes; now and then with windows.
fn pool(seed: u64, dice: &mut Dice) -> Options {
    let mut all = options(48, shares(dice, 48));
    if seed % 4 == 1 {
        let floor = Amount::Blocks(2);
        all.tenants[0] = tenant(A, 2, None);
        all.tenants[1] =
            Tenant { is_public: true, floor, quota: Some(floor), ..tenant(B, 0, None) };
    }
    if seed.is_multiple_of(3) {
        let window = GroupKind::SlidingWindow { window: 8 };
        all.groups = vec![Group::from(GroupKind::Full), window.into()];
    }
    all
}

/// Every policy after every other, with other shares, among traffic of three tenants or two and a public prefix, pools
/// that grow and shrink, fences and loans: all that must hold, holds after each change.
#[test]
fn nothing_breaks_whatever_changes_among_random_traffic() {
    let names: Vec<&str> = NAMES.iter().copied().chain(["external"]).collect();
    let runs: u64 = std::env::var("KVFRAME_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    let (mut made, mut refused, mut shed) = (0, 0, 0);
    for seed in 1..=runs {
        for &first in &names {
            let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ first.len() as u64);
            let all = pool(seed, &mut dice);
            let is_shared = all.tenants[1].is_public;
            let mut m = manager(&all, first);
            if seed % 2 == 0 {
                let one = |_| {
                    admission::by_name("second-use", PolicyOptions::default()).unwrap().unwrap()
                };
                let gate = PerTenantAdmission::new((0..3).map(one).collect());
                m = m.with_admission(Some(Box::new(gate)));
            }
            let whose = [(A, 6), (B, 4), (&b""[..], 3)];
            let mut engines =
                whose.map(|(who, most)| Engine::new(who, seed * 31 + most, most as usize, 40));
            if is_shared {
                for engine in &mut engines {
                    engine.public = 2;
                }
            }
            let mut loans = Vec::new();
            for turn in 0..60 {
                for _ in 0..dice.below(12) {
                    engines[dice.below(3) as usize].step(&mut m);
                }
                disturb(&mut m, &mut dice, &mut loans);
                let engine = &mut engines[dice.below(3) as usize];
                if let Some(seq) = engine.running.pop() {
                    m.release_behind(seq, turn).expect("live");
                }
                if dice.below(3) == 0 {
                    m.pass(turn);
                    m.check_integrity().unwrap_or_else(|why| panic!("{first} {seed}: {why}"));
                }
                if dice.below(8) == 0 {
                    drop(m.resize(30 + dice.below(30) as u32));
                    m.check_integrity().unwrap_or_else(|why| panic!("{first} {seed}: {why}"));
                }
                let mut tenants = m.options().tenants.clone();
                if dice.below(3) > 0 {
                    tenants = shares(&mut dice, m.pool().usable());
                    tenants[1].is_public = is_shared;
                    tenants[1].quota =
                        if is_shared { Some(tenants[1].floor) } else { tenants[1].quota };
                }
                let name =
                    (dice.below(2) == 0).then(|| names[dice.below(names.len() as u64) as usize]);
                let (before, evictions) = (seen(&m), m.stats().evictions);
                let owned = m.pool().referenced();
                match change(&mut m, tenants, name) {
                    Ok(()) => made += 1,
                    Err(Error::Invalid { .. }) => {
                        refused += 1;
                        assert_eq!(seen(&m), before, "{first} {seed}");
                    }
                    Err(error) => panic!("{first} {seed}: {error}"),
                }
                shed += m.stats().evictions - evictions;
                assert_eq!(m.pool().referenced(), owned, "what runs keeps its blocks");
                m.check_integrity().unwrap_or_else(|why| panic!("{first} {seed} {name:?}: {why}"));
            }
            for engine in &mut engines {
                for seq in engine.running.drain(..) {
                    m.release(seq).expect("live");
                    m.check_integrity().unwrap_or_else(|why| panic!("{first} {seed}: {why}"));
                }
            }
        }
    }
    println!("{made} changes, {refused} refused, {shed} blocks shed by them");
    assert!(made > 1000 && refused > 100 && shed > 100, "{made} {refused} {shed}");
}

/// What `b` finds, with a quota that is its floor and is lowered now and then, and with other policies.
fn found_by_b(names: &[&str], noise: u64) -> Vec<(u32, u32)> {
    let of_b = |blocks| vec![tenant(A, 0, Some(40)), tenant(B, blocks, Some(blocks))];
    let mut m = manager(&options(64, of_b(24)), names[0]);
    let mut b = Engine::new(B, 0x9E37_79B9_7F4A_7C15, 3, 24);
    let mut others =
        [Engine::new(A, 0xC2B2_AE3D + noise, 30, 60), Engine::new(b"", 0xD6E8_FEB8 + noise, 3, 60)];
    let (mut dice, mut loans) = (Dice(77 + noise), Vec::new());
    for i in 0..900_usize {
        b.step(&mut m);
        for _ in 0..if noise == 0 { 0 } else { dice.below(noise) } {
            for other in &mut others {
                other.step(&mut m);
            }
            disturb(&mut m, &mut dice, &mut loans);
        }
        if i % 150 == 149 {
            let at = i / 150;
            let name = (at % 2 == 0).then(|| names[(at / 2 + 1) % names.len()]);
            change(&mut m, of_b([20, 20, 14, 14, 9, 9][at]), name).expect("lowered");
            m.check_integrity().expect("whole");
        }
    }
    assert_eq!(m.accounts()[2].counts.evicted_for_others, 0);
    b.found
}

#[test]
fn what_a_tenant_finds_still_depends_on_nobody_else() {
    let needs_future =
        |name: &&str| by_name(name, PolicyOptions::default()).unwrap().needs_future();
    let names: Vec<&str> =
        NAMES.iter().copied().filter(|name| !needs_future(name)).chain(["external"]).collect();
    for at in 0..names.len() {
        let turn = [0, 5, 9, 14].map(|more| names[(at + more) % names.len()]);
        let alone = found_by_b(&turn, 0);
        assert!(alone.iter().any(|&(hit, _)| hit > 4), "{turn:?}: nothing is found");
        for noise in [3, 6] {
            let beside = found_by_b(&turn, noise);
            let differs = alone.iter().zip(&beside).position(|(a, b)| a != b);
            assert_eq!((differs, beside.len()), (None, alone.len()), "{turn:?} beside {noise}");
        }
    }
}

/// Sequences that came in with their whole length get it, whatever shares change meanwhile.
#[test]
fn no_change_takes_what_was_promised() {
    let (mut refused, mut grown) = (0, 0);
    for seed in 1..60 {
        let mut dice = Dice(seed * 0x9E37_79B9);
        let names = ["lru", "lfuda", "arc", "s3-fifo", "foresight"];
        let mut m = manager(&options(48, shares(&mut dice, 48)), names[seed as usize % 5]);
        let mut running: Vec<(SeqId, u32)> = Vec::new();
        for step in 0..200_u32 {
            let who = [A, B, &b""[..]][dice.below(3) as usize];
            let len = 1 + dice.below(5) as u32;
            if dice.below(2) == 0 {
                let most = 4 * len + dice.below(24) as u32;
                let from = 1000 * dice.below(9) as u32;
                let (max_seq_len, full_sequence_must_fit) = (most, true);
                let whole =
                    Request { max_seq_len, full_sequence_must_fit, ..request(who, from, len) };
                if let Ok(given) = m.allocate(&whole) {
                    running.push((given.seq, most));
                }
            } else if !running.is_empty() {
                let at = dice.below(running.len() as u64) as usize;
                let (seq, most) = running[at];
                let len = m.sequence(seq).expect("live").len;
                m.commit(seq, len).expect("granted");
                if len < most && dice.below(4) > 0 {
                    m.append(seq, &[step]).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
                    grown += 1;
                } else {
                    m.release(seq).expect("live");
                    running.swap_remove(at);
                }
            }
            if dice.below(4) == 0 {
                let name = (dice.below(4) == 0).then(|| names[dice.below(5) as usize]);
                let tenants = shares(&mut dice, 48);
                refused += u32::from(change(&mut m, tenants, name).is_err());
                m.check_integrity().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            }
        }
    }
    assert!(grown > 1000 && refused > 500, "{grown} {refused}");
}
