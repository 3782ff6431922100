//! Links, each way by itself: transfers queue on one, or share those of their path evenly.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::flows::Flows;
use super::options::{LinkOptions, Sharing};

/// Which way a transfer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Towards the pool.
    Read,
    /// Away from it.
    Write,
}

/// A transfer among those that share its links.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shared {
    part: usize,
    way: Way,
    number: u64,
    latency: f64,
}

/// A transfer on its path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Passage {
    /// When its first byte goes.
    pub begin: f64,
    /// When its last one has arrived, as far as the others were known as it was sent.
    pub end: f64,
    /// What its bytes take, the latency aside, by the same.
    pub seconds: f64,
    /// Where links are shared evenly.
    pub shared: Option<Shared>,
}

#[derive(Debug)]
struct Link {
    options: LinkOptions,
    /// When each way is free, where transfers go in turn.
    free: [f64; 2],
    /// Where they share it: the part of the links that paths join it with, and its place there.
    lane: Option<(usize, usize)>,
}

impl Link {
    fn rate(&self, way: Way) -> f64 {
        match way {
            Way::Read => self.options.read,
            Way::Write => self.options.write,
        }
    }

    /// Bytes a second of one transfer, at most.
    fn most(&self) -> f64 {
        match self.options.sharing {
            Sharing::InTurn => f64::INFINITY,
            Sharing::Evenly { each } => each,
        }
    }
}

/// The links of a server, or of several.
#[derive(Debug)]
pub(crate) struct Net {
    links: Vec<Link>,
    /// Both ways of links that are joined by paths.
    parts: Vec<[Flows; 2]>,
}

impl Net {
    /// Links, and the paths of several of them that transfers take.
    pub fn new(options: impl IntoIterator<Item = LinkOptions>, paths: &[Vec<usize>]) -> Self {
        let link = |options| Link { options, free: [f64::NEG_INFINITY; 2], lane: None };
        let mut links: Vec<Link> = options.into_iter().map(link).collect();
        let mut part_of: Vec<usize> = (0..links.len()).collect();
        for path in paths {
            for &other in path {
                let (old, new) = (part_of[other], part_of[path[0]]);
                part_of.iter_mut().filter(|part| **part == old).for_each(|part| *part = new);
            }
        }
        let mut parts: Vec<[Flows; 2]> = links.iter().map(|_| <[Flows; 2]>::default()).collect();
        for (link, &part) in links.iter_mut().zip(&part_of) {
            if let Sharing::Evenly { .. } = link.options.sharing {
                let [read, write] = &mut parts[part];
                read.add_lane(link.options.read);
                link.lane = Some((part, write.add_lane(link.options.write)));
            }
        }
        Self { links, parts }
    }

    /// How link `at` is configured.
    pub fn options(&self, at: usize) -> LinkOptions {
        self.links[at].options
    }

    /// Whether transfers share some link, so that one that comes changes when others arrive.
    pub fn is_shared(&self) -> bool {
        self.links.iter().any(|link| link.lane.is_some())
    }

    /// A transfer of `bytes` is ready at `now` for the links of `path`, which it crosses at once. Of several, all are
    /// shared evenly.
    pub fn carry(&mut self, path: &[usize], way: Way, now: f64, bytes: f64) -> Passage {
        let latency = self.latency(path);
        let first = &mut self.links[path[0]];
        let Some((part, _)) = first.lane else {
            let seconds = bytes / first.rate(way);
            let free = &mut first.free[way as usize];
            let begin = free.max(now);
            *free = begin + seconds;
            return Passage { begin, end: *free + latency, seconds, shared: None };
        };
        let lanes = path.iter().filter_map(|&at| self.links[at].lane).map(|(_, lane)| lane);
        let (lanes, most) = (lanes.collect(), self.most(path));
        let flows = &mut self.parts[part][way as usize];
        let number = flows.add((now, bytes), lanes, most);
        let gone = flows.end_of(number);
        let shared = Some(Shared { part, way, number, latency });
        Passage { begin: now, end: gone + latency, seconds: gone - now, shared }
    }

    /// When a transfer arrives, as far as the others are known by now.
    pub fn end_of(&mut self, passage: Passage) -> f64 {
        passage.shared.map_or(passage.end, |Shared { part, way, number, latency }| {
            self.parts[part][way as usize].end_of(number) + latency
        })
    }

    /// Forgets a transfer that has arrived by `now`; when it will, if it has not.
    pub fn arrived(&mut self, passage: Passage, now: f64) -> Result<f64, f64> {
        let end = self.end_of(passage);
        if end > now {
            return Err(end);
        }
        if let Some(Shared { part, way, number, .. }) = passage.shared {
            let flows = &mut self.parts[part][way as usize];
            flows.advance(now);
            flows.forget(number);
        }
        Ok(end)
    }

    /// Seconds of a transfer alone on its path.
    pub fn seconds(&self, path: &[usize], way: Way, bytes: f64) -> f64 {
        let rates = path.iter().map(|&at| self.links[at].rate(way));
        bytes / rates.fold(self.most(path), f64::min) + self.latency(path)
    }

    fn latency(&self, path: &[usize]) -> f64 {
        path.iter().map(|&at| self.links[at].options.latency).sum()
    }

    fn most(&self, path: &[usize]) -> f64 {
        path.iter().map(|&at| self.links[at].most()).fold(f64::INFINITY, f64::min)
    }
}

/// A server's links, some of which others may have too.
#[derive(Debug, Clone)]
pub(crate) struct Links {
    /// Servers take turns: no server waits for the lock.
    net: Arc<Mutex<Net>>,
    /// The place there of each.
    places: Vec<usize>,
}

impl Links {
    pub fn new(net: Arc<Mutex<Net>>, places: Vec<usize>) -> Self {
        Self { net, places }
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn options(&self, at: usize) -> LinkOptions {
        self.net().options(self.places[at])
    }

    pub fn net(&self) -> MutexGuard<'_, Net> {
        self.net.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The places of a path in the net.
    pub fn path(&self, path: impl IntoIterator<Item = usize>) -> Vec<usize> {
        path.into_iter().map(|at| self.places[at]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(read: f64, sharing: Sharing) -> LinkOptions {
        LinkOptions { read, write: 5.0, latency: 3.0, sharing }
    }

    #[test]
    #[allow(clippy::float_cmp)] // whole numbers
    fn transfers_of_one_way_queue_and_latency_keeps_no_one_waiting() {
        let mut net = Net::new([link(10.0, Sharing::InTurn)], &[]);
        assert_eq!(net.carry(&[0], Way::Read, 100.0, 20.0).end, 105.0);
        assert_eq!(net.carry(&[0], Way::Read, 101.0, 10.0).end, 106.0);
        assert_eq!(net.carry(&[0], Way::Write, 101.0, 10.0).end, 106.0);
        assert_eq!(net.carry(&[0], Way::Read, 200.0, 10.0).end, 204.0);
        let alone = [Way::Read, Way::Write].map(|way| net.seconds(&[0], way, 20.0));
        assert_eq!(alone, [5.0, 7.0]);
    }

    /// 10 bytes a second for all, 8 for one. The first has sent 8 of its 20 bytes when the second comes; 5 bytes a second
    /// each, until the second's 10 are there at 103; the last 2 of the first go at 8 a second.
    #[test]
    #[allow(clippy::float_cmp)] // binary fractions
    fn transfers_share_a_link_evenly_and_one_takes_no_more_than_its_most() {
        let mut net = Net::new([link(10.0, Sharing::Evenly { each: 8.0 })], &[]);
        let first = net.carry(&[0], Way::Read, 100.0, 20.0);
        assert_eq!((first.begin, first.end), (100.0, 105.5));
        let second = net.carry(&[0], Way::Read, 101.0, 10.0);
        assert_eq!(second.end, 106.0);
        assert_eq!(net.end_of(first), 103.25 + 3.0);
        assert_eq!(net.arrived(first, 105.5), Err(106.25));
        assert_eq!(net.arrived(second, 106.0), Ok(106.0));
        assert_eq!(net.arrived(first, 107.0), Ok(106.25));
        // The other way is free.
        assert_eq!(net.carry(&[0], Way::Write, 107.0, 10.0).end, 112.0);
        let alone = (net.seconds(&[0], Way::Read, 16.0), net.seconds(&[0], Way::Write, 10.0));
        assert_eq!(alone, (5.0, 5.0));
    }

    /// A port of 6 bytes a second, behind which drives have 4. From 100 on, 15 bytes come over both at 4 a second; from
    /// 101 on, 9 come over the port alone, and both have 3: the others' end 104, the first's 104.5. At 102, 4 bytes leave
    /// the drives for elsewhere: they and the 8 that are left of the first have 2 a second, and the 6 over the port 4.
    /// They end at 103.5, the 4 at 104, and the last 4 of the first at 105.
    #[test]
    #[allow(clippy::float_cmp)] // binary fractions
    fn a_transfer_over_several_links_has_the_share_of_the_narrowest() {
        let evenly = Sharing::Evenly { each: f64::INFINITY };
        let mut net = Net::new([link(4.0, evenly), link(6.0, evenly)], &[vec![0, 1]]);
        let far = net.carry(&[0, 1], Way::Read, 100.0, 15.0);
        let near = net.carry(&[1], Way::Read, 101.0, 9.0);
        // Each link's latency.
        assert_eq!((net.end_of(near), net.end_of(far)), (104.0 + 3.0, 104.5 + 6.0));
        let beside = net.carry(&[0], Way::Read, 102.0, 4.0);
        let ends = [near, beside, far].map(|one| net.end_of(one));
        assert_eq!(ends, [103.5 + 3.0, 104.0 + 3.0, 105.0 + 6.0]);
        assert_eq!(net.seconds(&[0, 1], Way::Read, 16.0), 10.0);
    }
}
