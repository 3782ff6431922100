//! `TierPages`: a tier's index, with its prefixes and what is on its way.

use kvframe_core::Key;
use kvframe_core::pool::BlockId;
use kvframe_core::tenants::Account;
use kvframe_core::tier::{StoreResult, TierLimits, TierPages as Core};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBytes, PyDict};

use crate::buffers::{keys, tokens};
use crate::policy::eviction::make_policies;
use crate::policy::host::PolicyHost;
use crate::tenants;
use crate::tier::{KnownTuple, known};

/// A key as two words, low first, and its page.
type EvictedTuple = Vec<((u64, u64), BlockId)>;
/// (ticket, pages present, where the others go, who made room)
type StoredTuple<'py> = (u64, u32, Bound<'py, PyArray1<u32>>, EvictedTuple);

/// (used, cached, floor, quota, evicted for its own sake, for others')
type TenantTuple = (u32, u32, u32, Option<u32>, u64, u64);

/// Keys that left; keys that came, each with its parent's.
type ChangesTuple<'py> =
    (Vec<Bound<'py, PyBytes>>, Vec<(Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>)>);

/// The core of a tier of pages; `kvframe.tiers` has the face for users.
#[pyclass(frozen, module = "kvframe._core")]
pub struct TierPages {
    core: PolicyHost<Core>,
}

fn words(Key(key): Key) -> (u64, u64) {
    (key as u64, (key >> 64) as u64)
}

fn stored_tuple(py: Python<'_>, stored: StoreResult) -> StoredTuple<'_> {
    let pages = PyArray1::from_vec(py, stored.pages);
    (stored.ticket, stored.present, pages, gone(stored.evicted))
}

fn gone(pages: Vec<(Key, BlockId)>) -> EvictedTuple {
    pages.into_iter().map(|(key, page)| (words(key), page)).collect()
}

#[pymethods]
impl TierPages {
    /// An empty tier; `policy` is a built-in's name or a driver of a Python policy. With `tenants`, tables
    /// as in a configuration, there is one driver for all others and one for each.
    #[new]
    #[pyo3(signature = (
        *, pages, block_size, in_flight, policy, policy_options=None, backed_first=false, tenants=None
    ))]
    fn new(
        py: Python<'_>,
        pages: u32,
        block_size: u32,
        in_flight: u32,
        policy: &Bound<'_, PyAny>,
        policy_options: Option<&Bound<'_, PyDict>>,
        backed_first: bool,
        tenants: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let tenants = tenants.map(tenants::read).transpose()?.unwrap_or_default();
        let made = make_policies(py, policy, policy_options, tenants.len())?;
        let limits = TierLimits { pages, in_flight, backed_first };
        let make = |eviction| Core::with_tenants(limits, block_size, eviction, &tenants);
        Ok(Self { core: PolicyHost::new(py, "tier", made, make)? })
    }

    /// Pages of a prefix that can be read now.
    fn find(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<u32> {
        let keys = self::keys(keys)?;
        self.core.locked(py, |core| core.find(&keys))
    }

    /// Pages of a prefix that are here or on their way.
    fn present(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<u32> {
        let keys = self::keys(keys)?;
        self.core.locked(py, |core| core.present(&keys))
    }

    /// Reserves room for the rest of a prefix.
    fn store<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'_, PyAny>,
        parts: u32,
        using: KnownTuple,
    ) -> PyResult<StoredTuple<'py>> {
        let keys = self::keys(keys)?;
        let stored = self.core.with_victims(py, |core| core.store(&keys, parts, known(&using)))?;
        Ok(stored_tuple(py, stored))
    }

    /// The same of as much of the prefix as there is room for now, and how many of its pages are here
    /// then; None if there is room for none. They are the tenant's of that number.
    #[pyo3(signature = (keys, parts, using, tenant=0))]
    fn store_some<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'_, PyAny>,
        parts: u32,
        using: KnownTuple,
        tenant: u8,
    ) -> PyResult<Option<(StoredTuple<'py>, u32)>> {
        let keys = self::keys(keys)?;
        let stored = self.core.with_victims(py, |core| {
            core.serve(tenant);
            core.store_some(&keys, parts, known(&using))
        })?;
        Ok(stored.map(|(stored, taken)| (stored_tuple(py, stored), taken)))
    }

    /// Pages of a share of the tier, at least one.
    fn mark(&self, py: Python<'_>, share: f64) -> PyResult<u32> {
        self.core.locked(py, |core| core.limits().mark(share))
    }

    /// Opens the pages of a prefix from a place on.
    fn load<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'_, PyAny>,
        start: u32,
        parts: u32,
        using: Option<KnownTuple>,
    ) -> PyResult<(u64, Bound<'py, PyArray1<u32>>)> {
        let keys = self::keys(keys)?;
        let opened = self
            .core
            .with_victims(py, |core| core.load(&keys, start, parts, using.as_ref().map(known)))?;
        Ok((opened.ticket, PyArray1::from_vec(py, opened.pages)))
    }

    /// A part of a transfer has ended: (whether all have, pages good, what is forgotten).
    fn end(
        &self,
        py: Python<'_>,
        ticket: u64,
        good: u32,
        keep: bool,
    ) -> PyResult<(bool, u32, EvictedTuple)> {
        let ended = self.core.with(py, |core| core.end(ticket, good, keep))?;
        Ok((ended.whole, ended.good, gone(ended.forgotten)))
    }

    /// Gives a transfer up; what is forgotten.
    fn cancel(&self, py: Python<'_>, ticket: u64) -> PyResult<EvictedTuple> {
        self.core.with(py, |core| core.cancel(ticket)).map(gone)
    }

    /// When a transfer is late.
    fn set_deadline(&self, py: Python<'_>, ticket: u64, at: u64) -> PyResult<()> {
        self.core.with(py, |core| core.set_deadline(ticket, at))
    }

    /// Gives up what is late: (tickets, what is forgotten).
    fn expire_until(&self, py: Python<'_>, now: u64) -> PyResult<(Vec<u64>, EvictedTuple)> {
        let (late, forgotten) = self.core.with(py, |core| core.expire_until(now))?;
        Ok((late, gone(forgotten)))
    }

    /// Takes in pages that were there before, each behind the one before it, and the first behind
    /// `parent`; how many. They are the tenant's of that number.
    #[pyo3(signature = (keys, parent, tenant=0))]
    fn adopt(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        parent: Option<&Bound<'_, PyAny>>,
        tenant: u8,
    ) -> PyResult<u32> {
        let keys = self::keys(keys)?;
        let mut above = parent.map(self::keys).transpose()?.and_then(|keys| keys.last().copied());
        self.core.with_victims(py, |core| {
            let mut taken = 0;
            core.serve(tenant);
            for &key in &keys {
                if core.adopt(key, above)?.is_none() {
                    break;
                }
                (above, taken) = (Some(key), taken + 1);
            }
            Ok(taken)
        })
    }

    /// A prefix is used without being read.
    fn touch(&self, py: Python<'_>, keys: &Bound<'_, PyAny>, using: KnownTuple) -> PyResult<()> {
        let keys = self::keys(keys)?;
        self.core.with(py, |core| core.touch(&keys, known(&using)))
    }

    /// Forgets pages and what follows them.
    fn forget(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<EvictedTuple> {
        let keys = self::keys(keys)?;
        let forget = |core: &mut Core| keys.iter().flat_map(|&key| core.forget(key)).collect();
        self.core.locked(py, forget).map(gone)
    }

    /// Forgets every page, those on their way too.
    fn clear(&self, py: Python<'_>) -> PyResult<EvictedTuple> {
        self.core.locked(py, Core::clear).map(gone)
    }

    /// Says which pages a tier below has too.
    fn set_backed(&self, py: Python<'_>, keys: &Bound<'_, PyAny>, backed: bool) -> PyResult<()> {
        let keys = self::keys(keys)?;
        self.core.locked(py, |core| core.set_backed(&keys, backed))
    }

    /// Whether a tier below has each page.
    fn backed(&self, py: Python<'_>, pages: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
        let pages = tokens(pages, "pages")?;
        self.core.locked(py, |core| pages.iter().map(|&p| core.is_backed(p)).collect())
    }

    /// Evicts until so many pages are free.
    fn evict_until(&self, py: Python<'_>, free: u32) -> PyResult<EvictedTuple> {
        self.core.with_victims(py, |core| core.evict_until(free)).map(gone)
    }

    /// Evicts up to `n` of the pages of `keys` that may be evicted and that the tier below has.
    fn evict_backed(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        n: u32,
    ) -> PyResult<EvictedTuple> {
        let keys = self::keys(keys)?;
        self.core.locked(py, |core| core.evict_backed(&keys, n)).map(gone)
    }

    /// Takes pages for a caller that tracks them itself; returns them, and the pages evicted for
    /// them. They are the tenant's of that number.
    #[pyo3(signature = (pages, tenant=0))]
    fn take<'py>(
        &self,
        py: Python<'py>,
        pages: u32,
        tenant: u8,
    ) -> PyResult<(Bound<'py, PyArray1<u32>>, EvictedTuple)> {
        let (lent, evicted) = self.core.with_victims(py, |core| {
            core.serve(tenant);
            core.take(pages)
        })?;
        Ok((PyArray1::from_vec(py, lent), gone(evicted)))
    }

    /// Takes such pages back.
    fn free(&self, py: Python<'_>, pages: &Bound<'_, PyAny>) -> PyResult<()> {
        let pages = tokens(pages, "pages")?;
        self.core.with(py, |core| core.free(&pages))
    }

    /// The first pages in the order in which they would be evicted, each with its key: so many, or
    /// all. A policy outside the core is asked for that order.
    #[pyo3(signature = (most=u32::MAX))]
    fn order(&self, py: Python<'_>, most: u32) -> PyResult<EvictedTuple> {
        let order = self.core.order(py, Core::tier, most)?;
        self.core.locked(py, |core| {
            order.into_iter().map(|page| (words(core.tier().pool().key(page)), page)).collect()
        })
    }

    /// The prefix that ends with a page: its keys.
    fn prefix(&self, py: Python<'_>, page: u32) -> PyResult<Vec<(u64, u64)>> {
        self.core.locked(py, |core| core.prefix(page).into_iter().map(words).collect())
    }

    /// Notes changes from now on, the first of which are all the pages there are.
    fn watch(&self, py: Python<'_>) -> PyResult<()> {
        self.core.locked(py, Core::watch)
    }

    /// Changes since the last call: keys of pages that left, then of those that came, each with its
    /// parent's or None.
    fn take_changes<'py>(&self, py: Python<'py>) -> PyResult<ChangesTuple<'py>> {
        let changes = self.core.locked(py, Core::take_changes)?;
        let bytes = |Key(key): Key| PyBytes::new(py, &key.to_le_bytes());
        let came = changes.came.into_iter().map(|(key, above)| (bytes(key), above.map(bytes)));
        Ok((changes.gone.into_iter().map(bytes).collect(), came.collect()))
    }

    /// Keys whose pages can be read, in the order of their places, each with its page.
    fn stored(&self, py: Python<'_>) -> PyResult<EvictedTuple> {
        self.core.locked(py, |core| gone(core.stored_pages()))
    }

    /// (free, cached, owned, on their way) pages.
    fn counts(&self, py: Python<'_>) -> PyResult<(u32, u32, u32, u32)> {
        self.core.locked(py, |core| {
            let (free, cached, owned) = core.counts();
            (free, cached, owned, core.moving())
        })
    }

    /// (free, all) pages as a tenant has them.
    fn room(&self, py: Python<'_>, tenant: u8) -> PyResult<(u32, u32)> {
        self.core.locked(py, |core| core.room(tenant))
    }

    /// What each tenant has, all others first: (used, cached, floor, quota, evicted for its own sake, for
    /// others'). Empty without tenants.
    fn tenants(&self, py: Python<'_>) -> PyResult<Vec<TenantTuple>> {
        self.core.locked(py, |core| {
            let row = |own: &Account| {
                let quota = (own.quota < u32::MAX).then_some(own.quota);
                let counts = own.counts;
                (own.used, own.cached, own.floor, quota, counts.evicted, counts.evicted_for_others)
            };
            core.accounts().iter().map(row).collect()
        })
    }

    /// What has happened, by name.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.core.locked(py, |core| core.stats())?;
        let out = PyDict::new(py);
        for (name, count) in stats.named() {
            out.set_item(name, count)?;
        }
        out.set_item("policy_failures", self.core.outside().failures())?;
        Ok(out)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.core.traverse(&visit)
    }

    /// Recounts the state.
    fn check_integrity(&self, py: Python<'_>) -> PyResult<()> {
        self.core.with(py, |core| core.check_integrity())
    }
}
