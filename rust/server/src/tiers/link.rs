//! Links, each way by itself: transfers queue, or share it evenly.

use super::even::Even;
use super::options::{LinkOptions, Sharing};

/// Which way a transfer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Towards the pool.
    Read,
    /// Away from it.
    Write,
}

/// A transfer on a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Passage {
    /// When its first byte goes.
    pub begin: f64,
    /// When its last one has arrived; later if others come to share the link.
    pub end: f64,
    /// Its number on a link that others share evenly with it.
    pub shared: Option<u64>,
}

/// One way over a link.
#[derive(Debug, Clone)]
enum Lane {
    /// When it is free.
    InTurn(f64),
    Evenly(Even),
}

impl Lane {
    fn new(rate: f64, sharing: Sharing) -> Self {
        match sharing {
            Sharing::InTurn => Self::InTurn(f64::NEG_INFINITY),
            Sharing::Evenly { each } => Self::Evenly(Even::new(rate, each)),
        }
    }
}

/// A link, in seconds of the server's clock.
#[derive(Debug)]
pub(crate) struct Link {
    options: LinkOptions,
    read: Lane,
    write: Lane,
}

impl Link {
    pub fn new(options: LinkOptions) -> Self {
        let lane = |rate| Lane::new(rate, options.sharing);
        Self { options, read: lane(options.read), write: lane(options.write) }
    }

    /// Another one like it, which is free.
    pub fn like(&self) -> Self {
        Self::new(self.options)
    }

    fn lane(&mut self, way: Way) -> (&mut Lane, f64) {
        match way {
            Way::Read => (&mut self.read, self.options.read),
            Way::Write => (&mut self.write, self.options.write),
        }
    }

    /// A transfer of `bytes` is ready at `now`.
    pub fn carry(&mut self, way: Way, now: f64, bytes: f64) -> Passage {
        let latency = self.options.latency;
        match self.lane(way) {
            (Lane::InTurn(free), rate) => {
                let begin = free.max(now);
                *free = begin + bytes / rate;
                Passage { begin, end: *free + latency, shared: None }
            }
            (Lane::Evenly(lane), _) => {
                let number = lane.add(now, bytes);
                let end = lane.end_of(number) + latency;
                Passage { begin: now, end, shared: Some(number) }
            }
        }
    }

    /// When a transfer arrives, as far as the others are known by now.
    pub fn end_of(&self, way: Way, passage: Passage) -> f64 {
        let lane = match way {
            Way::Read => &self.read,
            Way::Write => &self.write,
        };
        match (lane, passage.shared) {
            (Lane::Evenly(lane), Some(number)) => lane.end_of(number) + self.options.latency,
            _ => passage.end,
        }
    }

    /// Forgets a transfer that has arrived by `now`; when it will, if it has not.
    pub fn arrived(&mut self, way: Way, passage: Passage, now: f64) -> Result<f64, f64> {
        let end = self.end_of(way, passage);
        if end > now {
            return Err(end);
        }
        if let (Lane::Evenly(lane), Some(number)) = (self.lane(way).0, passage.shared) {
            lane.advance(now);
            lane.forget(number);
        }
        Ok(end)
    }

    /// What the bytes of a transfer take on the link, its latency aside.
    pub fn seconds_of(&self, passage: Passage, bytes: f64) -> f64 {
        match passage.shared {
            None => bytes / self.options.read,
            Some(_) => passage.end - self.options.latency - passage.begin,
        }
    }

    fn rate(&self, rate: f64) -> f64 {
        match self.options.sharing {
            Sharing::InTurn => rate,
            Sharing::Evenly { each } => rate.min(each),
        }
    }

    /// Seconds of a write alone on the link.
    pub fn write_seconds(&self, bytes: f64) -> f64 {
        bytes / self.rate(self.options.write) + self.options.latency
    }

    /// Seconds of a read alone on the link.
    pub fn read_seconds(&self, bytes: f64) -> f64 {
        bytes / self.rate(self.options.read) + self.options.latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::float_cmp)] // whole numbers
    fn transfers_of_one_way_queue_and_latency_keeps_no_one_waiting() {
        let (read, write, latency) = (10.0, 5.0, 3.0);
        let mut link = Link::new(LinkOptions { read, write, latency, sharing: Sharing::InTurn });
        assert_eq!(link.carry(Way::Read, 100.0, 20.0).end, 105.0);
        assert_eq!(link.carry(Way::Read, 101.0, 10.0).end, 106.0);
        assert_eq!(link.carry(Way::Write, 101.0, 10.0).end, 106.0);
        assert_eq!(link.carry(Way::Read, 200.0, 10.0).end, 204.0);
        assert_eq!((link.read_seconds(20.0), link.write_seconds(20.0)), (5.0, 7.0));
    }

    /// 10 bytes a second for all, 8 for one. The first has sent 8 of its 20 bytes when the second comes; 5 bytes a second
    /// each, until the second's 10 are there at 103; the last 2 of the first go at 8 a second.
    #[test]
    #[allow(clippy::float_cmp)] // binary fractions
    fn transfers_share_a_link_evenly_and_one_takes_no_more_than_its_most() {
        let sharing = Sharing::Evenly { each: 8.0 };
        let (read, write, latency) = (10.0, 5.0, 3.0);
        let mut link = Link::new(LinkOptions { read, write, latency, sharing });
        let first = link.carry(Way::Read, 100.0, 20.0);
        assert_eq!((first.begin, first.end), (100.0, 105.5));
        let second = link.carry(Way::Read, 101.0, 10.0);
        assert_eq!(second.end, 106.0);
        assert_eq!(link.end_of(Way::Read, first), 103.25 + 3.0);
        assert_eq!(link.arrived(Way::Read, first, 105.5), Err(106.25));
        assert_eq!(link.arrived(Way::Read, second, 106.0), Ok(106.0));
        assert_eq!(link.arrived(Way::Read, first, 107.0), Ok(106.25));
        // The other way is free.
        assert_eq!(link.carry(Way::Write, 107.0, 10.0).end, 112.0);
        assert_eq!((link.read_seconds(16.0), link.write_seconds(10.0)), (5.0, 5.0));
    }
}
