//! Everything that must hold of the slots, from scratch.

use super::{Slot, Slots, Standing};
use crate::error::{Error, Result};
use crate::pool::NIL;

type CheckResult = std::result::Result<(), String>;

impl Slots {
    /// Recounts slots, copies, the order and the policy's state: O(tokens).
    ///
    /// # Errors
    /// [`Error::Integrity`] with what disagrees.
    pub fn check_integrity(&self) -> Result<()> {
        self.check().map_err(|what| Error::Integrity(format!("slots: {what}")))?;
        self.policy.check_integrity()
    }

    fn check(&self) -> CheckResult {
        self.order.validate(&self.all)?;
        self.check_pins()?;
        let mut found: Vec<u32> = self.order.slots().collect();
        found.sort_unstable();
        let mut empty: Vec<u32> = self.empty.iter().map(|slot| slot.0).collect();
        empty.sort_unstable();
        let of = |wanted: &dyn Fn(&Slot, Standing) -> bool| -> Vec<u32> {
            let rows = self.all.iter().zip(self.rows()).zip(0..);
            rows.filter(|&((slot, row), _)| wanted(slot, row.standing)).map(|(_, at)| at).collect()
        };
        if found != of(&|slot, _| slot.found > 0) {
            return Err(format!("{found:?} are in the order"));
        }
        if empty != of(&|_, standing| standing == Standing::Empty) {
            return Err(format!("{empty:?} are listed as empty"));
        }
        let mut fills = vec![0; self.all.len()];
        for copy in self.tickets.copies() {
            fills[copy.dst as usize] += 1;
        }
        for ((slot, at), fills) in self.all.iter().zip(0..).zip(fills) {
            self.check_slot(slot, at, fills).map_err(|what| format!("slot {at}: {what}"))?;
        }
        let named = self.slot_of.iter().filter(|&&slot| slot != NIL).count();
        if named != found.len() {
            return Err(format!(
                "{named} slots have a name at the policy, {} are found",
                found.len()
            ));
        }
        Ok(())
    }

    fn check_slot(&self, slot: &Slot, at: u32, fills: usize) -> CheckResult {
        let known = slot.tokens.len() as u32;
        if slot.found > slot.committed || slot.committed > known || known > self.length {
            return Err(format!(
                "{} found, {} committed, {known} known",
                slot.found, slot.committed
            ));
        }
        let wanted = match (slot.filling, slot.private) {
            (true, _) => 0,
            // A prefix that other sessions used stays findable after the rest was forgotten.
            (_, true) => slot.found.min(slot.shared),
            _ => slot.committed,
        };
        if slot.found != wanted || (slot.is_idle() && known != slot.found) {
            return Err(format!("{} of {wanted} tokens are found, {known} known", slot.found));
        }
        let held = self.tickets.holds(at);
        if held != slot.holds || fills != usize::from(slot.filling) {
            return Err(format!("{held} copies, {fills} into it; it counts {}", slot.holds));
        }
        match slot.block {
            Some(block) if self.slot_of[block as usize] != at => {
                Err(format!("block {block} stands for slot {}", self.slot_of[block as usize]))
            }
            Some(block)
                if self.policy.pool().refs(block) as usize
                    != usize::from(!slot.is_idle()) + slot.pinned.len() =>
            {
                Err(format!("{} owners at the policy", self.policy.pool().refs(block)))
            }
            block if block.is_some() != (slot.found > 0) => Err("its name at the policy".into()),
            _ => Ok(()),
        }
    }
}
