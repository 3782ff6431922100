//! Admission policies of the core: what enters, and what a lower tier is told.

mod common;

use common::{SIZE, build, found, open, prompt, run, serve};
use kvframe_core::policy::PolicyOptions;
use kvframe_core::policy::admission::{Ask, Occasion, Offer, OfferRow, Tier, Verdict, by_name};
use kvframe_core::{Error, Group, GroupKind, Key, Manager, Options};

fn gated(name: &str, options: PolicyOptions<'_>, groups: Vec<Group>) -> Manager {
    let options_of_pool = Options { blocks: 64, block_size: SIZE, groups, ..Options::default() };
    build(options_of_pool, "lru").with_admission(by_name(name, options).unwrap())
}

fn full(name: &str) -> Manager {
    gated(name, PolicyOptions::default(), vec![GroupKind::Full.into()])
}

// scenario: VT64
#[test]
fn what_is_used_once_is_free_when_its_owner_ends() {
    let mut m = full("second-use");
    assert_eq!(serve(&mut m, &open(&[1, 2, 3])), 0);
    assert_eq!((m.pool().cached(), m.pool().free()), (0, 64));
    assert_eq!(serve(&mut m, &open(&[1, 2, 4])), 0);
    m.check_integrity().unwrap();
    // The first two were used twice; 4 follows them and was not.
    assert_eq!(found(&m, &open(&[1, 2, 4])), 8);
    assert_eq!(m.admission_counts().kept, 2);
    assert_eq!(m.admission_counts().dropped, 4);
}

#[test]
fn a_block_behind_a_dropped_one_is_never_stored() {
    let mut m = full("second-use");
    let (a, b) = (run(&mut m, &open(&[1, 2])), run(&mut m, &open(&[1, 2, 3])));
    m.check_integrity().unwrap();
    m.append(a, &prompt(&[7])).unwrap();
    m.commit(a, 13).unwrap();
    m.release(b).unwrap();
    m.release(a).unwrap();
    m.check_integrity().unwrap();
    assert_eq!(found(&m, &open(&[1, 2, 3])), 8);
    assert_eq!(m.pool().cached(), 2);
}

#[test]
fn a_lagging_group_goes_as_far_as_the_others() {
    let lags = Group { lag: 2, ..GroupKind::Full.into() };
    let mut m = gated(
        "size",
        PolicyOptions(&[("min_tokens", 0), ("max_tokens", 8)]),
        vec![GroupKind::Full.into(), lags],
    );
    serve(&mut m, &open(&[1, 2, 3]));
    m.check_integrity().unwrap();
    assert_eq!(found(&m, &open(&[1, 2, 3])), 8);
    assert_eq!(m.pool().cached(), 4);
}

fn ask(name: &str, tier: Tier, occasion: Occasion, uses: &[u32]) -> Vec<Verdict> {
    let mut offer = Offer::default();
    for (depth, &uses) in (0..).zip(uses) {
        let key = Key(u128::from(depth) + 1);
        offer.push(OfferRow { key, depth, span: SIZE, uses, ..OfferRow::default() });
    }
    let mut out = vec![Verdict::Keep; offer.len()];
    let mut policy = by_name(name, PolicyOptions::default()).unwrap().expect("a policy");
    policy.admit(&offer, Ask { tier, occasion, ..Ask::default() }, &mut out);
    out
}

#[test]
fn lower_tiers_ask_the_same_policy() {
    use Verdict::{Drop, Keep};
    let uses = [0, 1, 2];
    assert_eq!(ask("write-back", Tier::Host, Occasion::Computed, &uses), [Drop; 3]);
    assert_eq!(ask("write-back", Tier::Host, Occasion::Evicted, &uses), [Keep; 3]);
    assert_eq!(ask("write-back", Tier::Gpu, Occasion::Computed, &uses), [Keep; 3]);
    assert_eq!(ask("write-through", Tier::Disk, Occasion::Computed, &uses), [Keep; 3]);
    assert_eq!(ask("selective", Tier::Host, Occasion::Used, &uses), [Drop, Drop, Keep]);
    // Nobody is asked: everything enters.
    assert!(by_name("always", PolicyOptions::default()).unwrap().is_none());
}

#[test]
fn names_of_tiers_and_policies_are_told() {
    assert_eq!(Tier::from_name("disk"), Ok(Tier::Disk));
    assert!(matches!(Tier::from_name("tape"), Err(Error::UnknownName { what: "tier", .. })));
    let unknown = by_name("never", PolicyOptions::default());
    assert!(matches!(unknown, Err(Error::UnknownName { what: "admission policy", .. })));
}

#[test]
fn a_gate_that_keeps_everything_changes_nothing() {
    let (mut a, mut b) = (full("always"), full("size"));
    b = b.with_admission(by_name("size", PolicyOptions(&[("min_tokens", 0)])).unwrap());
    for m in [&mut a, &mut b] {
        for blocks in [&[1, 2][..], &[1, 2, 3], &[4], &[1, 5]] {
            serve(m, &open(blocks));
            m.check_integrity().unwrap();
        }
    }
    assert_eq!(a.take_events(), b.take_events());
    assert_eq!(a.stats(), b.stats());
}
