//! What simulated servers counted, as Python reads it.

use kvframe_server::{Fate, FleetReport, RequestRecord, ServerReport};
use numpy::{Element, PyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::served_tiers;

/// What several engines counted: all of them together, and each.
pub(crate) fn fleet_dict(py: Python<'_>, report: FleetReport) -> PyResult<Bound<'_, PyDict>> {
    let FleetReport { requests, engine_of, decoded_by, promised_tokens, engines, messages } =
        report;
    let own = PyList::empty(py);
    for engine in &engines {
        let dict = PyDict::new(py);
        dict.set_item("steps", engine.steps)?;
        dict.set_item("busy_seconds", engine.busy_seconds)?;
        dict.set_item("prefill_tokens", engine.prefill_tokens)?;
        dict.set_item("decode_tokens", engine.decode_tokens)?;
        dict.set_item("evictions", engine.evictions)?;
        dict.set_item("peak_waiting", engine.peak_waiting)?;
        own.append(dict)?;
    }
    let mut all = engines.into_iter().fold(ServerReport::default(), together);
    all.requests = requests;
    let dict = report_dict(py, &all)?;
    dict.set_item("engines", own)?;
    dict.set_item("engine_of", PyArray1::from_vec(py, engine_of))?;
    dict.set_item("decoded_by", PyArray1::from_vec(py, decoded_by))?;
    dict.set_item("promised_tokens", PyArray1::from_vec(py, promised_tokens))?;
    dict.set_item("messages", messages.0)?;
    dict.set_item("messages_lost", messages.1)?;
    Ok(dict)
}

/// What two engines counted together; the longest queue of both.
fn together(mut all: ServerReport, one: ServerReport) -> ServerReport {
    all.gaps.extend(one.gaps);
    all.steps += one.steps;
    all.busy_seconds += one.busy_seconds;
    all.prefill_tokens += one.prefill_tokens;
    all.decode_tokens += one.decode_tokens;
    all.wrong_drafts += one.wrong_drafts;
    all.handed_tokens += one.handed_tokens;
    all.peer_tokens += one.peer_tokens;
    all.peer_bytes += one.peer_bytes;
    all.found_on_return += one.found_on_return;
    all.block_seconds += one.block_seconds;
    all.peak_waiting = all.peak_waiting.max(one.peak_waiting);
    all.waiting_at_last_arrival += one.waiting_at_last_arrival;
    all.last_arrival = all.last_arrival.max(one.last_arrival);
    all.evictions += one.evictions;
    all.tiers = match (all.tiers, one.tiers) {
        (Some(all), Some(one)) => Some(all.together(one)),
        (all, one) => all.or(one),
    };
    all
}

/// What was counted, and a column for each fact of the requests.
pub(crate) fn report_dict<'py>(
    py: Python<'py>,
    report: &ServerReport,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("steps", report.steps)?;
    dict.set_item("busy_seconds", report.busy_seconds)?;
    dict.set_item("prefill_tokens", report.prefill_tokens)?;
    dict.set_item("decode_tokens", report.decode_tokens)?;
    dict.set_item("wrong_drafts", report.wrong_drafts)?;
    dict.set_item("handed_tokens", report.handed_tokens)?;
    dict.set_item("fetched_tokens", report.peer_tokens)?;
    dict.set_item("peer_bytes", report.peer_bytes)?;
    dict.set_item("found_on_return", report.found_on_return)?;
    dict.set_item("block_seconds", report.block_seconds)?;
    dict.set_item("peak_waiting", report.peak_waiting)?;
    dict.set_item("waiting_at_last_arrival", report.waiting_at_last_arrival)?;
    dict.set_item("last_arrival", report.last_arrival)?;
    dict.set_item("evictions", report.evictions)?;
    if let Some(told) = &report.tiers {
        served_tiers::report(py, told, &dict)?;
    }
    let gaps = report.gaps.iter();
    dict.set_item("gaps", PyArray1::from_iter(py, gaps.clone().map(|&(gap, _)| gap)))?;
    dict.set_item("gap_counts", PyArray1::from_iter(py, gaps.map(|&(_, count)| count)))?;
    let fate = |record: &RequestRecord| match record.fate {
        Fate::Unfinished => 0u8,
        Fate::Finished => 1,
        Fate::Rejected => 2,
    };
    column(&dict, report, "fate", fate)?;
    column(&dict, report, "arrival", |record| record.arrival)?;
    column(&dict, report, "start", |record| record.start)?;
    column(&dict, report, "first_token", |record| record.first_token)?;
    column(&dict, report, "end", |record| record.end)?;
    column(&dict, report, "cached_tokens", |record| record.cached_tokens)?;
    column(&dict, report, "joined_tokens", |record| record.joined_tokens)?;
    column(&dict, report, "peer_tokens", |record| record.peer_tokens)?;
    column(&dict, report, "recomputed_tokens", |record| record.recomputed_tokens)?;
    column(&dict, report, "preemptions", |record| record.preemptions)?;
    Ok(dict)
}

/// A fact of every request, in the order of the trace.
fn column<T: Element>(
    dict: &Bound<'_, PyDict>,
    report: &ServerReport,
    name: &str,
    fact: impl Fn(&RequestRecord) -> T,
) -> PyResult<()> {
    dict.set_item(name, PyArray1::from_iter(dict.py(), report.requests.iter().map(fact)))
}
