//! The operations, each with its outcome checked.

use kvframe_core::index::IndexKind;
use kvframe_core::{GroupKind, NIL, Options, SeqId};

use super::dice::Dice;
use super::pages::POISON;
use super::texts::{Text, request, space};
use super::world::{Live, World};
use crate::common::{Picture, picture};

/// Numbers of operations, each as often as it is wanted.
pub const VERBS: usize = 156;

/// One run.
pub struct Run {
    pub w: World,
    pub dice: Dice,
    policy: String,
    seed: u64,
    pub trail: Vec<String>,
    /// Prompts that came in, the latest first.
    pub texts: Vec<Text>,
}

impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let last = self.trail.len().saturating_sub(40);
            eprintln!("{}: {:?}", self.policy, self.w.m.options());
            eprintln!("  ... {}", self.trail[last..].join("\n      "));
            eprintln!("run it again with KVFRAME_SEED={}", self.seed);
        }
    }
}

impl Run {
    pub fn new(options: Options, policy: &str, seed: u64, dice: Dice) -> Self {
        let w = World::new(options, policy);
        Self { w, dice, policy: policy.into(), seed, trail: Vec::new(), texts: Vec::new() }
    }

    pub fn tell(&mut self, what: String) {
        self.trail.push(what);
    }

    /// One random operation and the checks after it.
    pub fn one(&mut self) {
        let verb = self.dice.below(VERBS);
        self.act(verb);
    }

    /// The operation of that number and the checks after it.
    pub fn act(&mut self, verb: usize) {
        self.w.seen.operations += 1;
        match verb {
            144.. => self.newest_verb(),
            128.. => self.held_verb(),
            100.. => self.newer_verb(),
            0..20 => self.allocate(),
            20..34 => self.append(),
            34..40 => self.extend(),
            40..57 => self.commit(),
            57..63 => self.truncate(),
            63..68 => self.fork(),
            68..78 => self.release(),
            78..83 => self.settle(),
            83..88 => self.loans(),
            88..92 => self.misuse(),
            92..93 => self.clear(),
            93..96 => self.lookup(),
            _ => self.step(),
        }
        if self.dice.one_in(2) {
            self.w.run_plans(&mut self.dice);
        }
        self.w.check();
    }

    /// Everything ends: nothing may be left behind.
    pub fn finish(&mut self) {
        self.w.run_plans(&mut self.dice);
        while !self.w.pages.tickets.is_empty() {
            self.settle();
            self.w.check();
        }
        self.settle_promises();
        while !self.w.live.is_empty() {
            self.release();
            self.w.check();
        }
        self.let_go();
        self.w.m.free(&self.w.loans).expect("on loan");
        self.w.loans.clear();
        self.w.m.reset_prefix_cache();
        self.w.check();
        let (m, pool) = (&self.w.m, self.w.m.pool());
        assert_eq!(pool.free(), pool.usable(), "blocks leaked");
        assert_eq!(m.stats().copies, self.w.pages.copied, "a copy was never planned");
        assert_eq!(m.num_running(), 0);
        self.sleep();
    }

    fn allocate(&mut self) {
        let text = self.text();
        let next_use: Vec<u32> = (0..text.tokens.len()).map(|_| self.dice.between(0, 40)).collect();
        let mut request = request(&mut self.dice, &text, &next_use);
        request.chunk = if self.dice.one_in(3) { self.dice.between(0, 6) } else { u32::MAX };
        let before = picture(&self.w.m, &self.w.handles());
        request.encoder_tokens = self.w.encoder(text.space);
        let named = request.encoder_tokens == 0 || !request.encoder.is_empty();
        let expected = if request.read_cache && named { self.w.longest_hit(&text) } else { 0 };
        request.num_external_tokens = self.external(&text, expected);
        request.join = self.joins();
        let outcome = self.w.judged(&mut self.dice, |m| m.allocate(&request));
        let whole = !request.partial;
        self.tell(format!(
            "allocate {:?} {:?} whole {whole} -> {outcome:x?}",
            text.space, text.tokens
        ));
        match outcome {
            Err(_) => self.unchanged(&before),
            Ok(allocation) => {
                let cached = allocation.cached_tokens;
                self.check_hit(&text, cached, expected, request.read_cache);
                assert!(cached < allocation.prompt_tokens || cached == 0, "rule 5");
                let start = cached + request.num_external_tokens + allocation.joined_tokens;
                let until = allocation.prompt_tokens.min(start.saturating_add(request.chunk));
                assert!(!whole || allocation.granted_tokens == until, "not all that was asked for");
                self.came_in(&text, &request, allocation);
            }
        }
    }

    pub fn unchanged(&mut self, before: &Picture) {
        let now = picture(&self.w.m, &self.w.handles());
        assert_eq!(&now, before, "a refused operation changed something");
    }

    pub fn pick(&mut self) -> Option<(usize, SeqId)> {
        let at = self.dice.below(self.w.live.len());
        self.w.live.get(at).map(|l| (at, l.seq))
    }

    fn append(&mut self) {
        let Some((at, seq)) = self.pick() else { return };
        let tokens: Vec<u32> = (0..self.dice.below(5)).map(|_| self.dice.between(0, 1)).collect();
        let before = picture(&self.w.m, &self.w.handles());
        let outcome = self.w.judged(&mut self.dice, |m| m.append(seq, &tokens));
        self.tell(format!("append {seq:x} {tokens:?} -> {outcome:?}"));
        if outcome.is_ok() {
            self.w.live[at].grow(&tokens.iter().map(|&t| u64::from(t)).collect::<Vec<_>>());
        } else {
            self.unchanged(&before);
        }
    }

    fn extend(&mut self) {
        let Some((_, seq)) = self.pick() else { return };
        let s = self.w.m.sequence(seq).expect("live");
        let (len, known) = (s.len, s.known());
        let until = self.dice.between(len.saturating_sub(1), known + 1);
        let before = picture(&self.w.m, &self.w.handles());
        let outcome = self.w.judged(&mut self.dice, |m| m.extend(seq, until));
        self.tell(format!("extend {seq:x} {until} -> {outcome:?}"));
        assert!(outcome.is_err() || (len..=known).contains(&until));
        if outcome.is_err() {
            self.unchanged(&before);
        }
    }

    fn commit(&mut self) {
        let Some((at, seq)) = self.pick() else { return };
        self.w.run_plans(&mut self.dice);
        let s = self.w.m.sequence(seq).expect("live");
        let (from, len) = (s.committed, s.len);
        let upto = if self.dice.one_in(3) { self.dice.between(from, len) } else { len };
        let before = picture(&self.w.m, &self.w.handles());
        if upto > self.w.live[at].filled() {
            self.w.m.commit(seq, upto).expect_err("not all ids are known");
            return self.unchanged(&before);
        }
        self.w.compute(at, upto);
        let outcome = self.w.m.commit(seq, upto);
        self.tell(format!("commit {seq:x} {upto} -> {outcome:?}"));
        outcome.expect("computed");
    }

    fn truncate(&mut self) {
        let Some((at, seq)) = self.pick() else { return };
        let len = self.w.m.sequence(seq).expect("live").len;
        let to = self.dice.between(len.saturating_sub(6), len);
        let before = picture(&self.w.m, &self.w.handles());
        let outcome = self.w.m.truncate(seq, to);
        self.tell(format!("truncate {seq:x} {to} -> {outcome:?}"));
        if outcome.is_ok() {
            self.w.live[at].cut(to);
        } else {
            self.unchanged(&before);
        }
    }

    fn fork(&mut self) {
        let Some((at, seq)) = self.pick() else { return };
        if self.w.live.len() > 12 {
            return;
        }
        let free = self.w.m.pool().available();
        let s = self.w.m.sequence(seq).expect("live");
        let kinds = &self.w.m.options().groups;
        if s.committed < s.len
            && kinds
                .iter()
                .any(|g| matches!(g.kind, GroupKind::State | GroupKind::SinkWindow { .. }))
        {
            let before = picture(&self.w.m, &self.w.handles());
            self.w.m.fork(seq).expect_err("a state is on its way");
            return self.unchanged(&before);
        }
        let child = self.w.m.fork(seq).expect("live");
        self.tell(format!("fork {seq:x} -> {child:x}"));
        assert_eq!(self.w.m.pool().available(), free, "a fork costs no block");
        let twin = Live { seq: child, ..self.w.live[at].clone() };
        self.w.live.push(twin);
    }

    fn release(&mut self) {
        let Some((at, seq)) = self.pick() else { return };
        let fence = self.dice.one_in(4).then(|| self.fence(seq));
        let (had, frees) = (self.w.room_to_come(), self.frees(seq));
        let room = self.w.m.pool().available();
        self.w.name_tails(seq);
        match fence {
            Some(fence) => self.w.m.release_behind(seq, fence).expect("live"),
            None => self.w.m.release(seq).expect("live"),
        }
        self.tell(format!("release {seq:x} behind {fence:?}"));
        assert_eq!(self.w.room_to_come() - had, frees, "it freed other than was told");
        let waits = fence.is_some_and(|fence| fence > self.w.promises.passed);
        assert!(!waits || self.w.m.pool().available() == room, "a fence has not passed");
        self.w.live.swap_remove(at);
        self.w.ended.push(seq);
    }

    fn settle(&mut self) {
        self.w.run_plans(&mut self.dice);
        if self.w.pages.tickets.is_empty() {
            return;
        }
        let at = self.dice.below(self.w.pages.tickets.len());
        let (ticket, failed) = self.w.pages.tickets.swap_remove(at);
        self.tell(format!("settle {ticket}, failed {failed}"));
        if failed {
            self.w.m.failed(ticket).expect("outstanding");
        } else {
            self.w.m.done(ticket).expect("outstanding");
        }
    }

    fn loans(&mut self) {
        let count = self.dice.below(4);
        if self.dice.one_in(2) {
            let before = picture(&self.w.m, &self.w.handles());
            let outcome = self.w.judged(&mut self.dice, |m| {
                let mut out = vec![NIL; count];
                m.take(&mut out).map(|()| out)
            });
            self.tell(format!("lend {count} -> {outcome:?}"));
            match outcome {
                Ok(out) => self.w.loans.extend(out),
                Err(_) => self.unchanged(&before),
            }
        } else {
            let keep = self.w.loans.len() - count.min(self.w.loans.len());
            let back = self.w.loans.split_off(keep);
            self.tell(format!("give back {back:?}"));
            self.w.m.free(&back).expect("on loan");
        }
    }

    fn misuse(&mut self) {
        let before = picture(&self.w.m, &self.w.handles());
        let m = &mut self.w.m;
        let stale = self.w.ended.last().copied().unwrap_or(77 << 32);
        m.release(stale).expect_err("stale");
        m.commit(stale, 0).expect_err("stale");
        m.append(stale, &[]).expect_err("stale");
        m.fork(stale).expect_err("stale");
        m.truncate(stale, 0).expect_err("stale");
        m.done(u64::MAX).expect_err("unknown");
        m.failed(0).expect_err("unknown");
        let mut twice = self.w.loans.clone();
        twice.extend(self.w.loans.first());
        twice.push((0..m.pool().capacity()).find(|b| !self.w.loans.contains(b)).unwrap_or(NIL));
        m.free(&twice).expect_err("not on loan");
        m.free(&[m.pool().capacity()]).expect_err("unknown");
        for live in &self.w.live {
            let s = m.sequence(live.seq).expect("live");
            let (len, committed, known) = (s.len, s.committed, s.known());
            m.commit(live.seq, len + 1).expect_err("past the end");
            m.truncate(live.seq, len + 1).expect_err("past the end");
            m.extend(live.seq, known + 1).expect_err("past what is known");
            if committed > 0 {
                m.commit(live.seq, committed - 1).expect_err("backwards");
            }
        }
        self.unchanged(&before);
    }

    fn clear(&mut self) {
        let freed = self.w.m.reset_prefix_cache();
        self.tell(format!("clear -> {freed}"));
        self.w.forgotten();
    }

    fn lookup(&mut self) {
        let text = self.text();
        let before = picture(&self.w.m, &self.w.handles());
        let hit = self.w.m.lookup(&text.tokens, space(text.space), &text.mm_items);
        self.unchanged(&before);
        let whole = self.w.longest_hit(&text);
        self.check_hit(&text, hit.tokens, whole, true);
        let ends = self.w.tail_ends(&text, whole);
        let longest = ends.at.last().copied().unwrap_or(whole);
        assert!(ends.copied || self.by_radix() || hit.tokens == longest, "{longest} to be found");
        let mut reader = Live::new(0, &text, self.w.encoder(text.space), self.w.epoch);
        reader.chain.truncate(hit.tokens as usize + 1);
        for (group, reach) in self.w.m.layout().groups().iter().enumerate() {
            for (i, &block) in (0..).zip(&hit.blocks[group]).filter(|&(_, &b)| b != NIL) {
                let wanted = reader.page_of(i, group, reach, hit.tokens);
                let page = &self.w.pages.page(block)[..wanted.len()];
                assert!(!page.contains(&POISON));
                assert_eq!(page, wanted);
            }
        }
    }

    /// A hit is the longest in whole blocks; where it may, it goes on inside the next one.
    fn check_hit(&mut self, text: &Text, tokens: u32, whole: u32, reads: bool) {
        let options = self.w.m.options();
        if tokens == whole {
            return;
        }
        assert!(options.partial_hits && reads, "{tokens} found, {whole} in whole blocks");
        let inside = (whole..whole + options.block_size).contains(&tokens);
        let named = self.by_radix() || self.w.tail_ends(text, whole).at.contains(&tokens);
        assert!(inside && named, "{tokens} found, {whole} in whole blocks");
        self.w.seen.tails += u64::from(!self.by_radix());
    }

    fn by_radix(&self) -> bool {
        self.w.m.options().index == IndexKind::Radix
    }
}
