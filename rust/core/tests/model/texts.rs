//! Prompts that share prefixes, and requests for them.

use std::sync::OnceLock;

use kvframe_core::Request;
use kvframe_core::hash::{MmItem, Space};
use kvframe_core::retention::{Decay, Keep, Retention, TokenRange};
use kvframe_core::sequence::Meta;

use super::dice::{Dice, mix};

type Names = (&'static [u8], &'static [u8], &'static [u8], &'static [u8]);

/// Namespaces: tenant, salt, adapter, other input. Those of one letter must not be taken for each other, nor
/// the two of three.
pub const SPACES: &[Names] = &[
    (b"", b"", b"", b""),
    (b"", b"x", b"", b""),
    (b"", b"", b"x", b""),
    (b"", b"bc", b"a", b""),
    (b"", b"c", b"ab", b""),
    (b"", b"", b"", b"x"),
    (b"", b"", b"", b"y"),
    (b"x", b"", b"", b""),
    (b"y", b"", b"", b""),
    (b"y", b"x", b"", b"x"),
];

/// The namespace of that number.
pub fn space(at: usize) -> Space<'static> {
    let (tenant, cache_salt, lora_name, encoder) = SPACES[at];
    Space { tenant, cache_salt, lora_name, encoder, public: 0 }
}

/// A prompt: tokens, items, and what each token means to the model.
#[derive(Debug, Clone, Default)]
pub struct Text {
    pub tokens: Vec<u32>,
    pub mm_items: Vec<MmItem>,
    pub atoms: Vec<u64>,
    pub space: usize,
}

impl Text {
    /// What the model makes of `tokens`.
    pub fn of(tokens: Vec<u32>, mm_items: Vec<MmItem>, space: usize) -> Self {
        let atoms = (0..).zip(&tokens).map(|(i, &t)| atom(i, t, &mm_items)).collect();
        Self { tokens, mm_items, atoms, space }
    }
}

/// A prompt out of a tiny alphabet.
pub fn text(dice: &mut Dice, size: u32) -> Text {
    let mut text = Text {
        space: if dice.one_in(3) { dice.below(SPACES.len()) } else { 0 },
        ..Text::default()
    };
    let units = dice.below(7);
    for _ in 0..units * size as usize {
        // A tiny alphabet, so that prompts share prefixes and differ anywhere.
        text.tokens.push(if dice.one_in(9) { dice.between(0, 2) } else { 0 });
    }
    for _ in 0..dice.below(size as usize + 1) {
        text.tokens.push(dice.between(0, 1));
    }
    let len = text.tokens.len();
    if dice.one_in(6) && len > 0 {
        let (start, span) = (dice.below(len), 1 + dice.below(5));
        let end = (start + span).min(len) as u32;
        text.mm_items = vec![MmItem { start: start as u32, end, id: vec![dice.below(2) as u8] }];
    }
    Text::of(text.tokens, text.mm_items, text.space)
}

/// What some requests ask for their blocks.
fn asked() -> &'static [Option<&'static Retention>; 3] {
    static ASKED: OnceLock<[Retention; 3]> = OnceLock::new();
    static REFS: OnceLock<[Option<&'static Retention>; 3]> = OnceLock::new();
    let asked = ASKED.get_or_init(|| {
        let keep = |priority, duration, then, decay| Keep { priority, duration, then, decay };
        let range = |start, end, keep| TokenRange { start, end, keep };
        let slope = keep(90, Some(6), 0, Decay::Linear);
        let step = keep(60, Some(3), 35, Decay::Step);
        let low = keep(0, None, 0, Decay::Step);
        [
            Retention { ranges: vec![range(0, 3, slope), range(3, 99, low)], decode: Some(step) },
            Retention { ranges: vec![range(2, 99, step)], decode: None },
            Retention { ranges: Vec::new(), decode: Some(low) },
        ]
    });
    REFS.get_or_init(|| asked.each_ref().map(Some))
}

/// A request for `text` with some switches thrown.
pub fn request(dice: &mut Dice, text: &Text, next_use: &[u32]) -> Request {
    Request {
        tokens: text.tokens.clone(),
        mm_items: text.mm_items.clone(),
        read_cache: !dice.one_in(8),
        write_cache: !dice.one_in(8),
        resumed: dice.one_in(8),
        partial: dice.one_in(4),
        next_use: next_use.to_vec(),
        meta: Meta { session: dice.below(4) as u64, ..Meta::default() },
        max_seq_len: full_length(dice, text.tokens.len() as u32),
        full_sequence_must_fit: dice.one_in(8),
        retention: if dice.one_in(4) { dice.pick(asked()).cloned() } else { None },
        ..Request::default()
    }
    .within(space(text.space))
}

/// Of one in five requests the full length is known, and now and then it is wrong.
fn full_length(dice: &mut Dice, known: u32) -> u32 {
    match dice.below(50) {
        0 => dice.between(0, known),
        1..10 => known + dice.between(0, 40),
        _ => 0,
    }
}

/// What a token means: its id, and the item it stands for.
fn atom(at: u32, token: u32, mm_items: &[MmItem]) -> u64 {
    let item = mm_items.iter().find(|e| e.start <= at && at < e.end);
    item.map_or(u64::from(token), |e| {
        mix(mix(u64::from(e.id[0]) + 1, u64::from(at - e.start)), u64::from(token))
    })
}
