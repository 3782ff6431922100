//! Tiers that several servers have together: their pages and links are one, and who needs them borrows them.
//!
//! Servers take turns on one clock. In its turn a server has the shared tiers below its own; what leaves them
//! meanwhile, and that something has changed, the others hear when their turn comes. Tiers of the servers of a node lie
//! above those of all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use kvframe_core::{Error, Key};

use super::Tiers;
use super::level::Level;
use super::link::{Links, Net};

/// Which tiers servers have together, with the capacity and the links of one; all have the same tiers, and policies of
/// the core in these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SharedTiers {
    /// From this place down, so many servers that follow one another have them together.
    pub by_node: Option<(usize, usize)>,
    /// From this place down, all have.
    pub by_all: Option<usize>,
}

impl SharedTiers {
    /// Whether any are.
    pub fn is_any(&self) -> bool {
        self.by_node.is_some() || self.by_all.is_some()
    }

    /// From which place on how many servers have tiers together, down to which, of so many tiers.
    fn strata(&self, (tiers, servers): (usize, usize)) -> Vec<(usize, usize, usize)> {
        let all = self.by_all.unwrap_or(tiers).min(tiers);
        let node = self.by_node.map(|(from, count)| (from, count.clamp(1, servers.max(1)), all));
        let strata = node.into_iter().chain([(all, servers, tiers)]);
        strata.filter(|&(from, _, to)| from < to).collect()
    }
}

/// What servers that share tiers have together, while none of them has its turn.
struct Group {
    levels: Vec<Level>,
    /// By server: something has changed of which it has not heard.
    has_changed: Vec<bool>,
    /// Pages that left the first of the tiers, by who has one above it and has not heard.
    gone: Vec<Vec<Key>>,
    /// What had changed when the turn began.
    changes: u64,
}

/// Tiers of the same place, of all groups of servers.
struct Stratum {
    from: usize,
    /// So many servers share them.
    servers: usize,
    /// So many share the tier above.
    above: usize,
    groups: Vec<Group>,
}

/// The shared tiers.
pub(crate) struct Commons {
    /// The nearest first.
    strata: Vec<Stratum>,
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
    /// The tiers of the first server of each group become those of the group.
    ///
    /// # Errors
    /// [`Error::Invalid`]: a link is of tiers that not the same servers share.
    pub fn new(shared: SharedTiers, mut servers: Vec<&mut Tiers>) -> Result<Option<Self>, Error> {
        let count = servers.len();
        let tiers = servers.first().map_or(0, |tiers| tiers.levels.len());
        let strata = shared.strata((tiers, count));
        let Some(&(first, ..)) = strata.first() else { return Ok(None) };
        link_up(&strata, &mut servers)?;
        let mut made = Vec::new();
        let mut above = 1;
        for &(from, together, _) in &strata {
            let group = || Group {
                levels: Vec::new(),
                has_changed: vec![false; count],
                gone: vec![Vec::new(); count.div_ceil(above)],
                changes: 0,
            };
            let groups = (0..count.div_ceil(together)).map(|_| group()).collect();
            made.push(Stratum { from, servers: together, above, groups });
            above = together;
        }
        for (server, tiers) in servers.into_iter().enumerate() {
            tiers.shared = Place { from: first, server: server as u32 };
            for stratum in made.iter_mut().rev() {
                let mut levels = tiers.levels.split_off(stratum.from);
                levels[0].tells_gone = stratum.from > 0;
                let group = &mut stratum.groups[server / stratum.servers];
                if group.levels.is_empty() {
                    group.levels = levels;
                }
            }
        }
        Ok(Some(Self { strata: made }))
    }

    /// Whether something has changed that server `at` has not heard of.
    pub fn has_news(&self, at: usize) -> bool {
        self.strata.iter().any(|stratum| stratum.groups[at / stratum.servers].has_changed[at])
    }

    /// It is the turn of server `at`.
    pub fn lend(&mut self, at: usize, tiers: &mut Tiers) {
        for Stratum { from, servers, above, groups } in &mut self.strata {
            let group = &mut groups[at / *servers];
            if std::mem::take(&mut group.has_changed[at]) {
                tiers.version += 1;
            }
            let gone = std::mem::take(&mut group.gone[at / *above]);
            if !gone.is_empty() {
                tiers.forgotten_below(*from - 1, &gone);
            }
            group.changes = changes(&group.levels);
            tiers.levels.append(&mut group.levels);
        }
    }

    /// The turn of server `at` is over.
    pub fn take_back(&mut self, at: usize, tiers: &mut Tiers) {
        for Stratum { from, servers, above, groups } in self.strata.iter_mut().rev() {
            let group = &mut groups[at / *servers];
            group.levels = tiers.levels.split_off(*from);
            let gone = std::mem::take(&mut group.levels[0].gone);
            if changes(&group.levels) == group.changes {
                continue;
            }
            let first = at / *servers * *servers;
            let last = (first + *servers).min(group.has_changed.len());
            (first..last)
                .filter(|&other| other != at)
                .for_each(|other| group.has_changed[other] = true);
            let holders = first / *above..last.div_ceil(*above);
            for holder in holders.filter(|&holder| holder != at / *above) {
                group.gone[holder].extend(&gone);
            }
        }
    }
}

/// Servers get the links of tiers that they share together, and each its others.
fn link_up(strata: &[(usize, usize, usize)], servers: &mut [&mut Tiers]) -> Result<(), Error> {
    let Some(first) = servers.first() else { return Ok(()) };
    let together = |place: usize| {
        let of = strata.iter().find(|&&(from, _, to)| (from..to).contains(&place));
        of.map_or(1, |&(_, together, _)| together)
    };
    let mut shared_by: HashMap<usize, usize> = HashMap::new();
    let mut paths = Vec::new();
    for level in &first.levels {
        let path = level.path(true);
        let own = (path[0], together(level.place));
        for (link, count) in std::iter::once(own).chain(path[1..].iter().map(|&link| (link, 1))) {
            if *shared_by.entry(link).or_insert(count) != count {
                let limit =
                    "is of tiers that are shared and of others: give these their own".into();
                return Err(Error::Invalid { what: "link", value: link.to_string(), limit });
            }
        }
        paths.push(path);
    }
    let (mut options, mut joined) = (Vec::new(), Vec::new());
    let mut known: HashMap<(usize, usize), usize> = HashMap::new();
    let mut places: Vec<Vec<usize>> = Vec::new();
    for (server, tiers) in servers.iter().enumerate() {
        let mut mine = Vec::new();
        for link in 0..first.links.len() {
            let group = server / shared_by.get(&link).copied().unwrap_or(1);
            mine.push(*known.entry((link, group)).or_insert_with(|| {
                options.push(tiers.links.options(link));
                options.len() - 1
            }));
        }
        joined.extend(paths.iter().map(|path| path.iter().map(|&at| mine[at]).collect()));
        places.push(mine);
    }
    let net = Arc::new(Mutex::new(Net::new(options, &joined)));
    for (tiers, places) in servers.iter_mut().zip(places) {
        tiers.links = Links::new(Arc::clone(&net), places);
    }
    Ok(())
}

fn changes(levels: &[Level]) -> u64 {
    levels.iter().map(|level| level.changes).sum()
}

impl Tiers {
    /// Something of a tier has changed that another server may wait for.
    pub(super) fn touch(&mut self, place: usize) {
        self.levels[place].changes += 1;
    }

    /// Pages have left a tier. Where others share it, they hear of it.
    pub(super) fn note_gone(&mut self, place: usize, keys: &[Key]) {
        self.touch(place);
        let level = &mut self.levels[place];
        if place >= self.shared.from {
            for key in keys {
                level.owners.remove(key);
            }
        }
        if level.tells_gone {
            level.gone.extend(keys);
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
