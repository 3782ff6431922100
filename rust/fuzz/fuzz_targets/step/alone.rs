//! A request alone in a pool: what may come in runs to its end, and nothing else is refused for ever.

use kvframe_core::manager::AllocStatus;
use kvframe_core::policy::{PolicyOptions, by_name};
use kvframe_core::{Manager, Options, Request, SeqId};

/// Tokens of an answer that are tried where its length is not known.
const ANSWER: u32 = 8;

/// Asks a manager of the same options and nothing in it, beside one that `said` something.
pub fn check(options: &Options, asked: &Request, said: Option<&AllocStatus>) {
    // A partial allocation is no promise, and a prompt that came as keys gets no answer.
    if asked.partial || asked.tokens.is_empty() {
        return;
    }
    let lru = by_name("lru", PolicyOptions::default()).expect("a shipped policy");
    let mut m = Manager::new(options.clone(), lru).expect("the same options");
    let Ok(alone) = m.can_allocate(asked) else { return };
    assert_ne!(alone, AllocStatus::Later, "nothing is in the way");
    if let Some(&said) = said {
        assert_eq!(
            said == AllocStatus::Never,
            alone == AllocStatus::Never,
            "it depends on what is there"
        );
    }
    if alone == AllocStatus::Ok {
        run(&mut m, asked);
    }
}

fn run(m: &mut Manager, asked: &Request) {
    let allocation = m.allocate(asked).expect("it was said to fit");
    if let Some(load) = allocation.load {
        m.done(load).expect("it came");
    }
    let known = allocation.prompt_tokens;
    // Without a chunk, all came at once, unless `until` was short of it.
    let step = if asked.chunk == u32::MAX { 1 } else { asked.chunk.max(1) };
    while grow(m, allocation.seq, known, step) {}
    let answer = if asked.max_seq_len > 0 { asked.max_seq_len - known } else { 0 };
    for _ in 0..answer.min(ANSWER) {
        m.append(allocation.seq, &[1]).expect("what was let in can finish");
        let len = m.sequence(allocation.seq).expect("live").len;
        m.commit(allocation.seq, len).expect("computed");
    }
}

/// Computes what has slots, and gets more.
fn grow(m: &mut Manager, seq: SeqId, known: u32, step: u32) -> bool {
    let len = m.sequence(seq).expect("live").len;
    m.commit(seq, len).expect("computed");
    let until = len.saturating_add(step).min(known);
    m.extend(seq, until).expect("what was let in can finish");
    len < known
}
