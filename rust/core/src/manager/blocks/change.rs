//! What of a manager changes while it serves.

use crate::error::{Error, Result};
use crate::manager::{Manager, check_policies};
use crate::options::Options;
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
    /// From now on, the policies of `change` decide, and of `options` the watermarks, the reserve, the cap of pins and
    /// the shares of tenants hold; all else in `options` is not read. All of it or nothing. What had its place comes
    /// back.
    ///
    /// # Errors
    /// [`Error::Invalid`] for values outside their limits, floors beside what is owned, other tenants, or a policy that
    /// goes by keys where none were made; [`Error::PolicyRefused`].
    pub fn change(&mut self, options: &Options, change: Change) -> Result<Change> {
        let options = Options {
            watermarks: options.watermarks,
            reserve: options.reserve,
            pin_cap: options.pin_cap,
            tenants: options.tenants.clone(),
            ..self.options.clone()
        };
        options.validate()?;
        self.check_tenants(&options.tenants)?;
        let has_keys = self.wants_keys();
        let Change { policy, admission } = change;
        if let Some(Some(gate)) = &admission {
            check_keys("admission.policy", gate.name(), !gate.wants_keys() || has_keys)?;
        }
        let before = if let Some(mut policy) = policy {
            check_policies(&options.tenants, &*policy)?;
            check_keys("eviction.policy", policy.name(), !policy.wants_keys() || has_keys)?;
            if let Some(policies) = policy.tenants_mut() {
                drop(policies.set_quotas(&options.tenants));
            }
            Some(self.store.replace_policy(policy, options.block_size)?)
        } else {
            self.store.requota(&options.tenants, options.block_size)?;
            None
        };
        self.store.set_shares(&options.tenants);
        let gate = admission.map(|policy| {
            let gate = policy.map(|policy| Box::new(Gate::new(policy)));
            self.store.replace_gate(gate).map(|gate| gate.policy)
        });
        self.options = options;
        Ok(Change { policy: before, admission: gate })
    }

    /// Whether `tenants` are those there are, with floors that can be kept beside what is owned now.
    fn check_tenants(&self, tenants: &[Tenant]) -> Result<()> {
        let (now, then) = (&self.options.tenants, tenants);
        if !now.iter().map(|one| &one.name).eq(then.iter().map(|one| &one.name)) {
            let limit = "must be the same names in the same order: blocks are counted by them";
            let value = then.len().to_string();
            return Err(Error::Invalid { what: "tenants", value, limit: limit.into() });
        }
        self.store.check_shares(then)
    }
}

fn check_keys(what: &'static str, name: &str, holds: bool) -> Result<()> {
    if holds {
        return Ok(());
    }
    let limit = "goes by keys, and none were made of the blocks there are: begin with it";
    Err(Error::Invalid { what, value: name.into(), limit: limit.into() })
}
