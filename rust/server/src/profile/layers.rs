//! Layers of several kinds: to how many tokens each attends, and how long that takes.

/// Layers that all attend to the same tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerKind {
    /// How many of the last tokens are attended to, one by one; [`u32::MAX`] for all.
    pub window: u32,
    /// What of all tokens is attended to besides.
    pub history: Option<History>,
    /// Seconds of reading one position that is attended to, in all of the layers.
    pub read: f64,
    /// Seconds of the attention of one token of a prompt to one position.
    pub prompt_pair: f64,
    /// Seconds of the attention of one token of an answer to one position.
    pub answer_pair: f64,
}

/// Attention to every so-manieth position, or to those of them that an indexer selects.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct History {
    /// Tokens an entry.
    pub compress_ratio: u32,
    /// Entries that a token attends to, at most; [`u32::MAX`] for all.
    pub index_topk: u32,
    /// Seconds of scoring one entry for one token.
    pub score: f64,
    /// Seconds of reading the indexer's own keys of one token.
    pub score_read: f64,
}

/// All layers of a model, but for their matrices.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layers {
    /// Those that attend to tokens.
    pub kinds: Vec<LayerKind>,
    /// Seconds of reading the states that a sequence has whatever its length.
    pub state: f64,
}

/// What one sequence computes in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Tokens before.
    pub computed: u32,
    /// Tokens that it computes.
    pub count: u32,
    /// Drafts behind them.
    pub drafts: u32,
    /// Whether it computes a token of an answer.
    pub decodes: bool,
}

/// The sum of `t / ratio`, rounded down, over the first `tokens` whole numbers.
fn sum_of_entries(tokens: u64, ratio: u64) -> u64 {
    let (whole, rest) = ((tokens + 1) / ratio, (tokens + 1) % ratio);
    ratio * (whole * whole.saturating_sub(1) / 2) + whole * rest
}

impl History {
    fn attended(self, context: u64) -> u64 {
        (context / u64::from(self.compress_ratio)).min(u64::from(self.index_topk))
    }

    fn attended_up_to(self, tokens: u64) -> u64 {
        let (ratio, most) = (u64::from(self.compress_ratio), u64::from(self.index_topk));
        let full = ratio * most;
        sum_of_entries(tokens.min(full), ratio) + tokens.saturating_sub(full) * most
    }

    fn scored_up_to(self, tokens: u64) -> u64 {
        sum_of_entries(tokens, u64::from(self.compress_ratio))
    }
}

impl LayerKind {
    /// Positions that the last of so many tokens attends to.
    fn attended(&self, context: u64) -> u64 {
        let behind = self.history.map_or(0, |history| history.attended(context));
        context.min(u64::from(self.window)) + behind
    }

    /// Positions that so many first tokens attend to, all together.
    fn attended_up_to(&self, tokens: u64) -> u64 {
        let window = u64::from(self.window);
        let near = tokens.min(window);
        let behind = self.history.map_or(0, |history| history.attended_up_to(tokens));
        near * (near + 1) / 2 + (tokens - near) * window + behind
    }

    fn read_seconds(&self, context: u64) -> f64 {
        let scored = self.history.map_or(0.0, |history| history.score_read * context as f64);
        self.attended(context) as f64 * self.read + scored
    }

    fn compute_seconds(&self, part: &Part) -> f64 {
        let from = u64::from(part.computed);
        let to = from + u64::from(part.count + part.drafts);
        let pair = if part.decodes { self.answer_pair } else { self.prompt_pair };
        let is_one = to == from + 1;
        let pairs = if is_one {
            self.attended(to)
        } else {
            self.attended_up_to(to) - self.attended_up_to(from)
        };
        let scores = self.history.map_or(0.0, |history| {
            history.score * (history.scored_up_to(to) - history.scored_up_to(from)) as f64
        });
        pairs as f64 * pair + scores
    }
}

impl Layers {
    /// Seconds of the attention of a step: of answers, and of prompts, the longer of reading and computing. The
    /// first `shared` tokens of all are read once.
    pub fn seconds(&self, parts: impl Iterator<Item = Part>, shared: u32) -> f64 {
        let shared = u64::from(shared);
        let (mut prompts, mut answers) = (Attention::default(), Attention::default());
        let mut some_decode = false;
        for part in parts {
            let side = if part.decodes { &mut answers } else { &mut prompts };
            let context = u64::from(part.computed + part.count).saturating_sub(shared);
            for kind in &self.kinds {
                side.compute += kind.compute_seconds(&part);
                side.read += kind.read_seconds(context);
            }
            side.read += self.state;
            some_decode |= part.decodes;
        }
        if shared > 0 {
            let side = if some_decode { &mut answers } else { &mut prompts };
            side.read += self.kinds.iter().map(|kind| kind.read_seconds(shared)).sum::<f64>();
        }
        prompts.seconds() + answers.seconds()
    }
}

#[derive(Default)]
struct Attention {
    compute: f64,
    read: f64,
}

impl Attention {
    fn seconds(&self) -> f64 {
        self.compute.max(self.read)
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // whole numbers
mod tests {
    use super::*;

    const ALL: LayerKind = LayerKind {
        window: u32::MAX,
        history: None,
        read: 3.0,
        prompt_pair: 1.0,
        answer_pair: 1.0,
    };

    fn entries(compress_ratio: u32, index_topk: u32) -> History {
        History { compress_ratio, index_topk, score: 0.0, score_read: 0.0 }
    }

    fn prompt(computed: u32, count: u32) -> Part {
        Part { computed, count, drafts: 0, decodes: false }
    }

    fn answer(computed: u32) -> Part {
        Part { computed, count: 1, drafts: 0, decodes: true }
    }

    fn seconds(kind: LayerKind, parts: &[Part], shared: u32) -> f64 {
        let layers = Layers { kinds: vec![kind], state: 0.0 };
        layers.seconds(parts.iter().copied(), shared)
    }

    #[test]
    fn what_all_tokens_attend_to_is_the_sum_of_what_each_does() {
        let some = [entries(1, 7), entries(3, 4), entries(4, u32::MAX), entries(9, 0)].map(Some);
        for window in [0, 1, 5, 40, u32::MAX] {
            for history in some.into_iter().chain([None]) {
                let kind = LayerKind { window, history, ..ALL };
                let mut sum = 0;
                for tokens in 1..100 {
                    sum += kind.attended(tokens);
                    assert_eq!(kind.attended_up_to(tokens), sum, "{kind:?} up to {tokens}");
                }
            }
        }
    }

    #[test]
    fn a_window_is_all_that_is_read() {
        let window = LayerKind { window: 4, ..ALL };
        // 3 tokens of 3 s each, and 4 of a hundred.
        assert_eq!(seconds(window, &[answer(2)], 0), 9.0);
        assert_eq!(seconds(window, &[answer(99)], 0), 12.0);
        assert_eq!(seconds(ALL, &[answer(99)], 0), 300.0);
        // 6 tokens attend to 1 + 2 + 3 + 4 + 4 + 4 pairs of 1 s; the last reads 4 of 3 s meanwhile.
        assert_eq!(seconds(window, &[prompt(0, 6)], 0), 18.0);
    }

    #[test]
    fn a_history_is_read_at_its_stride_and_an_indexer_scores_all_of_it() {
        let history =
            Some(History { compress_ratio: 4, index_topk: 5, score: 0.5, score_read: 0.25 });
        let kind = LayerKind { window: 8, history, ..ALL };
        // Of 100 tokens: the last 8 and 5 of 25 entries, 3 s each; the indexer's keys of 100 tokens, 0.25 s each.
        assert_eq!(seconds(kind, &[answer(99)], 0), 13.0 * 3.0 + 25.0);
        // Where computing takes longer: 13 pairs of 20 s, and 25 scores of 0.5 s.
        let slow = LayerKind { answer_pair: 20.0, ..kind };
        assert_eq!(seconds(slow, &[answer(99)], 0), 13.0 * 20.0 + 12.5);
    }

    #[test]
    fn a_state_is_read_once_a_step_whatever_the_length() {
        let layers = Layers { kinds: vec![], state: 2.0 };
        let parts = [answer(5), answer(5_000), prompt(0, 300)];
        assert_eq!(layers.seconds(parts.into_iter(), 0), 4.0 + 2.0);
    }

    #[test]
    fn a_prompt_takes_the_longer_of_reading_and_computing() {
        // 1 token behind 99 reads 100 of 3 s; 10 tokens behind 90 compute 91 + ... + 100 pairs of 1 s.
        assert_eq!(seconds(ALL, &[prompt(99, 1)], 0), 300.0);
        assert_eq!(seconds(ALL, &[prompt(90, 10)], 0), 955.0);
    }

    #[test]
    fn a_prefix_that_all_share_is_read_once() {
        let parts = [answer(99), answer(119), answer(79)];
        assert_eq!(seconds(ALL, &parts, 0), 300.0 * 3.0);
        // 60 once; 40, 60 and 20 behind it.
        assert_eq!(seconds(ALL, &parts, 60), 180.0 * 3.0);
    }

    #[test]
    fn drafts_attend_and_read_nothing_more() {
        let slow = LayerKind { answer_pair: 10.0, ..ALL };
        let drafted = Part { drafts: 2, ..answer(9) };
        // The token attends to 10, its drafts to 11 and 12.
        assert_eq!(seconds(slow, &[drafted], 0), 330.0);
        assert_eq!(seconds(ALL, &[drafted], 0), 33.0);
        assert_eq!(seconds(LayerKind { answer_pair: 0.0, ..ALL }, &[drafted], 0), 30.0);
    }
}
