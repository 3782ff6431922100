//! Servers whose every event can be worked out: blocks of 4 tokens, lru, steps of 10 s and 1 s a token.

use kvframe_core::policy::admission::{self, Tier};
use kvframe_core::policy::{PolicyOptions, by_name};
use kvframe_core::tier::TierLimits;
use kvframe_core::{Error, Manager};
use kvframe_server::tiers::options::{
    BreakEven, HitRefresh, LinkOptions, PromoteFill, Sharing, StoragePrefetch, TierAdmission,
    TierOptions, TierParts, TierSet,
};
use kvframe_server::{
    Batch, EngineParts, Fate, FleetOptions, FleetReport, RequestRecord, ServerOptions,
    ServerReport, Tiers, simulate_fleet, simulate_with,
};
use kvframe_trace::replay::{Host, PreparedTrace, SilentHost};
use kvframe_trace::{Mode, Trace};

pub fn serve(
    rows: &str,
    (blocks, tiers): (u32, Option<Tiers>),
    options: &ServerOptions,
) -> ServerReport {
    let trace = Trace::parse(rows.as_bytes(), "by hand", Some(4)).unwrap();
    let plan = trace.plan(Mode::Timed);
    let prepared = PreparedTrace::new(&trace, Mode::Timed, &plan);
    let lru = by_name("lru", PolicyOptions::default()).unwrap();
    let mut manager = Manager::new(prepared.options(Some(blocks)).unwrap(), lru).unwrap();
    let seconds = |batch: &Batch| 10.0 + f64::from(batch.num_tokens());
    let traced = (&trace, &plan);
    let report =
        simulate_with(tiers, traced, &mut manager, &mut SilentHost, options, &seconds).unwrap();
    manager.check_integrity().unwrap();
    assert_eq!(manager.num_running(), 0);
    report
}

/// So many engines of so many blocks, without tiers.
pub fn fleet(rows: &str, (engines, blocks): (usize, u32), how: FleetOptions) -> FleetReport {
    let trace = Trace::parse(rows.as_bytes(), "by hand", Some(4)).unwrap();
    let plan = trace.plan(Mode::Timed);
    let prepared = PreparedTrace::new(&trace, Mode::Timed, &plan);
    let make = |_| {
        let lru = by_name("lru", PolicyOptions::default()).unwrap();
        let mut options = prepared.options(Some(blocks)).unwrap();
        options.event_log = how.is_heard();
        Manager::new(options, lru).unwrap()
    };
    let mut managers: Vec<Manager> = (0..engines).map(make).collect();
    let mut hosts = vec![SilentHost; engines];
    let parts: Vec<EngineParts<'_>> = managers
        .iter_mut()
        .zip(&mut hosts)
        .map(|(manager, host)| (manager, host as &mut dyn Host, None))
        .collect();
    let seconds = |batch: &Batch| 10.0 + f64::from(batch.num_tokens());
    let options = ServerOptions::default();
    let report = simulate_fleet((&trace, &plan), parts, &options, how, &seconds).unwrap();
    for manager in &managers {
        manager.check_integrity().unwrap();
        assert_eq!(manager.num_running(), 0);
    }
    report
}

/// Host memory of so many pages of 10 bytes under lru, over a link that carries so many bytes a second, with 1 s
/// of latency.
pub fn host(admission: &str, pages: u32, speed: (f64, f64)) -> Tiers {
    below(&[(admission, pages, speed)], |_| ())
}

/// Such tiers, host memory first, each with a link of its own; and what else is to be so.
pub fn below(tiers: &[(&str, u32, (f64, f64))], set: impl FnOnce(&mut TierSet)) -> Tiers {
    try_below(tiers, set).unwrap()
}

/// The same, where it may be refused.
pub fn try_below(
    tiers: &[(&str, u32, (f64, f64))],
    set: impl FnOnce(&mut TierSet),
) -> Result<Tiers, Error> {
    let options = PolicyOptions::default();
    let tier = |(place, &(admission, pages, _)): (usize, &(&str, u32, (f64, f64)))| TierParts {
        options: TierOptions {
            kind: [Tier::Host, Tier::Disk, Tier::Remote][place],
            limits: TierLimits { pages, in_flight: 100, backed_first: false },
            high: 0.95,
            low: 0.9,
            refuses: false,
            page_bytes: 10.0,
            link: place,
            path: Vec::new(),
            break_even: BreakEven::Off,
        },
        eviction: by_name("lru", options).unwrap(),
        admission: TierAdmission::Core(admission::by_name(admission, options).unwrap()),
    };
    let sharing = Sharing::InTurn;
    let link = |&(_, _, (read, write)): &(&str, u32, (f64, f64))| LinkOptions {
        read,
        write,
        latency: 1.0,
        sharing,
    };
    let mut made = TierSet {
        tiers: tiers.iter().enumerate().map(tier).collect(),
        links: tiers.iter().map(link).collect(),
        prefetch: 0,
        fill: PromoteFill::default(),
        storage_prefetch: StoragePrefetch::default(),
        live: false,
        evict_backed_first: false,
        hit_refresh: HitRefresh::default(),
    };
    set(&mut made);
    Tiers::new(made, 4)
}

/// A request that was served: arrival, start, first token and end, in seconds; tokens found; tokens computed
/// again; preemptions.
pub fn finished(times: [f64; 4], cached: u32, again: u32, preemptions: u32) -> RequestRecord {
    let [arrival, start, first_token, end] = times;
    RequestRecord {
        fate: Fate::Finished,
        arrival,
        start,
        first_token,
        end,
        cached_tokens: cached,
        joined_tokens: 0,
        peer_tokens: 0,
        recomputed_tokens: again,
        preemptions,
    }
}
