//! What a manager says of a request before it is let in holds until its end: of all kinds of groups,
//! steps of a prompt and sizes of a pool.

use kvframe_core::manager::{AllocStatus, Growth, Step};
use kvframe_core::policy::{PolicyOptions, by_name};
use kvframe_core::sequence::Sequence;
use kvframe_core::{Allocation, Error, Group, GroupKind, Manager, Options, Request, SeqId};

use crate::common::picture;
use crate::model::dice::Dice;
use crate::model::groups;

/// A request as it is asked, and how its owner grows it.
#[derive(Debug, Clone)]
struct RequestSpec {
    tokens: Vec<u32>,
    encoder: u32,
    max_tokens: u32,
    chunk: u32,
    whole: bool,
    resumed: bool,
}

impl RequestSpec {
    fn new(dice: &mut Dice, size: u32, crosses: bool) -> Self {
        let long = dice.between(1, 14 * size);
        let chunks = [u32::MAX, 1, size, 2 * size, dice.between(1, 5 * size), long];
        Self {
            tokens: (0..long).collect(),
            encoder: if crosses { dice.between(0, 3 * size) } else { 0 },
            max_tokens: if dice.one_in(3) { 0 } else { long + dice.between(0, 8 * size) },
            chunk: dice.pick(&chunks),
            whole: dice.one_in(3),
            resumed: false,
        }
    }

    /// What brings a sequence back.
    fn back(sequence: Sequence, encoder: u32) -> Self {
        let Sequence {
            tokens, max_seq_len: max_tokens, chunk, full_sequence_must_fit: whole, ..
        } = sequence;
        Self { tokens, encoder, max_tokens, chunk, whole, resumed: true }
    }

    fn request(&self) -> Request {
        Request {
            tokens: self.tokens.clone(),
            encoder: b"input".to_vec(),
            encoder_tokens: self.encoder,
            max_seq_len: self.max_tokens,
            chunk: self.chunk,
            full_sequence_must_fit: self.whole,
            resumed: self.resumed,
            ..Request::default()
        }
    }

    fn longest(&self) -> u32 {
        self.max_tokens.max(self.tokens.len() as u32)
    }
}

fn options(dice: &mut Dice) -> Options {
    let size = dice.pick(&[1, 2, 4]);
    let groups: Vec<Group> = groups(dice, size);
    let blocks = dice.between(2, 12) * groups.len() as u32;
    Options { blocks, block_size: size, groups, ..Options::default() }
}

fn build(options: &Options) -> Manager {
    Manager::new(options.clone(), by_name("lru", PolicyOptions::default()).unwrap()).unwrap()
}

/// What `can_allocate` says, which is what `allocate` does, too: with nothing else in the pool, never "later".
fn allocate(m: &mut Manager, asked: &RequestSpec) -> Option<Allocation> {
    let said = m.can_allocate(&asked.request()).unwrap();
    match (m.allocate(&asked.request()), said) {
        (Ok(allocation), AllocStatus::Ok) => Some(allocation),
        (Err(Error::NeverFits { .. }), AllocStatus::Never) => None,
        (done, said) => panic!("{said:?} was said, and then {done:?}: {asked:?} {:?}", m.options()),
    }
}

/// One growth by its owner, alone in the pool: it is never refused.
fn grow(m: &mut Manager, dice: &mut Dice, seq: SeqId, asked: &RequestSpec, budgets: bool) -> bool {
    let (len, known) = (m.sequence(seq).unwrap().len, m.sequence(seq).unwrap().known());
    m.commit(seq, len).unwrap();
    if len == asked.longest() {
        refuse_more(m, seq, asked);
        return false;
    }
    let options = m.options().clone();
    let told = |e: Error| -> Error { panic!("at {len}: {e}: {asked:?} {options:?}") };
    if len == known {
        return m.append(seq, &[len]).map_err(told).is_ok();
    }
    let until = len.saturating_add(asked.chunk.min(known)).min(known);
    if !budgets {
        return m.extend(seq, until).map_err(told).is_ok();
    }
    // What a budget cuts goes on from anywhere.
    overreach(m, dice, seq);
    let len = m.sequence(seq).unwrap().len;
    m.commit(seq, len).unwrap();
    let extend = [(seq, len.saturating_add(asked.chunk.min(known)).min(known))];
    let batch_tokens = Some(dice.between(1, 9));
    let outcome = m.step(&Step { extend: &extend, batch_tokens, ..Step::default() }).unwrap();
    assert_eq!(outcome.refused, [], "at {len}: {asked:?} {:?}", m.options());
    assert!(outcome.extended[0] > len || len == known);
    true
}

/// Growth that is refused where all that is there is committed and nothing else is in the pool can
/// never be, and says so.
fn overreach(m: &mut Manager, dice: &mut Dice, seq: SeqId) {
    let (len, known) = (m.sequence(seq).unwrap().len, m.sequence(seq).unwrap().known());
    let until = dice.between(len, known);
    let before = picture(m, &[seq]);
    match m.extend(seq, until) {
        Ok(()) => {}
        Err(Error::NeverFits { .. }) => assert_eq!(picture(m, &[seq]), before),
        Err(error) => panic!("{len} to {until}: {error}: {:?}", m.options()),
    }
}

/// Past its full length, whatever the verb, nothing comes.
fn refuse_more(m: &mut Manager, seq: SeqId, asked: &RequestSpec) {
    if asked.max_tokens == 0 {
        return;
    }
    let before = picture(m, &[seq]);
    let append = [(seq, kvframe_core::manager::Ids::Known(&[1]))];
    let step = Step { append: &append, ..Step::default() };
    let refused = [
        m.append(seq, &[1]).unwrap_err(),
        m.append_placeholders(seq, 1).unwrap_err(),
        m.reserve(seq, asked.max_tokens + 1).unwrap_err(),
        m.step(&step).unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
    }
    assert_eq!(picture(m, &[seq]), before);
}

/// Blocks held at the most on the way to the end, counted step by step from every length that a
/// step may start from behind a prefix hit.
fn counted(m: &Manager, asked: &RequestSpec) -> u64 {
    let (layout, known) = (m.layout(), asked.tokens.len() as u32);
    let held = |at: u32, to: u32| -> u64 {
        layout.groups().iter().map(|reach| u64::from(reach.held(at, to, 0))).sum()
    };
    let (mut apart, mut unit) = (asked.chunk, layout.unit_tokens());
    while unit > 0 {
        (apart, unit) = (unit, apart % unit);
    }
    let step = |at: u32| held(at, at.saturating_add(asked.chunk).min(known));
    let in_steps = (0..known).step_by(apart as usize).map(step).max().unwrap_or(0);
    let one_by_one = (0..asked.longest()).map(|at| held(at, at + 1)).max().unwrap_or(0);
    in_steps.max(one_by_one) + layout.cross_blocks(asked.encoder)
}

/// Leaves some of what a request begins with cached, and other things.
fn warm(m: &mut Manager, dice: &mut Dice, asked: &RequestSpec) {
    for _ in 0..dice.below(3) {
        let long = dice.below(asked.tokens.len() + 1);
        let mut text = asked.tokens[..long].to_vec();
        text.resize(long + dice.below(4), 7_000);
        let short = RequestSpec { tokens: text, max_tokens: 0, chunk: 1, ..asked.clone() };
        let Ok(allocation) = m.allocate(&short.request()) else { continue };
        while m.sequence(allocation.seq).unwrap().len < short.longest() {
            let len = m.sequence(allocation.seq).unwrap().len;
            m.commit(allocation.seq, len).unwrap();
            m.extend(allocation.seq, len + 1).unwrap();
        }
        m.commit(allocation.seq, short.longest()).unwrap();
        m.release(allocation.seq).unwrap();
    }
}

// scenario: F6, F7, F8, F10
#[test]
fn what_is_let_in_alone_runs_to_its_end_and_comes_back_from_anywhere() {
    let (mut dice, mut came, mut backs, mut nevers) = (Dice::new(6), 0, 0, 0);
    for _ in 0..3_000 {
        let options = options(&mut dice);
        let crosses = options.groups.iter().any(|group| group.kind == GroupKind::Cross);
        let mut asked = RequestSpec::new(&mut dice, options.block_size, crosses);
        let (mut m, mut empty) = (build(&options), build(&options));
        warm(&mut m, &mut dice, &asked);
        // "Never" does not depend on what is cached, and is said of nothing else.
        let said = m.can_allocate(&asked.request()).unwrap();
        assert_eq!(said, empty.can_allocate(&asked.request()).unwrap(), "{asked:?} {options:?}");
        let most = counted(&m, &asked);
        let fits = most <= u64::from(m.pool().usable());
        assert_eq!(fits, said == AllocStatus::Ok, "{most}: {asked:?} {options:?}");
        nevers += u32::from(!fits);
        let Some(mut allocation) = allocate(&mut m, &asked) else {
            assert!(allocate(&mut empty, &asked).is_none());
            continue;
        };
        came += 1;
        let budgets = dice.one_in(3);
        while grow(&mut m, &mut dice, allocation.seq, &asked, budgets) {
            if dice.one_in(20) {
                let chunk = asked.chunk;
                asked = RequestSpec::back(m.preempt(allocation.seq).unwrap(), asked.encoder);
                assert!(asked.chunk <= chunk);
                warm(&mut m, &mut dice, &asked);
                allocation = allocate(&mut m, &asked).expect("it fitted before");
                backs += 1;
            }
        }
        m.check_integrity().unwrap();
        m.release(allocation.seq).unwrap();
    }
    assert!(came > 1_000 && nevers > 500 && backs > 300, "{came} came, {backs} back, {nevers} not");
}

// scenario: F6, F10
/// A bulk step refuses what the single verbs refuse, for the same reason.
#[test]
fn a_step_admits_as_fits_says_and_refuses_a_full_length_below_the_prompt() {
    let mut dice = Dice::new(7);
    for _ in 0..500 {
        let options = options(&mut dice);
        let mut asked = RequestSpec::new(&mut dice, options.block_size, false);
        let mut m = build(&options);
        let said = m.can_allocate(&asked.request()).unwrap();
        let allocate = [asked.request()];
        let outcome = m.step(&Step { allocate: &allocate, ..Step::default() }).unwrap();
        assert_eq!(outcome.allocated[0].is_some(), said == AllocStatus::Ok);
        let never = matches!(&outcome.refused[..], [refused]
            if refused.growth == Growth::Allocate && matches!(refused.error, Error::NeverFits { .. }));
        assert_eq!(never, said == AllocStatus::Never, "{:?}", outcome.refused);
        if asked.tokens.len() > 1 {
            asked.max_tokens = asked.tokens.len() as u32 - 1;
            m.can_allocate(&asked.request()).unwrap_err();
            m.lookup_request(&asked.request()).unwrap_err();
            let error = m.allocate(&asked.request()).unwrap_err();
            assert!(matches!(error, Error::Invalid { what: "max_seq_len", .. }), "{error}");
        }
    }
}
