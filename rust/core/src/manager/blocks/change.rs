//! What of a manager changes while it serves.

use crate::error::{Error, Result};
use crate::manager::{Manager, check_policies};
use crate::options::{Fault, Options};
use crate::policy::Eviction;
use crate::policy::admission::{Admit, Gate};
use crate::tenants::Tenant;

/// Policies that are to take the place of others.
#[derive(Default)]
pub struct Change {
    /// The eviction policy, if it changes.
    pub policy: Option<Box<dyn Eviction>>,
    /// The admission policy, if it changes; `Some(None)`: everything becomes findable.
    pub admission: Option<Option<Box<dyn Admit>>>,
}

impl Manager {
    /// From now on, the policies of `change` decide, and of `options` the watermarks, the reserve, the cap of pins, and
    /// the floors and quotas of the tenants hold; all else in `options` is not read. All of it or nothing. What had its
    /// place comes back.
    ///
    /// Of a tenant whose quota is lower now than what it has, cached blocks are evicted, in the order of the eviction
    /// policy that is in force then; what its sequences own above the quota goes as they let it go.
    ///
    /// # Errors
    /// [`Error::Invalid`] for values outside their limits, a policy that goes by keys where none were made, other
    /// tenants, or what [`Manager::share_fault`] says; [`Error::PolicyRefused`].
    pub fn change(&mut self, options: &Options, change: Change) -> Result<Change> {
        let options = Options {
            watermarks: options.watermarks,
            reserve: options.reserve,
            pin_cap: options.pin_cap,
            tenants: options.tenants.clone(),
            ..self.options.clone()
        };
        options.validate()?;
        self.check_same_tenants(&options.tenants)?;
        if let Some(fault) = self.share_fault(&options) {
            return Err(fault.into());
        }
        let shares_differ = options.tenants != self.options.tenants;
        let has_keys = self.wants_keys();
        let Change { policy, admission } = change;
        if let Some(Some(gate)) = &admission {
            check_keys("admission.policy", gate.name(), !gate.wants_keys() || has_keys)?;
        }
        let before = match policy {
            Some(policy) => {
                check_policies(&options.tenants, &*policy)?;
                check_keys("eviction.policy", policy.name(), !policy.wants_keys() || has_keys)?;
                Some(self.store.replace_policy(policy, options.block_size, &options.tenants)?)
            }
            None if shares_differ => {
                let shares = (&options.tenants[..], &self.options.tenants[..]);
                self.store.size_policies(shares, options.block_size)?;
                None
            }
            None => None,
        };
        if shares_differ {
            self.store.set_shares(&options.tenants);
        }
        let gate = admission.map(|policy| {
            let gate = policy.map(|policy| Box::new(Gate::new(policy)));
            self.store.replace_gate(gate).map(|gate| gate.policy)
        });
        self.options = options;
        Ok(Change { policy: before, admission: gate })
    }

    /// What is wrong with the floors and quotas in `options`, the same tenants' as now, as long as all own what they
    /// have now: floors that cannot be met beside it, or a quota below what sequences of the tenant were promised.
    pub fn share_fault(&self, options: &Options) -> Option<Fault> {
        self.store.share_fault(&options.tenants)
    }

    /// Whether a policy outside the core is ready to name what tenants lose once their quotas are those in `options`.
    ///
    /// # Errors
    /// [`Error::NeedVictims`].
    pub fn check_ready_to_shed(&self, options: &Options) -> Result<()> {
        self.store.check_ready_to_shed(&options.tenants)
    }

    fn check_same_tenants(&self, tenants: &[Tenant]) -> Result<()> {
        let named = |tenant: &Tenant| (tenant.name.clone(), tenant.is_public);
        if self.options.tenants.iter().map(named).eq(tenants.iter().map(named)) {
            return Ok(());
        }
        let limit = "their names and their order stay: blocks are counted by them";
        Err(Error::Invalid {
            what: "tenants",
            value: tenants.len().to_string(),
            limit: limit.into(),
        })
    }
}

fn check_keys(what: &'static str, name: &str, holds: bool) -> Result<()> {
    if holds {
        return Ok(());
    }
    let limit = "goes by keys, and the blocks in the pool have none: begin with it";
    Err(Error::Invalid { what, value: name.into(), limit: limit.into() })
}
