//! Links: transfers queue, each way by itself.

use super::options::LinkOptions;

/// Which way a transfer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Towards the pool.
    Read,
    /// Away from it.
    Write,
}

/// A link and when it is free, in seconds of the server's clock.
#[derive(Debug)]
pub(crate) struct Link {
    options: LinkOptions,
    read_free: f64,
    write_free: f64,
}

impl Link {
    pub fn new(options: LinkOptions) -> Self {
        Self { options, read_free: f64::NEG_INFINITY, write_free: f64::NEG_INFINITY }
    }

    /// Another one like it, which is free.
    pub fn like(&self) -> Self {
        Self::new(self.options)
    }

    /// A transfer of `bytes` is ready at `now`. Returns when they have arrived.
    pub fn carry(&mut self, way: Way, now: f64, bytes: f64) -> f64 {
        let (free, rate) = match way {
            Way::Read => (&mut self.read_free, self.options.read),
            Way::Write => (&mut self.write_free, self.options.write),
        };
        *free = free.max(now) + bytes / rate;
        *free + self.options.latency
    }

    /// When a read that is ready at `now` begins, and what its bytes take.
    pub fn next_read(&self, now: f64, bytes: f64) -> (f64, f64) {
        (self.read_free.max(now), bytes / self.options.read)
    }

    /// Seconds of a write alone on the link.
    pub fn write_seconds(&self, bytes: f64) -> f64 {
        bytes / self.options.write + self.options.latency
    }

    /// Seconds of a read alone on the link.
    pub fn read_seconds(&self, bytes: f64) -> f64 {
        bytes / self.options.read + self.options.latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::float_cmp)] // whole numbers
    fn transfers_of_one_way_queue_and_latency_keeps_no_one_waiting() {
        let mut link = Link::new(LinkOptions { read: 10.0, write: 5.0, latency: 3.0 });
        assert_eq!(link.carry(Way::Read, 100.0, 20.0), 105.0);
        assert_eq!(link.carry(Way::Read, 101.0, 10.0), 106.0);
        assert_eq!(link.carry(Way::Write, 101.0, 10.0), 106.0);
        assert_eq!(link.carry(Way::Read, 200.0, 10.0), 204.0);
        assert_eq!((link.read_seconds(20.0), link.write_seconds(20.0)), (5.0, 7.0));
    }
}
