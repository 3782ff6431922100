//! Random tiers below a server.

use kvframe_core::policy::admission::{self, Tier};
use kvframe_core::policy::{NAMES, PolicyOptions, by_name};
use kvframe_core::tier::TierLimits;
use kvframe_server::Tiers;
use kvframe_server::tiers::options::{
    BreakEven, HitRefresh, LinkOptions, PromoteFill, Sharing, StoragePrefetch, TierAdmission,
    TierOptions, TierParts, TierSet,
};
use proptest::prelude::*;

use super::BLOCK;

/// The tiers below a server, drawn.
#[derive(Debug, Clone, Default)]
pub struct Stack {
    pub below: Vec<Below>,
    prefetch: usize,
    /// They share one link.
    pub shares: bool,
    /// Bytes a second of a link that all cross beside their own, where links are shared evenly.
    port: Option<f64>,
    pub ways: Ways,
}

/// How their pages move, drawn.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ways {
    pub fill: PromoteFill,
    storage_prefetch: StoragePrefetch,
    sharing: Sharing,
    live: bool,
    evict_backed_first: bool,
    hit_refresh: HitRefresh,
}

/// A tier, drawn.
#[derive(Debug, Clone)]
pub struct Below {
    admission: &'static str,
    pub policy: &'static str,
    pub pages: u32,
    in_flight: u32,
    refuses: bool,
    backed_first: bool,
    rate: f64,
    latency: f64,
    break_even: BreakEven,
}

pub const PAGE_BYTES: f64 = 100.0;

fn belows() -> impl Strategy<Value = Vec<Below>> {
    let admissions = ["always", "write-through", "write-back", "selective", "second-use"];
    let chosen = (prop::sample::select(admissions.to_vec()), prop::sample::select(NAMES.to_vec()));
    let sizes = (1u32..60, 1u32..40, any::<bool>(), any::<bool>());
    let break_evens = vec![BreakEven::Off, BreakEven::Auto, BreakEven::Tokens(9)];
    let speeds = (1e2f64..1e6, 0.0f64..0.05, prop::sample::select(break_evens));
    let below = (chosen, sizes, speeds).prop_map(|((admission, policy), sizes, speeds)| {
        let (pages, in_flight, refuses, backed_first) = sizes;
        let (rate, latency, break_even) = speeds;
        Below {
            admission,
            policy,
            pages,
            in_flight,
            refuses,
            backed_first,
            rate,
            latency,
            break_even,
        }
    });
    prop::collection::vec(below, 0..4)
}

fn ways() -> impl Strategy<Value = Ways> {
    let fills = [PromoteFill::Host, PromoteFill::Through, PromoteFill::Buffer, PromoteFill::Direct];
    let waits = prop_oneof![
        2 => Just(StoragePrefetch::WaitComplete),
        1 => Just(StoragePrefetch::BestEffort),
        1 => (0.0f64..0.1).prop_map(StoragePrefetch::Timeout),
    ];
    let sharing = prop_oneof![
        1 => Just(Sharing::InTurn),
        1 => (1e2f64..1e6).prop_map(|each| Sharing::Evenly { each }),
    ];
    let refreshes = prop::sample::select(vec![HitRefresh::FirstTier, HitRefresh::None]);
    let chosen = (prop::sample::select(fills.to_vec()), waits, sharing);
    (chosen, prop::bool::weighted(0.3), any::<bool>(), refreshes).prop_map(
        |((fill, storage_prefetch, sharing), live, evict_backed_first, hit_refresh)| Ways {
            fill,
            storage_prefetch,
            sharing,
            live,
            evict_backed_first,
            hit_refresh,
        },
    )
}

pub fn stacks() -> impl Strategy<Value = Stack> {
    let port = prop::option::of(1e2f64..1e6);
    (belows(), 0usize..4, any::<bool>(), port, ways()).prop_map(
        |(below, prefetch, shares, port, ways)| Stack { below, prefetch, shares, port, ways },
    )
}

pub fn tiers(stack: &Stack) -> Option<Tiers> {
    let port = stack.port.filter(|_| stack.ways.sharing != Sharing::InTurn);
    let kinds = [Tier::Host, Tier::Disk, Tier::Remote];
    let tier = |(place, below): (usize, &Below)| TierParts {
        options: TierOptions {
            kind: kinds[place],
            limits: TierLimits {
                pages: below.pages,
                in_flight: below.in_flight,
                backed_first: below.backed_first,
            },
            high: 0.95,
            low: 0.8,
            refuses: below.refuses,
            page_bytes: PAGE_BYTES,
            link: if stack.shares { 0 } else { place },
            path: port.map(|_| stack.below.len()).into_iter().collect(),
            break_even: below.break_even,
        },
        eviction: by_name(below.policy, PolicyOptions::default()).unwrap(),
        admission: TierAdmission::Core(
            admission::by_name(below.admission, PolicyOptions::default()).unwrap(),
        ),
    };
    let Ways { fill, storage_prefetch, sharing, live, evict_backed_first, hit_refresh } =
        stack.ways;
    let link = |below: &Below| LinkOptions {
        read: below.rate,
        write: below.rate,
        latency: below.latency,
        sharing,
    };
    let over = |rate| LinkOptions { read: rate, write: rate, latency: 0.001, sharing };
    let set = TierSet {
        tiers: stack.below.iter().enumerate().map(tier).collect(),
        links: stack.below.iter().map(link).chain(port.map(over)).collect(),
        prefetch: stack.prefetch,
        fill,
        storage_prefetch,
        live,
        evict_backed_first,
        hit_refresh,
    };
    (!stack.below.is_empty()).then(|| Tiers::new(set, BLOCK).unwrap())
}
