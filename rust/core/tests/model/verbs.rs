//! Loads, leases, fences, tokens without ids, and a pool that changes: each with its outcome checked.

use kvframe_core::manager::{PinRequest, PreemptionOrder};
use kvframe_core::pool::State;
use kvframe_core::{Allocation, Error, GroupKind, Request, SeqId};

use super::ops::Run;
use super::pages::POISON;
use super::promises::{Kept, Load, spoiled};
use super::texts::{Text, space, text};
use super::world::Live;
use crate::common::{allocate, picture};

impl Run {
    /// One of them.
    pub fn newer_verb(&mut self) {
        match self.dice.below(32) {
            0..6 => self.append_placeholders(),
            6..11 => self.fill_placeholders(),
            11..16 => self.settle_load(),
            16..18 => self.pass(),
            18..20 => self.lease(),
            20..22 => self.end_lease(),
            22..24 => self.resize(),
            24 => self.evict_until(),
            25 => self.level(),
            26 => self.fingerprint(),
            28..30 => self.expire_until(),
            30 => self.pin_for_a_time(),
            31 => self.touch_sequence(),
            _ => self.order(),
        }
    }

    fn pin_for_a_time(&mut self) {
        if self.dice.one_in(4) {
            self.w.m.unpin_all(Some("a lessee")).expect("held");
            return self.tell("unpin all".into());
        }
        let text = text(&mut self.dice, self.w.grain());
        let lease = Some(self.dice.below(3) as u64);
        let pinner = PinRequest { owner: "a lessee", lease, session: 0 };
        let before = picture(&self.w.m, &self.w.handles());
        let held = self.w.m.lock(&text.tokens, space(text.space), &text.mm_items, pinner);
        self.tell(format!("pin {:?} -> {held:?}", text.tokens));
        match held {
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => self.unchanged(&before),
        }
    }

    fn touch_sequence(&mut self) {
        let Some((_, seq)) = self.pick() else { return };
        self.tell(format!("touch {seq:x}"));
        self.w.m.touch(&[seq]).expect("live");
        let last = self
            .w
            .m
            .preemption_order(&self.w.handles(), PreemptionOrder::LeastRecent)
            .expect("live");
        // The last of those that are not within their floors, or of those that are.
        let kept = self.is_within_floor(seq);
        let mut behind = last.iter().skip_while(|c| c.seq != seq).skip(1);
        assert!(behind.all(|c| !kept && self.is_within_floor(c.seq)));
    }

    /// Everything promised is settled.
    pub fn settle_promises(&mut self) {
        while !self.w.promises.loads.is_empty() {
            self.settle_load();
            self.w.check();
        }
        while !self.w.promises.leases.is_empty() {
            self.end_lease();
            self.w.check();
        }
        self.w.m.unpin_all(Some("a lessee")).expect("held");
        self.w.promises.pass(u64::MAX);
        self.w.m.pass(u64::MAX);
        self.w.check();
    }

    /// Whether an admission may join a computation.
    pub fn joins(&mut self) -> bool {
        self.w.m.layout().check_plain().is_ok() && self.dice.one_in(2)
    }

    /// Tokens of `text` after the `found` ones that come from elsewhere.
    pub fn external(&mut self, text: &Text, found: u32) -> u32 {
        if self.dice.one_in(20) {
            return self.dice.between(1, 9);
        }
        let unit = self.w.m.layout().unit_tokens();
        let most = (text.tokens.len() as u32).saturating_sub(1 + found) / unit;
        if self.dice.one_in(3) { self.dice.between(0, most) * unit } else { 0 }
    }

    /// Books a sequence that was admitted, and what is being loaded for it.
    pub fn came_in(&mut self, text: &Text, request: &Request, allocation: Allocation) {
        self.remember(text);
        let live = Live::new(allocation.seq, text, request.encoder_tokens, self.w.epoch);
        self.w.encode(&live, allocation.encoder_cached);
        let left = allocation.granted_tokens - allocation.cached_tokens;
        let layout = self.w.m.layout().clone();
        let (start, count) = (
            allocation.cached_tokens / self.w.size,
            request.num_external_tokens.min(left) / layout.unit_tokens(),
        );
        assert_eq!(allocation.load.is_some(), count > 0);
        if let Some(ticket) = allocation.load {
            let good = if self.dice.one_in(3) { self.dice.between(0, count) } else { count };
            let tables = self.w.m.sequence(allocation.seq).expect("live").tables.clone();
            let row = |i: u32| {
                let mut pages = Vec::new();
                for (group, reach) in layout.groups().iter().enumerate() {
                    let first = (start + i * layout.unit()) / reach.units;
                    let more = if reach.kind == GroupKind::Cross {
                        0
                    } else {
                        layout.unit() / reach.units
                    };
                    let places = (first..first + more).map(|at| at as usize);
                    pages.extend(places.map(|at| (group, at, tables[group][at])));
                }
                pages
            };
            let rows: Vec<_> = (0..count).map(row).collect();
            for (i, row) in (0..).zip(&rows) {
                for &(group, at, block) in row {
                    let page = live.page(at as u32, group, &layout.groups()[group]);
                    let page = if i < good { page } else { vec![POISON; page.len()] };
                    self.w.pages.land(&self.w.m, block, &page);
                }
            }
            let pages = Kept::new(&self.w.pages, rows.iter().flatten().map(|&(.., block)| block));
            self.w.promises.loads.push(Load { ticket, start, rows, good, pages });
            self.w.note_loads();
        }
        self.w.live.push(live);
    }

    fn settle_load(&mut self) {
        let count = self.w.promises.loads.len();
        if count == 0 {
            return;
        }
        let load = self.w.promises.loads.swap_remove(self.dice.below(count));
        let unit = self.w.m.layout().unit();
        let all = load.rows.len() as u32;
        let before = picture(&self.w.m, &self.w.handles());
        self.w.m.loaded(load.ticket, all * unit + 1).expect_err("more than there is");
        self.unchanged(&before);
        let holders: Vec<(SeqId, u32)> = self
            .w
            .handles()
            .into_iter()
            .map(|seq| {
                (seq, load.held_by(&self.w.m.sequence(seq).expect("live").tables).min(load.good))
            })
            .collect();
        let expected = spoiled(&self.w.m, &load, &self.w.handles());
        let (good, ticket) = (load.good, load.ticket);
        let m = &mut self.w.m;
        let cut = match self.dice.below(3) {
            0 if good == all => m.done(ticket).map(|()| Vec::new()),
            0 if good == 0 => m.failed(ticket),
            // Half a unit is none.
            _ if good < all => m.loaded(ticket, good * unit + unit - 1),
            _ => m.loaded(ticket, good * unit),
        };
        self.tell(format!("load {ticket}: {good} of {all} blocks -> {cut:x?}"));
        assert_eq!(cut.expect("outstanding"), expected, "others were cut than had a lost page");
        self.w.note_loads();
        for (seq, blocks) in holders {
            let s = self.w.m.sequence(seq).expect("live");
            // A window that has moved past the good part starts again.
            let came = blocks == 0
                || s.len == 0
                || s.committed >= (load.start + blocks * unit) * self.w.size;
            assert!(came, "{seq:x}: {blocks} blocks came, {} tokens are computed", s.committed);
        }
        self.w.m.done(ticket).expect_err("settled");
    }

    fn append_placeholders(&mut self) {
        let Some((at, seq)) = self.pick() else { return };
        let ids: Vec<u32> = (0..self.dice.below(5)).map(|_| self.dice.between(0, 1)).collect();
        let before = picture(&self.w.m, &self.w.handles());
        let outcome =
            self.w.judged(&mut self.dice, |m| m.append_placeholders(seq, ids.len() as u32));
        self.tell(format!("append unknown {seq:x} {ids:?} -> {outcome:?}"));
        if outcome.is_err() {
            return self.unchanged(&before);
        }
        let live = &mut self.w.live[at];
        live.grow(&ids.iter().map(|&t| u64::from(t)).collect::<Vec<_>>());
        live.unknown.extend(ids);
        let missing = live.unknown.len();
        if missing > 0 {
            let before = picture(&self.w.m, &self.w.handles());
            self.w.m.append(seq, &[1]).expect_err("ids before it are missing");
            self.w
                .m
                .fill_placeholders(seq, &vec![0; missing + 1])
                .expect_err("more than are missing");
            self.unchanged(&before);
        }
    }

    fn fill_placeholders(&mut self) {
        let Some((at, seq)) = self.pick() else { return };
        let count = self.dice.below(self.w.live[at].unknown.len() + 1);
        let ids: Vec<u32> = self.w.live[at].unknown.drain(..count).collect();
        self.tell(format!("fill {seq:x} {ids:?}"));
        self.w.m.fill_placeholders(seq, &ids).expect("they were missing");
    }

    /// The number of a step that is in flight, or of one that has passed.
    pub fn step_ahead(&mut self) -> u64 {
        self.w.promises.steps += 1;
        self.w.promises.steps.saturating_sub(self.dice.below(3) as u64).max(1)
    }

    /// A step that has run.
    pub fn step_behind(&mut self) -> u64 {
        self.w.promises.steps.saturating_sub(self.dice.below(4) as u64)
    }

    /// A fence for the end of `seq`.
    pub fn fence(&mut self, seq: SeqId) -> u64 {
        let fence = self.step_ahead();
        self.fence_at(seq, fence);
        fence
    }

    /// `seq` is about to end behind `fence`.
    pub fn fence_at(&mut self, seq: SeqId, fence: u64) {
        self.w.run_plans(&mut self.dice);
        let s = self.w.m.sequence(seq).expect("live");
        let mut kept = Kept::default();
        for (reach, table) in self.w.m.layout().groups().iter().zip(&s.tables) {
            kept.add(&self.w.pages, reach, table, 0, reach.computed(s.committed, s.cached));
        }
        self.w.promises.fence(fence, kept);
    }

    fn pass(&mut self) {
        let step = self.step_behind();
        self.tell(format!("pass {step}"));
        self.w.m.pass(step);
        self.w.promises.pass(step);
    }

    fn lease(&mut self) {
        let Some((_, seq)) = self.pick() else { return };
        self.w.run_plans(&mut self.dice);
        let s = self.w.m.sequence(seq).expect("live");
        let (committed, cached, tables) = (s.committed, s.cached, s.tables.clone());
        let encoder = s.encoder_tokens;
        let before = picture(&self.w.m, &self.w.handles());
        self.w.m.lease(seq, committed + 1).expect_err("past what is computed");
        let layout = self.w.m.layout().clone();
        let upto = self.dice.between(0, committed);
        let blocks = |group| layout.table_len(group, upto, if upto > 0 { encoder } else { 0 });
        let held: Vec<_> =
            tables.iter().enumerate().flat_map(|(g, t)| t[..blocks(g)].to_vec()).collect();
        let stateless = !self.w.at_rest(seq, upto);
        let outcome = self.w.m.lease(seq, upto);
        self.tell(format!("lease {seq:x} {upto} -> {outcome:?}"));
        let joined = self.w.m.joined(self.w.m.sequence(seq).expect("live").joined);
        let waits = |b| joined.is_some_and(|(_, pages)| pages.iter().any(|page| page.dst == b));
        let loading = held.iter().any(|&b| self.w.promises.is_loading(b) || waits(b));
        assert_eq!(outcome.is_err(), loading || stateless);
        match outcome {
            Err(_) => self.unchanged(&before),
            Ok(ticket) => {
                let mut kept = Kept::default();
                for (g, (t, reach)) in tables.iter().zip(layout.groups()).enumerate() {
                    let there = reach.computed(committed, cached).min(upto);
                    kept.add(&self.w.pages, reach, &t[..blocks(g)], 0, there);
                }
                self.w.promises.leases.push((ticket, kept));
            }
        }
    }

    fn end_lease(&mut self) {
        let count = self.w.promises.leases.len();
        if count > 0 {
            let (ticket, _) = self.w.promises.leases.swap_remove(self.dice.below(count));
            self.tell(format!("lease {ticket} ends"));
            self.w.m.done(ticket).expect("outstanding");
        }
    }

    fn resize(&mut self) {
        let had = self.w.m.pool().capacity();
        let least = 2 * self.w.m.options().groups.len() as u32;
        let blocks = self.dice.between(had.saturating_sub(4).max(least), had + 4).min(64);
        let before = picture(&self.w.m, &self.w.handles());
        let pool = self.w.m.pool();
        let free = |b: u32| matches!(pool.state(b), State::Free | State::Cached);
        let fits = (blocks..pool.created()).all(free);
        let reserved = u32::from(self.w.m.options().null_block);
        let sound = blocks > reserved && self.w.m.options().reserve < blocks - reserved;
        let outcome = self.w.m.resize(blocks);
        self.tell(format!("resize {had} -> {blocks}: {outcome:?}"));
        let floors = matches!(
            &outcome,
            Err(Error::Invalid { what, limit, .. })
                if ["floor", "quota"].contains(what) || limit.contains("floors")
        );
        assert!(!floors || !self.w.m.options().tenants.is_empty(), "there are no floors");
        // It may be too small for what is owned besides.
        assert!(floors || outcome.is_ok() == (fits && sound));
        if outcome.is_err() {
            return self.unchanged(&before);
        }
        assert_eq!(self.w.m.pool().capacity(), blocks);
        self.w.pages.resize(blocks);
    }

    fn evict_until(&mut self) {
        let pool = self.w.m.pool();
        let (free, cached) = (pool.free(), pool.cached());
        let wanted = self.dice.between(0, free + cached + 1);
        let outcome =
            self.w.judged(&mut self.dice, |m| m.evict_until(wanted)).expect("cached ones go");
        self.tell(format!("collect {wanted} -> {outcome}"));
        let all = wanted.saturating_sub(free).min(cached);
        // What is below a floor stays.
        let shared_out = !self.w.m.options().tenants.is_empty();
        assert!(outcome == all || (shared_out && outcome < all), "{outcome} of {all}");
        assert_eq!(self.w.m.pool().free(), free + outcome);
    }

    fn level(&mut self) {
        let before = self.w.promises.level;
        let expected = self.w.promises.expect_level(&self.w.m);
        assert_eq!(self.w.m.pressure(), expected);
        let changed = (before != expected).then_some((before, expected));
        assert_eq!(self.w.m.watch(), changed);
        assert_eq!(self.w.m.pressure(), expected);
    }

    fn fingerprint(&mut self) {
        let cached = self.w.m.pool().cached();
        let weights = [self.dice.below(3) as u8];
        self.tell(format!("fingerprint {weights:?}"));
        assert_eq!(self.w.m.set_weight_version(&weights), cached);
        self.w.tails.reset(self.w.m.options(), &weights);
        self.w.forgotten();
    }

    /// Blocks that the end of `seq` would make available.
    pub fn frees(&self, seq: SeqId) -> u32 {
        let order = self.w.m.preemption_order(&[seq], PreemptionOrder::LastAdmitted).expect("live");
        order.first().map_or(0, |candidate| candidate.frees)
    }

    /// Whether the tenant of a sequence owns no more than its floor.
    fn is_within_floor(&self, seq: SeqId) -> bool {
        let tenant = usize::from(self.w.m.sequence(seq).expect("live").meta.tenant);
        let account = self.w.m.accounts().get(tenant);
        account.is_some_and(|account| account.owned() <= account.floor)
    }

    fn order(&mut self) {
        let seqs = self.w.handles();
        let m = &self.w.m;
        let order = m.preemption_order(&seqs, PreemptionOrder::FewestComputed).expect("live");
        let left_out = seqs.iter().filter(|&&seq| order.iter().all(|c| c.seq != seq));
        assert!(left_out.clone().all(|&seq| self.frees(seq) == 0), "one with gain was left out");
        assert!(order.iter().all(|c| c.frees > 0), "one without gain was named");
        assert!(order.is_sorted_by_key(|c| (self.is_within_floor(c.seq), c.computed)));
        let last = m.preemption_order(&seqs, PreemptionOrder::LastAdmitted).expect("live");
        let came = |seq| u64::MAX - m.sequence(seq).expect("live").allocated;
        assert!(last.is_sorted_by_key(|c| (self.is_within_floor(c.seq), came(c.seq))));
        assert_eq!(last.len(), order.len());
        let cached = m.eviction_order(u32::MAX);
        assert_eq!(m.eviction_order(3), cached[..cached.len().min(3)]);
    }

    /// Asleep, it lets nobody in; awake again, it does.
    pub fn sleep(&mut self) {
        let m = &mut self.w.m;
        m.sleep().expect("nothing is in use");
        assert_eq!(allocate(m, &[]), Err(Error::Asleep));
        m.wake();
        let seq = allocate(m, &[]).map(|allocation| allocation.seq);
        assert!(m.sleep().is_err() || seq.is_err(), "somebody runs");
    }
}
