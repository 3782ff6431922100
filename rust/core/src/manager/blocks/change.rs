//! What of a manager changes while it serves.

use crate::error::{Error, Result};
use crate::manager::Manager;
use crate::options::Options;
use crate::policy::Eviction;
use crate::policy::admission::{Admit, Gate};

/// Policies that are to take the place of others.
#[derive(Default)]
pub struct Change {
    /// The eviction policy, if it changes.
    pub policy: Option<Box<dyn Eviction>>,
    /// The admission policy, if it changes; `Some(None)`: everything becomes findable.
    pub admission: Option<Option<Box<dyn Admit>>>,
}

impl Manager {
    /// From now on, the policies of `change` decide, and of `options` the watermarks, the reserve and the cap of pins
    /// hold; all else in `options` is not read. All of it or nothing. What had its place comes back.
    ///
    /// # Errors
    /// [`Error::Invalid`] for values outside their limits, a policy that goes by keys where none were made, or an
    /// eviction policy where there are tenants; [`Error::PolicyRefused`].
    pub fn change(&mut self, options: &Options, change: Change) -> Result<Change> {
        let options = Options {
            watermarks: options.watermarks,
            reserve: options.reserve,
            pin_cap: options.pin_cap,
            ..self.options.clone()
        };
        options.validate()?;
        let has_keys = self.wants_keys();
        let Change { policy, admission } = change;
        if let Some(Some(gate)) = &admission {
            check_keys("admission.policy", gate.name(), !gate.wants_keys() || has_keys)?;
        }
        let before = match policy {
            Some(policy) => {
                self.check_alone(policy.name())?;
                check_keys("eviction.policy", policy.name(), !policy.wants_keys() || has_keys)?;
                Some(self.store.replace_policy(policy, options.block_size)?)
            }
            None => None,
        };
        let gate = admission.map(|policy| {
            let gate = policy.map(|policy| Box::new(Gate::new(policy)));
            self.store.replace_gate(gate).map(|gate| gate.policy)
        });
        self.options = options;
        Ok(Change { policy: before, admission: gate })
    }

    fn check_alone(&self, name: &str) -> Result<()> {
        if self.options.tenants.is_empty() {
            return Ok(());
        }
        let limit = "each tenant has a policy of its own, which knows its blocks";
        Err(Error::Invalid { what: "eviction.policy", value: name.into(), limit: limit.into() })
    }
}

fn check_keys(what: &'static str, name: &str, holds: bool) -> Result<()> {
    if holds {
        return Ok(());
    }
    let limit = "goes by keys, and none were made of the blocks there are: begin with it";
    Err(Error::Invalid { what, value: name.into(), limit: limit.into() })
}
