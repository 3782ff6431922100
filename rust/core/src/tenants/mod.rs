//! Tenants: whose blocks they are, how many each may keep, and a policy for each.
//!
//! A tenant's *floor* is what no other tenant can take from it: its cached blocks are not evicted for another
//! one's sake while it has no more than that, and others own only so much that it can have its floor at any
//! time. Its *quota* is the most that it has; from there on it evicts its own. In between, the tenant
//! furthest above its floor loses first. Within a tenant, the eviction policy decides: each tenant has an
//! instance of its own, which sees nothing of the others.
//!
//! | module | purpose |
//! | --- | --- |
//! | `ledger` | the blocks of each tenant, counted as they move |
//! | `amounts` | other floors and quotas while tenants are served |
//! | `policies`, `admissions` | an eviction policy for each tenant, an admission policy for each |
//! | `share` | what one such policy is shown: a pool of its tenant's blocks alone |
//!
//! Requests of tenants that are not configured, and those without one, are number 0 together: no floor, no quota.

mod admissions;
mod amounts;
mod ledger;
mod policies;
mod share;

use crate::options::Fault;

pub use admissions::PerTenantAdmission;
pub use ledger::{Account, Ledger, TenantCounts};
pub use policies::PerTenant;

/// The most tenants that are configured.
pub const MAX_TENANTS: usize = 255;

/// The number of all who are not configured.
pub const OTHERS: u8 = 0;

/// A number of blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// That many.
    Blocks(u32),
    /// A share of those there are, 0 to 1, rounded down.
    Share(f64),
}

impl Amount {
    /// Blocks, of `usable` ones.
    pub fn of(self, usable: u32) -> u32 {
        match self {
            Self::Blocks(blocks) => blocks,
            Self::Share(share) => (share * f64::from(usable)).floor() as u32,
        }
    }

    fn is_sound(self) -> bool {
        match self {
            Self::Blocks(_) => true,
            Self::Share(share) => (0.0..=1.0).contains(&share),
        }
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Blocks(blocks) => write!(f, "{blocks}"),
            Self::Share(share) => write!(f, "{share:?}"),
        }
    }
}

/// What is configured of a tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct Tenant {
    /// As requests name it.
    pub name: Vec<u8>,
    /// What no other tenant can take from it.
    pub floor: Amount,
    /// The most that it has; no limit if `None`.
    pub quota: Option<Amount>,
    /// Whether it has what all share: public blocks. Its quota is then its floor.
    pub is_public: bool,
}

/// The number of the tenant of public blocks, if there is one.
pub fn public_of(tenants: &[Tenant]) -> Option<u8> {
    tenants.iter().position(|tenant| tenant.is_public).map(|at| at as u8 + 1)
}

/// What is wrong with `tenants` in a pool of `usable` blocks.
pub(crate) fn check(tenants: &[Tenant], usable: u32, faults: &mut Vec<Fault>) {
    if tenants.len() > MAX_TENANTS {
        let limit = format!("must be at most {MAX_TENANTS}");
        faults.push(Fault::new("tenants", &tenants.len(), limit));
    }
    let all: u64 = tenants
        .iter()
        .filter(|tenant| tenant.floor.is_sound())
        .map(|tenant| u64::from(tenant.floor.of(usable)))
        .sum();
    let mut floors = 0;
    for (at, tenant) in tenants.iter().enumerate() {
        let mut fault = |what, value: &dyn std::fmt::Display, limit: String| {
            faults.push(Fault::of_tenant(what, at, value, limit));
        };
        if tenant.name.is_empty() {
            fault("name", &"\"\"", "must not be empty: it stands for requests without one".into());
        }
        if tenants[..at].iter().any(|other| other.name == tenant.name) {
            fault("name", &String::from_utf8_lossy(&tenant.name), "is there twice".into());
        }
        let share = "must be a number of blocks, or a share from 0.0 to 1.0";
        if !tenant.floor.is_sound() {
            fault("floor", &tenant.floor, share.into());
            continue;
        }
        let floor = tenant.floor.of(usable);
        match tenant.quota {
            Some(_) if tenant.is_public && floor == 0 => {
                fault(
                    "floor",
                    &tenant.floor,
                    "must be at least a block: it is for public ones".into(),
                );
            }
            Some(quota) if !quota.is_sound() => fault("quota", &quota, share.into()),
            Some(quota) if quota.of(usable) == 0 => {
                fault("quota", &quota, format!("must be at least 1 of the {usable} blocks"));
            }
            Some(quota) if quota.of(usable) < floor => {
                fault("quota", &quota, format!("must be at least the floor, {floor} blocks"));
            }
            _ => {}
        }
        floors += u64::from(floor);
        if floors > u64::from(usable) {
            let limit = format!("all floors together are {all} of {usable} blocks");
            fault("floor", &tenant.floor, limit);
            return;
        }
    }
}
