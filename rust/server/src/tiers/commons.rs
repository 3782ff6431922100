//! Tiers that several servers have together: their pages and links are one, and who needs them borrows them.
//!
//! Servers take turns on one clock. In its turn a server has the shared tiers below its own; what leaves them
//! meanwhile, and that something has changed, the others hear when their turn comes.

use kvframe_core::{Error, Key};

use super::Tiers;
use super::level::Level;
use super::link::Link;

/// What a server has not heard of.
#[derive(Debug, Default)]
struct News {
    /// Pages that left the first of the shared tiers.
    gone: Vec<Key>,
    has_changed: bool,
}

/// The shared tiers while no server has its turn.
pub(crate) struct Commons {
    from: usize,
    levels: Vec<Level>,
    links: Vec<(usize, Link)>,
    news: Vec<News>,
    /// What had changed when the turn began.
    changes: u64,
}

/// Where a server's tiers are shared.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    /// From this one down; none are at `usize::MAX`.
    pub from: usize,
    /// The number of the server.
    pub server: u32,
}

impl Commons {
    /// The tiers of the first server from `from` down become those of all. All have the same tiers.
    ///
    /// # Errors
    /// [`Error::Invalid`]: a link is both of a shared tier and of one that is not.
    pub fn new(from: usize, servers: Vec<&mut Tiers>) -> Result<Option<Self>, Error> {
        let count = servers.len();
        let mut made: Option<Self> = None;
        for (server, tiers) in servers.into_iter().enumerate() {
            if from >= tiers.levels.len() {
                return Ok(None);
            }
            let link = |level: &Level| level.options.link;
            let own: Vec<usize> = tiers.levels[..from].iter().map(link).collect();
            let mut links: Vec<usize> = tiers.levels[from..].iter().map(link).collect();
            links.sort_unstable();
            links.dedup();
            if let Some(link) = links.iter().find(|link| own.contains(link)) {
                let limit =
                    "is of tiers that are shared and of others: give these their own".into();
                return Err(Error::Invalid { what: "link", value: link.to_string(), limit });
            }
            tiers.shared = Place { from, server: server as u32 };
            let levels = tiers.levels.split_off(from);
            let links = links.into_iter().map(|at| (at, tiers.links[at].like()));
            let news = (0..count).map(|_| News::default()).collect();
            made.get_or_insert(Self { from, levels, links: links.collect(), news, changes: 0 });
        }
        Ok(made)
    }

    /// Whether something has changed that server `at` has not heard of.
    pub fn has_news(&self, at: usize) -> bool {
        self.news[at].has_changed
    }

    /// It is the turn of server `at`.
    pub fn lend(&mut self, at: usize, tiers: &mut Tiers) {
        let News { gone, has_changed } = std::mem::take(&mut self.news[at]);
        if has_changed {
            tiers.version += 1;
        }
        if let Some(above) = self.from.checked_sub(1).filter(|_| !gone.is_empty()) {
            tiers.forgotten_below(above, &gone);
        }
        tiers.levels.append(&mut self.levels);
        self.swap_links(tiers);
        self.changes = tiers.shared_changes;
    }

    /// The turn of server `at` is over.
    pub fn take_back(&mut self, at: usize, tiers: &mut Tiers) {
        self.levels = tiers.levels.split_off(self.from);
        self.swap_links(tiers);
        let gone = std::mem::take(&mut tiers.gone);
        if tiers.shared_changes == self.changes {
            return;
        }
        for (_, news) in self.news.iter_mut().enumerate().filter(|&(other, _)| other != at) {
            news.has_changed = true;
            news.gone.extend(&gone);
        }
    }

    fn swap_links(&mut self, tiers: &mut Tiers) {
        for (at, link) in &mut self.links {
            std::mem::swap(link, &mut tiers.links[*at]);
        }
    }
}

impl Tiers {
    /// Something of a tier has changed that another server may wait for.
    pub(super) fn touch(&mut self, place: usize) {
        if place >= self.shared.from {
            self.shared_changes += 1;
        }
    }

    /// Pages have left a tier. Where it is the first that is shared, the others hear of it.
    pub(super) fn note_gone(&mut self, place: usize, keys: &[Key]) {
        if place >= self.shared.from {
            self.touch(place);
            let owners = &mut self.levels[place].owners;
            for key in keys {
                owners.remove(key);
            }
        }
        if place == self.shared.from && place > 0 {
            self.gone.extend(keys);
        }
    }

    /// This server has put pages into a tier.
    pub(super) fn note_owned(&mut self, place: usize, keys: &[Key]) {
        if place >= self.shared.from {
            let server = self.shared.server;
            self.levels[place].owners.extend(keys.iter().map(|&key| (key, server)));
        }
    }

    /// Pages are read from a tier.
    pub(super) fn note_source(&mut self, place: usize, keys: &[Key]) {
        if place >= self.shared.from {
            let (owners, me) = (&self.levels[place].owners, self.shared.server);
            let others = |key: &&Key| owners.get(key).is_some_and(|&owner| owner != me);
            self.report.tiers[place].others_pages += keys.iter().filter(others).count() as u64;
        }
    }

    /// Pages of the tier below the one at `place` have made room for others of another server.
    fn forgotten_below(&mut self, place: usize, gone: &[Key]) {
        let level = &mut self.levels[place];
        level.pages.set_backed(gone, false);
        for key in gone {
            if level.cleaned.get(key).is_some() {
                level.cleaned.set(*key, true);
            }
        }
    }
}
