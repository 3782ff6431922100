//! `StepProfile`: how long a simulated server's steps take.

use std::sync::Arc;

use kvframe_server::profile::{History, LayerKind, Layers, Matrices, Routed, TableRow};
use kvframe_server::{Batch, Fitted, Layered, Roofline, StepTable, StepTime};
use kvframe_trace::replay::FixedRates;
use pyo3::prelude::*;

use crate::errors::usage;

/// Where a step's time comes from.
#[derive(Clone)]
pub(crate) enum Source {
    Fixed(FixedRates),
    Steps(Arc<dyn StepTime + Send + Sync>),
}

/// Reading, products of a token, and experts.
type FormatTable = (f64, f64, Vec<(f64, f64, f64)>);

/// Window, history, reading a position, and its pairs with tokens of prompts and answers.
type KindTable = (u32, Option<(u32, u32, f64, f64)>, f64, f64, f64);

/// How long a simulated server's steps take.
#[pyclass(frozen, module = "kvframe._core")]
pub struct StepProfile {
    pub(crate) source: Source,
}

#[pymethods]
impl StepProfile {
    /// Two rates: prompt tokens a second, one prompt after the other, and seconds a token of an answer,
    /// whatever else runs.
    #[staticmethod]
    fn fixed(py: Python<'_>, prefill: f64, decode: f64) -> PyResult<Self> {
        let good = prefill > 0.0 && prefill.is_finite() && decode >= 0.0 && decode.is_finite();
        if !good {
            let rates = format!("prefill = {prefill}, decode = {decode}");
            return Err(usage(py, format!("{rates}: must be above 0, and 0 or more")));
        }
        Ok(Self { source: Source::Fixed(FixedRates { prefill, decode }) })
    }

    /// Seconds of the host's part of a step, of reading the weights, of one token's matrix products, of
    /// reading one token's KV, of the attention of one prompt token to one token, and of what cards send one
    /// another for one token. With `cascade`, what all prompts of a step begin with is read once.
    #[staticmethod]
    #[pyo3(signature = (host, weights, token, kv_token, pair, exchange=0.0, *, cascade=false))]
    fn roofline(
        py: Python<'_>,
        host: f64,
        weights: f64,
        token: f64,
        kv_token: f64,
        pair: f64,
        exchange: f64,
        cascade: bool,
    ) -> PyResult<Self> {
        let terms = [host, weights, token, kv_token, pair, exchange];
        if terms.iter().any(|term| !term.is_finite() || *term < 0.0) || host + weights <= 0.0 {
            return Err(usage(
                py,
                format!(
                    "terms = {terms:?}: must be 0 or more, and the sum of the first two above 0"
                ),
            ));
        }
        let is_cascade = cascade;
        let roofline = Roofline { host, weights, token, kv_token, pair, exchange, is_cascade };
        Ok(Self { source: Source::Steps(Arc::new(roofline)) })
    }

    /// Roofline terms of weights in several number formats and of layers of several kinds, in seconds: of the
    /// host; of each format, reading what all tokens share, the products of one token, and of experts their
    /// number, those of a token, and reading one; of each kind, tokens of its window, of its history the tokens
    /// an entry, the most entries, scoring one and reading the keys of one token, and then reading a position,
    /// and a pair of it and a token of a prompt, and of an answer; of reading a sequence's states; of what cards
    /// send one another for one token. 2^32 - 1 tokens or entries are all.
    #[staticmethod]
    #[pyo3(signature = (host, matrices, kinds, state=0.0, exchange=0.0, *, cascade=false))]
    fn layered(
        py: Python<'_>,
        host: f64,
        matrices: Vec<FormatTable>,
        kinds: Vec<KindTable>,
        state: f64,
        exchange: f64,
        cascade: bool,
    ) -> PyResult<Self> {
        let experts = matrices.iter().flat_map(|one| &one.2);
        let histories = kinds.iter().filter_map(|one| one.1);
        let mut terms = vec![state, exchange];
        terms.extend(matrices.iter().flat_map(|one| [one.0, one.1]));
        terms.extend(experts.clone().flat_map(|one| [one.1, one.2]));
        terms.extend(histories.clone().flat_map(|one| [one.2, one.3]));
        terms.extend(kinds.iter().flat_map(|one| [one.2, one.3, one.4]));
        let are_good = terms.iter().all(|term| term.is_finite() && *term >= 0.0)
            && experts.clone().all(|one| one.0.is_finite() && one.0 >= 1.0)
            && histories.clone().all(|one| one.0 >= 1);
        if !are_good || !host.is_finite() || host <= 0.0 {
            return Err(usage(
                py,
                "layered terms: must be 0 or more, host above 0, experts and tokens an entry 1 or more"
                    .into(),
            ));
        }
        let routed = |(experts, used, read)| Routed { experts, used, read };
        let matrices = matrices.into_iter().map(|(read, token, experts)| Matrices {
            read,
            token,
            routed: experts.into_iter().map(routed).collect(),
        });
        let history = |(compress_ratio, index_topk, score, score_read)| History {
            compress_ratio,
            index_topk,
            score,
            score_read,
        };
        let kinds = kinds.into_iter().map(|(window, of, read, prompt_pair, answer_pair)| {
            LayerKind { window, history: of.map(history), read, prompt_pair, answer_pair }
        });
        let layered = Layered {
            host,
            matrices: matrices.collect(),
            layers: Layers { kinds: kinds.collect(), state },
            exchange,
            is_cascade: cascade,
        };
        Ok(Self { source: Source::Steps(Arc::new(layered)) })
    }

    /// Terms fitted to measured steps, in seconds: of any step; from so many tokens on, of each further one,
    /// the first from 0; of a decoding sequence; of reading one token's KV; of the attention of one prompt
    /// token to one token; of each pair of a token and a token that decoding sequences attend to.
    #[staticmethod]
    #[pyo3(signature = (fixed, tokens, sequence, kv_token, pair, mixed=0.0))]
    fn fitted(
        py: Python<'_>,
        fixed: f64,
        tokens: Vec<(f64, f64)>,
        sequence: f64,
        kv_token: f64,
        pair: f64,
        mixed: f64,
    ) -> PyResult<Self> {
        let rises = tokens.first().is_none_or(|first| first.0 == 0.0)
            && tokens.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let each = tokens.iter().map(|&(_, seconds)| seconds);
        let mut terms = each.chain([fixed, sequence, kv_token, pair, mixed]);
        if !rises || fixed <= 0.0 || terms.any(|term| !term.is_finite() || term < 0.0) {
            return Err(usage(
                py,
                "fitted terms: must be 0 or more, fixed above 0, and tokens rise from 0".into(),
            ));
        }
        let fitted = Fitted { fixed, tokens, sequence, kv_token, pair, mixed };
        Ok(Self { source: Source::Steps(Arc::new(fitted)) })
    }

    /// Tokens of a chunk below which its attention takes no less time.
    #[classattr]
    const SHORT_CHUNK: u32 = Batch::SHORT_CHUNK;

    /// Measured steps: of each, the sequences that decoded, the tokens that those attended to, the prompt
    /// tokens, the tokens that each of these attended to on the mean, and its seconds.
    #[staticmethod]
    fn table(py: Python<'_>, rows: Vec<(f64, f64, f64, f64, f64)>) -> PyResult<Self> {
        let row = |(n_decode, kv_decode, prefill_chunk, prefill_context, seconds)| TableRow {
            n_decode,
            kv_decode,
            prefill_chunk,
            prefill_context,
            seconds,
        };
        let rows: Vec<TableRow> = rows.into_iter().map(row).collect();
        let table = StepTable::new(&rows).map_err(|error| usage(py, error.to_string()))?;
        Ok(Self { source: Source::Steps(Arc::new(table)) })
    }
}
