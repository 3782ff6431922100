//! Other floors and quotas of tenants that are served: whether they can be met, and who then has too much.

use super::ledger::sums;
use super::{Account, Ledger, Tenant};
use crate::options::Fault;

impl Ledger {
    /// `tenants`, the same ones, have other floors and quotas from now on.
    pub fn set_shares(&mut self, tenants: &[Tenant]) {
        for (amounts, tenant) in self.amounts.iter_mut().skip(1).zip(tenants) {
            *amounts = (tenant.floor, tenant.quota);
        }
        self.resize(self.usable);
    }

    /// What is wrong with other floors and quotas as long as all own, and were promised, what they have now.
    pub fn share_fault(&self, tenants: &[Tenant]) -> Option<Fault> {
        let usable = self.usable;
        let mut then = self.accounts.clone();
        let mut raised = None;
        for (at, tenant) in tenants.iter().enumerate() {
            let own = &mut then[at + 1];
            let quota = tenant.quota.map_or(u32::MAX, |quota| quota.of(usable));
            let sure = u64::from(own.owned()) + own.promised;
            if let Some(lower) = tenant.quota.filter(|_| quota < own.quota)
                && own.promised > 0
                && sure > quota.into()
            {
                let (owned, promised) = (own.owned(), own.promised);
                let limit = format!(
                    "is {quota} blocks: its sequences own {owned} and were promised {promised} more"
                );
                return Some(Fault::of_tenant("quota", at, &lower, limit));
            }
            let floor = tenant.floor.of(usable);
            if floor > own.floor {
                raised.get_or_insert((at, tenant.floor));
            }
            (own.floor, own.quota) = (floor, quota);
        }
        let (at, floor) = raised?;
        let (spoken, promised) = sums(&then);
        let limit = if spoken > usable.into() {
            format!("floors, and what is owned above them, take {spoken} of {usable} blocks now")
        } else if promised > u64::from(usable).max(self.promised) {
            format!(
                "floors, and what is owned and promised above them, take {promised} of {usable} blocks now"
            )
        } else {
            return None;
        };
        Some(Fault::of_tenant("floor", at, &floor, limit))
    }

    /// How many cached blocks each loses if `tenants` have these quotas.
    pub fn shed_by(&self, tenants: &[Tenant]) -> Vec<u32> {
        let quotas = tenants.iter().map(|tenant| tenant.quota.map(|quota| quota.of(self.usable)));
        let quotas = std::iter::once(None).chain(quotas);
        let shed = |(own, quota): (&Account, Option<u32>)| {
            quota.map_or(0, |quota| own.used.saturating_sub(quota).min(own.cached))
        };
        self.accounts.iter().zip(quotas).map(shed).collect()
    }

    /// Whether some tenant may have more than its quota.
    #[inline]
    pub fn may_be_above(&self) -> bool {
        self.above
    }

    /// A tenant that has more than its quota, and a cached block to lose. Where there is none, those above have only
    /// what is owned.
    pub fn above_quota(&mut self) -> Option<u8> {
        let over = |own: &Account| own.used > own.quota && own.cached > 0;
        let found = self.accounts.iter().position(over).map(|at| at as u8);
        if found.is_none() {
            self.note_above();
        }
        found
    }

    pub(super) fn note_above(&mut self) {
        self.above = self.accounts.iter().any(|own| own.used > own.quota);
    }
}
