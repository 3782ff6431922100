//! Pinned prefixes: a slot that holds one is not given up until the pin ends.

use super::Slots;
use crate::error::{Error, Result};
use crate::hash::Space;

/// Proof of a pin, to be handed back once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotPin {
    /// The pin's place in the low half, how often that was used in the high half.
    pub id: u64,
    /// The slot.
    pub slot: u32,
    /// Its leading tokens that are held.
    pub tokens: u32,
}

/// A place for a pin, used again.
#[derive(Debug, Default)]
struct Place {
    generation: u32,
    held: Option<SlotHold>,
}

#[derive(Debug)]
struct SlotHold {
    slot: u32,
    /// The slot's `life` when it was pinned. The pin holds nothing of a later life.
    life: u32,
    tokens: u32,
    owner: String,
}

/// Pins that are held.
#[derive(Debug, Default)]
pub(super) struct Pins {
    places: Vec<Place>,
    vacant: Vec<u32>,
}

impl Pins {
    fn add(&mut self, held: SlotHold) -> u64 {
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[at as usize];
        place.generation += 1;
        place.held = Some(held);
        (u64::from(place.generation) << 32) | u64::from(at)
    }

    fn end(&mut self, pin: SlotPin) -> Result<SlotHold> {
        let (at, generation) = (pin.id as u32, (pin.id >> 32) as u32);
        let refuse = |why| Err(Error::UnknownPin { id: pin.id, slot: pin.slot.into(), why });
        let Some(place) = self.places.get_mut(at as usize) else {
            return refuse("it was never given out");
        };
        if generation == 0 || generation > place.generation {
            return refuse("it was never given out");
        }
        match place.held.take_if(|_| generation == place.generation) {
            None => refuse("it was handed back before"),
            Some(held) if held.slot != pin.slot => {
                place.held = Some(held);
                refuse("it was given out for another slot")
            }
            Some(held) => {
                self.vacant.push(at);
                Ok(held)
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = (SlotPin, &SlotHold)> {
        self.places.iter().zip(0_u64..).filter_map(|(place, at)| {
            let held = place.held.as_ref()?;
            let id = (u64::from(place.generation) << 32) | at;
            Some((SlotPin { id, slot: held.slot, tokens: held.tokens }, held))
        })
    }
}

impl Slots {
    /// Holds the longest prefix of `prompt` that some slot has: that slot is not given up, and what is
    /// held of it is not overwritten. `None` if no slot has any of it. Whatever forgets all that is
    /// cached forgets this too; the pin then holds nothing, and is ended all the same.
    ///
    /// # Errors
    /// [`Error::Integrity`].
    pub fn pin(
        &mut self,
        prompt: &[u32],
        space: Space<'_>,
        owner: &str,
    ) -> Result<Option<SlotPin>> {
        let root = self.hasher.root(space);
        let most = &prompt[..prompt.len().min(self.length as usize)];
        let mut sharers = std::mem::take(&mut self.sharers);
        let tokens = self.order.longest(&self.all, root, most, &mut sharers);
        // One that is pinned already costs no other slot.
        let chosen = sharers.iter().copied().min_by_key(|&at| {
            let slot = &self.all[at as usize];
            (slot.pinned.is_empty(), at)
        });
        self.sharers = sharers;
        let Some(slot) = chosen.filter(|_| tokens > 0) else { return Ok(None) };
        let block = self.all[slot as usize].block;
        let block = block.ok_or_else(|| Error::Integrity(format!("slot {slot} has no block")))?;
        self.policy.acquire(&[block])?;
        self.all[slot as usize].pinned.push(tokens);
        let life = self.all[slot as usize].life;
        let id = self.pins.add(SlotHold { slot, life, tokens, owner: owner.into() });
        Ok(Some(SlotPin { id, slot, tokens }))
    }

    /// Ends a pin.
    ///
    /// # Errors
    /// [`Error::UnknownPin`].
    pub fn unpin(&mut self, pin: SlotPin) -> Result<()> {
        let held = self.pins.end(pin)?;
        let slot = &mut self.all[held.slot as usize];
        if slot.life != held.life {
            return Ok(());
        }
        if let Some(at) = slot.pinned.iter().position(|&tokens| tokens == held.tokens) {
            slot.pinned.swap_remove(at);
        }
        slot.block.map_or(Ok(()), |block| self.policy.release(&[block]))
    }

    /// Ends the pins of one owner, or all; how many.
    ///
    /// # Errors
    /// None of its own.
    pub fn unpin_all(&mut self, owner: Option<&str>) -> Result<u32> {
        let pins: Vec<SlotPin> = self.pins(owner).map(|(pin, _)| pin).collect();
        for &pin in &pins {
            self.unpin(pin)?;
        }
        Ok(pins.len() as u32)
    }

    /// The pins of one owner, or of all, with their owners.
    pub fn pins(&self, owner: Option<&str>) -> impl Iterator<Item = (SlotPin, &str)> {
        let pins = self.pins.all().map(|(pin, held)| (pin, held.owner.as_str()));
        pins.filter(move |&(_, of)| owner.is_none_or(|owner| of == owner))
    }

    /// Pins hold no more than the first `kept` tokens of a slot.
    pub(super) fn shorten_pins(&mut self, at: u32, kept: u32) {
        let slot = &mut self.all[at as usize];
        if slot.pinned.iter().all(|&tokens| tokens <= kept) {
            return;
        }
        slot.pinned.iter_mut().for_each(|tokens| *tokens = kept.min(*tokens));
        let held = self.pins.places.iter_mut().filter_map(|place| place.held.as_mut());
        for held in held.filter(|held| held.slot == at && held.life == slot.life) {
            held.tokens = held.tokens.min(kept);
        }
    }

    /// Whether the pins are those that the slots count.
    pub(super) fn check_pins(&self) -> std::result::Result<(), String> {
        let mut counted = vec![Vec::new(); self.all.len()];
        for (pin, held) in self.pins.all() {
            if held.life == self.all[pin.slot as usize].life {
                counted[pin.slot as usize].push(pin.tokens);
            }
        }
        for ((slot, mut tokens), at) in self.all.iter().zip(counted).zip(0..) {
            let mut here = slot.pinned.clone();
            here.sort_unstable();
            tokens.sort_unstable();
            if here != tokens || here.last().is_some_and(|&most| most > slot.found) {
                return Err(format!("slot {at}: {here:?} are pinned of {}", slot.found));
            }
        }
        Ok(())
    }
}
