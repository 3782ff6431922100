//! Tenants' engines: what each of them asks of a manager, at random.

use kvframe_core::hash::{MmItem, Space};
use kvframe_core::policy::{self, Consult, Eviction, External, Subscriptions};
use kvframe_core::retention::{Decay, Keep, Retention, TokenRange};
use kvframe_core::sequence::Meta;
use kvframe_core::tenants::{Amount, Tenant};
use kvframe_core::{Error, Manager, Options, Request, Result, SeqId};

use super::Dice;

pub const A: &[u8] = b"a";
pub const B: &[u8] = b"b";

pub fn tenant(name: &[u8], floor: u32, quota: Option<u32>) -> Tenant {
    Tenant {
        name: name.to_vec(),
        floor: Amount::Blocks(floor),
        quota: quota.map(Amount::Blocks),
        is_public: false,
    }
}

/// A policy outside the core that names the same victims as if it wished its tenant ill: the newest first.
pub fn outside() -> Box<dyn Eviction> {
    Box::new(External::new(Subscriptions { events: true, keys: true, misses: true }))
}

pub fn options(blocks: u32, tenants: Vec<Tenant>) -> Options {
    Options { blocks, block_size: 4, tenants, ..Options::default() }
}

/// Has the policy outside the core name the newest of what it is offered, until `work` has what it needs.
pub fn with_victims<T>(
    m: &mut Manager,
    mut work: impl FnMut(&mut Manager) -> Result<T>,
) -> Result<T> {
    loop {
        match work(m) {
            Err(Error::NeedVictims { n }) => {
                let mut decision = policy::Decision { n: n as usize, ..Default::default() };
                let instance = m.instance();
                m.ask_instance(instance);
                m.consult(0, &mut decision);
                let mut choice = policy::Choice {
                    blocks: decision.offer.blocks.clone(),
                    generations: decision.offer.generations.clone(),
                };
                choice.blocks.truncate(n as usize);
                choice.generations.truncate(n as usize);
                m.decided(n as usize, Some(&choice));
            }
            done => {
                m.settle_choice();
                return done;
            }
        }
    }
}

/// A tenant's engine: prompts that share prefixes, several at a time.
pub struct Engine {
    tenant: &'static [u8],
    dice: Dice,
    pub running: Vec<SeqId>,
    most: usize,
    longest: u64,
    /// Blocks at the front of each prompt that all share.
    pub public: u32,
    /// What came of each of its calls.
    pub found: Vec<(u32, u32)>,
}

impl Engine {
    pub fn new(tenant: &'static [u8], seed: u64, most: usize, longest: u64) -> Self {
        let found = Vec::new();
        Self { tenant, dice: Dice(seed), running: Vec::new(), most, longest, public: 0, found }
    }

    fn request(&mut self) -> Request {
        let family = self.dice.below(6);
        let len = 1 + self.dice.below(self.longest);
        let shared = self.dice.below(len + 1);
        let own = self.dice.below(4);
        let token = |i: u64| (family * 1000 + i * 7 + if i < shared { 0 } else { own }) as u32;
        let keep = Keep { priority: 80, duration: None, then: 35, decay: Decay::Step };
        let ranges = vec![TokenRange { start: 0, end: 8, keep }];
        let retention = Retention { ranges, decode: None };
        let (public, space) = (self.public.min(len as u32 / 4), Space::default());
        let apart = || MmItem::boundary(public, 4, Space { tenant: self.tenant, ..space });
        let mm_items = (public > 0).then(apart).into_iter().collect();
        Request {
            tokens: (0..len).map(token).collect(),
            tenant: self.tenant.to_vec(),
            public,
            mm_items,
            meta: Meta { session: family + 1, priority: own as i32, ..Meta::default() },
            retention: (self.dice.below(8) == 0).then_some(retention),
            next_use: (0..len as u32 / 4).map(|i| i * 3 + own as u32).collect(),
            ..Request::default()
        }
    }

    pub fn step(&mut self, m: &mut Manager) {
        let roll = self.dice.below(10);
        if self.running.is_empty() || (roll < 4 && self.running.len() < self.most) {
            let request = self.request();
            match with_victims(m, |m| m.allocate(&request)) {
                Ok(got) => {
                    self.running.push(got.seq);
                    self.found.push((got.cached_tokens, got.granted_tokens));
                }
                Err(Error::NoCapacity { needed, available, .. }) => {
                    self.found.push((needed as u32, available as u32));
                }
                Err(Error::NeverFits { needed, total, .. }) => {
                    self.found.push((needed as u32, total as u32));
                }
                Err(error) => panic!("{error}"),
            }
            return;
        }
        let at = self.dice.below(self.running.len() as u64) as usize;
        let seq = self.running[at];
        match roll {
            4..=6 => {
                let token = self.dice.below(3) as u32;
                let grown = with_victims(m, |m| m.append(seq, &[token]));
                self.found.push((u32::from(grown.is_ok()), 1));
            }
            7 => {
                let len = m.sequence(seq).unwrap().len;
                m.commit(seq, len).unwrap();
            }
            8 => {
                m.preempt(seq).unwrap();
                self.running.swap_remove(at);
            }
            _ => {
                let len = m.sequence(seq).unwrap().len;
                m.commit(seq, len).unwrap();
                m.release(seq).unwrap();
                self.running.swap_remove(at);
            }
        }
    }
}

/// What else a neighbour does.
pub fn disturb(m: &mut Manager, dice: &mut Dice, loans: &mut Vec<u32>) {
    match dice.below(6) {
        0 => {
            let mut out = vec![0; 1 + dice.below(4) as usize];
            if with_victims(m, |m| m.take(&mut out)).is_ok() {
                loans.extend(out);
            }
        }
        1 | 2 if !loans.is_empty() => {
            let generations: Vec<u32> = loans.iter().map(|&b| m.pool().generation(b)).collect();
            m.free_blocks(loans, &generations).unwrap();
            loans.clear();
        }
        3 => drop(with_victims(m, |m| m.evict_until(3)).unwrap()),
        4 => drop(m.watch()),
        _ => {}
    }
}
