//! An admission policy for each tenant, as one.

use super::OTHERS;
use crate::hash::Key;
use crate::policy::admission::{Admit, Ask, Offer, Verdict};

/// One instance of a policy of the core for each tenant, by number: none hears of another tenant's blocks.
pub struct PerTenantAdmission {
    policies: Vec<Box<dyn Admit>>,
    serving: usize,
}

impl PerTenantAdmission {
    /// `policies`: the others' first, then one for each tenant in their order; all of one kind.
    pub fn new(policies: Vec<Box<dyn Admit>>) -> Self {
        Self { policies, serving: OTHERS.into() }
    }
}

impl Admit for PerTenantAdmission {
    fn name(&self) -> &'static str {
        self.policies[0].name()
    }

    fn wants_keys(&self) -> bool {
        self.policies[0].wants_keys()
    }

    fn wants_uses(&self) -> bool {
        self.policies[0].wants_uses()
    }

    fn serve(&mut self, tenant: u8) {
        self.serving = usize::from(tenant).min(self.policies.len() - 1);
    }

    fn seen(&mut self, keys: &[Key]) {
        self.policies[self.serving].seen(keys);
    }

    fn admit(&mut self, offer: &Offer, ask: Ask, out: &mut [Verdict]) {
        self.policies[self.serving].admit(offer, ask, out);
    }
}
