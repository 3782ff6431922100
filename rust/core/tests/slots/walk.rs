//! Random calls: what is found, where it goes, and that what a hit promises is in memory.

use kvframe_core::slots::Standing;
use kvframe_core::transfers::{BlockCopy, CopyPlan};
use kvframe_core::{Error, SeqId};

use crate::dice::Dice;
use crate::engine::{Engine, SPACES, kv_of, place};

const POLICIES: [&str; 4] = ["lru", "lfu", "arc", "longest-first"];

struct Run {
    seq: SeqId,
    space: usize,
    tokens: Vec<u32>,
    computed: usize,
}

/// Slots, with every slot's findable tokens written down beside them.
pub struct Walk {
    e: Engine,
    dice: Dice,
    length: usize,
    least_copy: u32,
    runs: Vec<Run>,
    plans: Vec<CopyPlan>,
    found: Vec<(usize, Vec<u32>)>,
    hits: u32,
    copies: u32,
}

fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Walk {
    /// A few short slots, of sizes that the dice choose.
    pub fn new(mut dice: Dice) -> Self {
        let (count, length) = (dice.between(1, 9), dice.between(4, 24));
        let least_copy = dice.between(1, 3);
        let policy = POLICIES[dice.below(4)];
        Self {
            e: Engine::new(count, length, least_copy, policy),
            dice,
            length: length as usize,
            least_copy,
            runs: Vec::new(),
            plans: Vec::new(),
            found: vec![(0, Vec::new()); count as usize],
            hits: 0,
            copies: 0,
        }
    }

    /// One call, and everything checked.
    pub fn step(&mut self) {
        match self.dice.below(12) {
            0..=3 => self.allocate(),
            4..=5 => self.compute(),
            6 => self.append(),
            7..=8 => self.release(),
            9..=10 => self.settle(),
            _ => self.rare(),
        }
        self.e.slots.check_integrity().expect("sound");
        for ((_, tokens), row) in self.found.iter().zip(self.e.slots.rows()) {
            assert_eq!(tokens.len(), row.found as usize);
        }
    }

    fn allocate(&mut self) {
        let (rare, len) = (self.dice.below(5) + 2, self.dice.between(1, self.length as u32));
        let prompt: Vec<u32> = (0..len).map(|_| u32::from(self.dice.one_in(rare))).collect();
        let space = usize::from(self.dice.one_in(4));
        let ours = self.found.iter().filter(|(theirs, _)| *theirs == space);
        let longest = ours.map(|(_, tokens)| common(tokens, &prompt[..prompt.len() - 1])).max();
        let longest = longest.unwrap_or(0) as u32;
        assert_eq!(self.e.slots.lookup(&prompt, SPACES[space]), longest);
        let before: Vec<_> = self.e.slots.rows().collect();
        let order = self.e.slots.eviction_order();
        let free = |standing| before.iter().position(|row| row.standing == standing);
        let got = match self.e.allocate(&prompt, space) {
            Ok(got) => got,
            Err(Error::NoSlot { .. }) => {
                assert_eq!((free(Standing::Empty), free(Standing::Cached)), (None, None));
                return;
            }
            Err(other) => panic!("{other}"),
        };
        let at = place(got.seq);
        assert!(matches!(before[at].standing, Standing::Empty | Standing::Cached));
        let in_place = got.cached > 0 && got.copied_from.is_none();
        if in_place {
            assert_eq!(common(&self.found[at].1, &prompt[..prompt.len() - 1]), longest as usize);
        } else {
            assert_eq!(
                Some(at),
                free(Standing::Empty).or(order.first().map(|&slot| slot as usize))
            );
        }
        let worth = in_place || longest >= self.least_copy;
        assert_eq!(got.cached, if worth { longest } else { 0 });
        self.found[at] = (space, prompt[..if in_place { got.cached as usize } else { 0 }].to_vec());
        self.hits += u32::from(got.cached > 0);
        self.copies += u32::from(got.copied_from.is_some());
        // Copies run before the next write; their tickets come back when they come.
        if let Some(plan) = self.e.slots.take_plan() {
            self.e.run(&plan);
            self.plans.push(plan);
        }
        let kv = kv_of(space, &prompt[..got.cached as usize]);
        assert_eq!(self.e.memory[at][..kv.len()], kv, "what was promised is there");
        self.runs.push(Run { seq: got.seq, space, tokens: prompt, computed: got.cached as usize });
    }

    fn compute(&mut self) {
        if self.runs.is_empty() {
            return;
        }
        let at = self.dice.below(self.runs.len());
        let Run { seq, space, tokens, computed } = &mut self.runs[at];
        let to = self.dice.between(*computed as u32, tokens.len() as u32) as usize;
        self.e.compute(*seq, *space, tokens, *computed, to);
        *computed = to;
        self.publish(at);
    }

    /// Writes down what is found of a run, unless its prefix is on the way.
    fn publish(&mut self, at: usize) {
        let Run { seq, space, tokens, computed } = &self.runs[at];
        let filling =
            self.plans.iter().flat_map(|p| &p.copies).any(|c| c.dst as usize == place(*seq));
        if !filling {
            self.found[place(*seq)] = (*space, tokens[..*computed].to_vec());
        }
    }

    fn append(&mut self) {
        if self.runs.is_empty() {
            return;
        }
        let at = self.dice.below(self.runs.len());
        let more: Vec<u32> = (0..self.dice.below(4)).map(|_| self.dice.below(2) as u32).collect();
        let Run { seq, tokens, .. } = &mut self.runs[at];
        let fits = tokens.len() + more.len() <= self.length;
        assert_eq!(self.e.slots.append(*seq, &more).is_ok(), fits);
        if fits {
            tokens.extend(more);
        }
    }

    fn release(&mut self) {
        if !self.runs.is_empty() {
            let run = self.runs.swap_remove(self.dice.below(self.runs.len()));
            self.e.slots.release(run.seq).expect("live");
            assert_eq!(self.e.slots.release(run.seq), Err(Error::StaleSequence(run.seq)));
        }
    }

    fn settle(&mut self) {
        if self.plans.is_empty() {
            return;
        }
        let plan = self.plans.swap_remove(self.dice.below(self.plans.len()));
        let copies = plan.copies.iter();
        let live = |seq: SeqId| self.runs.iter().position(|run| run.seq == seq);
        let (running, over): (Vec<&BlockCopy>, Vec<_>) =
            copies.partition(|copy| live(copy.seq).is_some());
        let running: Vec<usize> = running.into_iter().filter_map(|copy| live(copy.seq)).collect();
        if self.dice.one_in(3) {
            let rewound = self.e.slots.failed(plan.ticket).expect("outstanding");
            assert_eq!(rewound, running.iter().map(|&at| self.runs[at].seq).collect::<Vec<_>>());
            for &at in &running {
                self.runs[at].computed = 0;
            }
            return;
        }
        let committed: Vec<_> = self.e.slots.rows().map(|row| row.committed as usize).collect();
        self.e.slots.done(plan.ticket).expect("outstanding");
        for &at in &running {
            assert_eq!(committed[place(self.runs[at].seq)], self.runs[at].computed);
            self.publish(at);
        }
        // Of one that has ended, what it had is found now.
        for copy in over {
            let (space, tokens) = self.ended(copy.dst as usize, committed[copy.dst as usize]);
            self.found[copy.dst as usize] = (space, tokens);
        }
    }

    /// What memory says of a slot whose sequence has ended: the only prompts that hash to it.
    fn ended(&self, slot: usize, length: usize) -> (usize, Vec<u32>) {
        let kv = &self.e.memory[slot][..length];
        let Some(first) = kv.first() else { return (0, Vec::new()) };
        let space = (0..2).find(|&space| (0..2).any(|token| kv_of(space, &[token])[0] == *first));
        let space = space.expect("of a namespace");
        let mut tokens = Vec::new();
        for &want in kv {
            let next = (0..2).find(|&token| {
                tokens.push(token);
                let same = kv_of(space, &tokens)[tokens.len() - 1] == want;
                tokens.pop();
                same
            });
            tokens.push(next.expect("a token"));
        }
        (space, tokens)
    }

    fn rare(&mut self) {
        if self.dice.one_in(8) && self.plans.is_empty() && self.runs.is_empty() {
            self.e.slots.clear().expect("sound");
            self.found.iter_mut().for_each(|(_, tokens)| tokens.clear());
        } else if let Some(at) = self.runs.len().checked_sub(1) {
            let Run { seq, tokens, computed, .. } = &mut self.runs[at];
            let length = self.dice.between(0, tokens.len() as u32) as usize;
            if self.e.slots.truncate(*seq, length as u32).is_ok() {
                tokens.truncate(length);
                *computed = length.min(*computed);
                self.publish(at);
            }
        }
    }
}

// scenario: SA-B6, SA-B7, SA-B12
#[test]
fn whatever_is_called_a_hit_is_what_memory_holds() {
    let (mut hits, mut copies) = (0, 0);
    let seeds = 5 * crate::dice::runs(40);
    for seed in 0..seeds {
        let mut walk = Walk::new(Dice::new(seed));
        for _ in 0..400 {
            walk.step();
        }
        (hits, copies) = (hits + u64::from(walk.hits), copies + u64::from(walk.copies));
    }
    assert!(hits > 12 * seeds && copies > 5 * seeds, "{hits} hits, {copies} copies");
}
