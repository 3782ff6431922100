//! Random traffic, and random servers for it.
#![allow(dead_code)] // each test takes what it needs

pub mod by_hand;
pub mod stack;

use std::fmt::Write as _;

use kvframe_core::manager::PreemptionOrder;
use kvframe_core::policy::NAMES;
use kvframe_server::profile::{History, LayerKind, Layers, Matrices, Routed};
use kvframe_server::{
    Acceptance, Batch, DraftPolicy, Drafter, Layered, MeasuredSteps, Preemption, QueueOrder,
    ReturnOptions, Round, ServerOptions, Speculation, Switch,
};
use proptest::prelude::*;

pub const BLOCK: u32 = 4;

/// A turn: how long after the request before it came, its session, the prompt's tokens beyond those of
/// the turn before, and its answer's.
pub type Turn = (u32, u32, u32, u32);

/// Prompts of a session grow: a turn begins with the prompt and the answer of the turn before, or, where
/// `is_same` of its session, starts over. Sessions share their first block.
pub fn rows(turns: &[Turn]) -> String {
    let (mut text, mut time) = (String::new(), 0);
    let mut lengths = [0u32; 4];
    for &(gap, session, more, answer) in turns {
        time += gap;
        let length = &mut lengths[session as usize];
        *length = if *length > 60 { more } else { *length + more };
        let ids: Vec<u32> = (0..*length / BLOCK)
            .map(|at| if at == 0 { 0 } else { 1 + session * 1_000 + at })
            .collect();
        writeln!(
            text,
            r#"{{"timestamp": {time}, "input_length": {length}, "output_length": {answer}, "session_id": {session}, "hash_ids": {ids:?}}}"#
        )
        .unwrap();
        *length += answer;
    }
    text
}

#[derive(Debug, Clone)]
pub struct Server {
    pub policy: &'static str,
    pub blocks: u32,
    pub options: ServerOptions,
}

pub fn servers() -> impl Strategy<Value = Server> {
    let orders = [
        QueueOrder::Fcfs,
        QueueOrder::Shortest,
        QueueOrder::Longest,
        QueueOrder::ShortestOutput,
        QueueOrder::LongestOutput,
        QueueOrder::ShortestTotal,
        QueueOrder::LongestTotal,
        QueueOrder::LongestPrefix,
        QueueOrder::FewestUncached,
    ];
    let victims = [
        PreemptionOrder::LastAdmitted,
        PreemptionOrder::FewestComputed,
        PreemptionOrder::LongestFirst,
        PreemptionOrder::MostFreed,
    ];
    let policies: Vec<&str> = NAMES.to_vec();
    let longest = prop_oneof![2 => Just(u32::MAX), 1 => 1u32..20];
    let sizes = (4u32..40, 1u32..6, 1u32..40, (longest, prop::bool::weighted(0.8)));
    let preemptions =
        [Preemption::Recompute, Preemption::Swap, Preemption::Auto, Preemption::Never];
    let preemption = prop::sample::select(preemptions.to_vec());
    let ways = (any::<bool>(), any::<bool>(), any::<bool>(), preemption, 0.25f64..4.0);
    let guesses = (prop::option::of(0.0f64..0.2), 0.0f64..0.05);
    let returns = prop::option::of(guesses.prop_map(|(after, lead)| ReturnOptions { after, lead }));
    let moves = (prop::sample::select(vec![0, 1, 3, 32]), returns, any::<bool>());
    let drafts = prop::option::weighted(0.3, speculations());
    let orders = (prop::sample::select(orders.to_vec()), prop::sample::select(victims.to_vec()));
    let chosen = (prop::sample::select(policies), orders);
    let all = (chosen, sizes, ways, drafts, moves);
    all.prop_map(|((policy, orders), sizes, ways, speculation, moves)| {
        let (load_layers, returns, tell_next_use) = moves;
        let (order, preemption_order) = orders;
        let (closed_loop, generated, join, preemption, load) = ways;
        let (blocks, max_num_seqs, max_num_batched_tokens, prefills) = sizes;
        let (long_prefill_token_threshold, chunked_prefill) = prefills;
        let options = ServerOptions {
            max_num_seqs,
            max_num_batched_tokens,
            long_prefill_token_threshold,
            chunked_prefill,
            order,
            load,
            closed_loop,
            cache_generated: generated,
            preemption,
            preemption_order,
            load_layers,
            returns,
            tell_next_use,
            join,
            speculation,
            ..ServerOptions::default()
        };
        Server { policy, blocks, options }
    })
}

/// So many drafts, always.
pub fn drafts(drafts: u32, acceptance: Acceptance, cost: f64) -> Speculation {
    Speculation {
        drafts,
        acceptance,
        drafter: Drafter::Share(cost),
        policy: DraftPolicy::Fixed,
        switch: Switch::default(),
        measured: None,
    }
}

fn speculations() -> impl Strategy<Value = Speculation> {
    let shares = || prop::collection::vec(0.0f64..=1.0, 1..5);
    let round = (0u32..6, shares()).prop_map(|(right, told)| Round { right, told });
    let acceptance = prop_oneof![
        (0.0f64..=1.0).prop_map(Acceptance::Each),
        shares().prop_map(Acceptance::Places),
        prop::collection::vec(round, 1..9).prop_map(Acceptance::Rounds),
    ];
    let drafter = prop_oneof![
        (0.0f64..0.3).prop_map(Drafter::Share),
        (0.0f64..1e-4, 0.0f64..1e-3, 0.0f64..1e-4, (0u32..9, 0u32..3, 0u32..2)).prop_map(
            |(token, dense, expert, experts)| {
                Drafter::Autoregressive { token, dense, expert, experts }
            }
        ),
        (0.0f64..1e-4, 0.0f64..1e-3)
            .prop_map(|(sequence, weights)| Drafter::Block { sequence, weights }),
    ];
    let policies = [
        DraftPolicy::Fixed,
        DraftPolicy::GoodputBudget,
        DraftPolicy::GatedBudget,
        DraftPolicy::GatedAggregate,
    ];
    let switch = (0u32..4, prop::option::of(1u32..3), 0.0f64..0.01)
        .prop_map(|(cooldown, max_step, cost)| Switch { cooldown, max_step, cost });
    let rows = prop::collection::vec((1u32..6, 0u32..5, 1e-3f64..1e-2), 1..12);
    let measured = prop::option::weighted(0.3, (rows, prop::option::of(1u32..60)));
    let how = (prop::sample::select(policies.to_vec()), switch);
    (1u32..5, acceptance, drafter, how, measured).prop_map(
        |(drafts, acceptance, drafter, (policy, switch), measured)| {
            let measured = measured.and_then(|(rows, context)| MeasuredSteps::new(&rows, context));
            Speculation { drafts, acceptance, drafter, policy, switch, measured }
        },
    )
}

pub fn traffic() -> impl Strategy<Value = Vec<Turn>> {
    prop::collection::vec((0u32..60, 0u32..4, 0u32..30, 0u32..12), 1..40)
}

/// Layers of several kinds, at times that no binary fraction holds exactly.
pub fn layered() -> impl Strategy<Value = Layered> {
    let history = (1u32..5, prop_oneof![Just(u32::MAX), 0u32..8], 0.0f64..1e-5, 0.0f64..1e-5);
    let history =
        prop::option::of(history.prop_map(|(compress_ratio, index_topk, score, score_read)| {
            History { compress_ratio, index_topk, score, score_read }
        }));
    let window = prop_oneof![Just(u32::MAX), 0u32..30];
    let times = (0.0f64..1e-4, 0.0f64..1e-5, 0.0f64..1e-4);
    let kind = (window, history, times).prop_map(|(window, history, times)| {
        let (read, prompt_pair, answer_pair) = times;
        LayerKind { window, history, read, prompt_pair, answer_pair }
    });
    let experts = (1.0f64..20.0, 0.5f64..4.0, 0.0f64..0.001);
    let routed = experts.prop_map(|(experts, used, read)| Routed { experts, used, read });
    let matrices = (0.0f64..0.005, 0.0f64..0.001, prop::collection::vec(routed, 0..3))
        .prop_map(|(read, token, routed)| Matrices { read, token, routed });
    let parts = (prop::collection::vec(kind, 0..4), prop::collection::vec(matrices, 0..3));
    (parts, 0.0f64..1e-4, any::<bool>()).prop_map(|((kinds, matrices), state, is_cascade)| {
        Layered {
            host: 0.0031,
            matrices,
            layers: Layers { kinds, state },
            exchange: 1e-5,
            is_cascade,
        }
    })
}

/// Times that no binary fraction holds exactly.
pub fn seconds(batch: &Batch) -> f64 {
    0.0031 + 0.0007 * f64::from(batch.num_tokens()) + batch.kv_decode as f64 * 1e-5
}
