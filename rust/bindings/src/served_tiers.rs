//! The tiers of a simulated server, made from what Python said of them.

use kvframe_core::policy::admission::Tier;
use kvframe_core::tier::TierLimits;
use kvframe_server::tiers::options::{
    BreakEven, HitRefresh, LinkOptions, PromoteFill, Sharing, StoragePrefetch, TierAdmission,
    TierOptions, TierParts, TierSet,
};
use kvframe_server::tiers::report::{TierCounts, TierReport};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::from_core;
use crate::policy::admission::{PyAdmission, make_admission};
use crate::policy::eviction::make_policy;
use crate::policy::host::Outside;
use crate::serve::named;

/// The policies of a tier that lie outside the core.
pub(crate) struct OutsideTier {
    pub(crate) eviction: Outside,
    pub(crate) admission: Option<PyAdmission>,
}

/// A tier, as `kvframe.bench.server.tiers` says it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TierTable<'py> {
    kind: String,
    pages: u32,
    in_flight: u32,
    backed_first: bool,
    high: f64,
    low: f64,
    refuses: bool,
    page_bytes: f64,
    link: usize,
    /// Further links that what comes to the pool or from it crosses at once.
    path: Vec<usize>,
    /// Tokens; None where it follows from the times.
    break_even: Option<u32>,
    eviction: Bound<'py, PyAny>,
    eviction_options: Option<Bound<'py, PyDict>>,
    admission: Bound<'py, PyAny>,
    admission_options: Option<Bound<'py, PyDict>>,
}

/// A link: bytes a second up, bytes a second down, seconds, and where transfers share it evenly, bytes a second of
/// one at most.
pub(crate) type LinkTuple = (f64, f64, f64, Option<f64>);

/// How pages of all tiers move.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct MovesTable {
    /// So many requests at the front of the queue have their pages brought to host memory.
    prefetch: usize,
    fill: String,
    storage_prefetch: String,
    /// Seconds, for `storage_prefetch = "timeout"`.
    timeout: f64,
    live: bool,
    evict_backed_first: bool,
    hit_refresh: String,
}

const FILLS: [(&str, PromoteFill); 4] = [
    ("host", PromoteFill::Host),
    ("through", PromoteFill::Through),
    ("buffer", PromoteFill::Buffer),
    ("direct", PromoteFill::Direct),
];

const REFRESHES: [(&str, HitRefresh); 2] =
    [("first-tier", HitRefresh::FirstTier), ("none", HitRefresh::None)];

/// The tiers, and what of their policies lies outside the core.
pub(crate) fn made(
    py: Python<'_>,
    tiers: Vec<TierTable<'_>>,
    links: &[LinkTuple],
    moves: Option<&MovesTable>,
) -> PyResult<(TierSet, Vec<OutsideTier>)> {
    let mut outside = Vec::new();
    let mut parts = Vec::new();
    for told in tiers {
        let eviction = make_policy(py, &told.eviction, told.eviction_options.as_ref())?;
        let asked = (Some(&told.admission), told.admission_options.as_ref());
        let (policy, admission) = make_admission(py, asked.0, asked.1, 0)?;
        let options = TierOptions {
            kind: Tier::from_name(&told.kind).map_err(|e| from_core(py, &e))?,
            limits: TierLimits {
                pages: told.pages,
                in_flight: told.in_flight,
                backed_first: told.backed_first,
            },
            high: told.high,
            low: told.low,
            refuses: told.refuses,
            page_bytes: told.page_bytes,
            link: told.link,
            path: told.path,
            break_even: match told.break_even {
                None => BreakEven::Auto,
                Some(0) => BreakEven::Off,
                Some(tokens) => BreakEven::Tokens(tokens),
            },
        };
        let is_outside = admission.python.is_some();
        parts.push(TierParts {
            options,
            eviction: eviction.eviction,
            admission: if is_outside {
                TierAdmission::Outside
            } else {
                TierAdmission::Core(policy)
            },
        });
        outside.push(OutsideTier { eviction: eviction.outside, admission: admission.python });
    }
    let sharing = |each: Option<f64>| each.map_or(Sharing::InTurn, |each| Sharing::Evenly { each });
    let link = |&(read, write, latency, each): &LinkTuple| LinkOptions {
        read,
        write,
        latency,
        sharing: sharing(each),
    };
    let (fill, storage_prefetch) = match moves {
        None => (PromoteFill::Host, StoragePrefetch::WaitComplete),
        Some(moves) => {
            let waits = [
                ("wait-complete", StoragePrefetch::WaitComplete),
                ("best-effort", StoragePrefetch::BestEffort),
                ("timeout", StoragePrefetch::Timeout(moves.timeout)),
            ];
            let fill = named(py, "fill", &moves.fill, &FILLS)?;
            (fill, named(py, "storage_prefetch", &moves.storage_prefetch, &waits)?)
        }
    };
    let refresh = |told: &MovesTable| named(py, "hit_refresh", &told.hit_refresh, &REFRESHES);
    let hit_refresh = moves.map(refresh).transpose()?.unwrap_or_default();
    let set = TierSet {
        tiers: parts,
        links: links.iter().map(link).collect(),
        prefetch: moves.map_or(0, |moves| moves.prefetch),
        fill,
        storage_prefetch,
        live: moves.is_some_and(|moves| moves.live),
        evict_backed_first: moves.is_some_and(|moves| moves.evict_backed_first),
        hit_refresh,
    };
    Ok((set, outside))
}

/// What the tiers did: a dict for each, with a column of the requests; and counts of all of them.
pub(crate) fn report<'py>(
    py: Python<'py>,
    told: &TierReport,
    into: &Bound<'py, PyDict>,
) -> PyResult<()> {
    let tiers = PyList::empty(py);
    for (counts, loaded) in told.tiers.iter().zip(&told.loaded) {
        let TierCounts {
            loaded_tokens,
            read_bytes,
            written_bytes,
            read_pages,
            written_pages,
            filled_pages,
            others_pages,
            evicted_pages,
            break_even,
        } = *counts;
        let dict = PyDict::new(py);
        dict.set_item("loaded_tokens", loaded_tokens)?;
        dict.set_item("read_bytes", read_bytes)?;
        dict.set_item("written_bytes", written_bytes)?;
        dict.set_item("read_pages", read_pages)?;
        dict.set_item("written_pages", written_pages)?;
        dict.set_item("filled_pages", filled_pages)?;
        dict.set_item("others_pages", others_pages)?;
        dict.set_item("evicted_pages", evicted_pages)?;
        dict.set_item("break_even", break_even)?;
        dict.set_item("loaded", PyArray1::from_slice(py, loaded))?;
        tiers.append(dict)?;
    }
    into.set_item("tiers", tiers)?;
    into.set_item("swaps", told.swaps)?;
    into.set_item("swapped_out_pages", told.swapped_out_pages)?;
    into.set_item("swapped_in_pages", told.swapped_in_pages)?;
    into.set_item("deferred", told.deferred)?;
    into.set_item("direct_pages", told.direct_pages)?;
    into.set_item("given_up", told.given_up)?;
    into.set_item("dropped_pages", told.dropped_pages)?;
    into.set_item("ahead_pages", told.ahead_pages)?;
    into.set_item("ahead_used_pages", told.ahead_used_pages)?;
    into.set_item("stalled_seconds", told.stalled_seconds)
}
