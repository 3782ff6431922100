//! Interning of prefix nodes: a node is a raw id under a parent. 8 bytes a node, 12 where ids need 64 bits.

use hashbrown::HashMap;

use crate::forest::ROOT;

/// One id in `SAMPLE` is checked for whether it occurs under several parents, and at most `SAMPLES` ids are.
const SAMPLE: u64 = 16;
const SAMPLES: usize = 1 << 18;

/// Finds the node of an id under a parent, or makes it.
pub(crate) struct Interner {
    /// Raw id of each node.
    raw: RawIds,
    /// The first child of each node, `ROOT` for none: most nodes never get a second, so most look-ups end here.
    first_child: Vec<u32>,
    first_root: u32,
    /// Every child that is not its parent's first, by (parent, raw id).
    branches: HashMap<(u32, u64), u32>,
    /// The first parent of each sampled id.
    sampled: HashMap<u64, u32>,
    repeats: bool,
    nodes: u32,
    pub max_nodes: u32,
}

/// Numbers of 64 bits, in 32 as long as these suffice: traces that number their blocks from 0 never need more.
enum RawIds {
    Short(Vec<u32>),
    Long(Vec<u64>),
}

impl RawIds {
    fn is(&self, at: u32, id: u64) -> bool {
        match self {
            Self::Short(ids) => u64::from(ids[at as usize]) == id,
            Self::Long(ids) => ids[at as usize] == id,
        }
    }

    fn push(&mut self, id: u64) {
        if let Self::Short(ids) = self {
            match u32::try_from(id) {
                Ok(id) => return ids.push(id),
                Err(_) => *self = Self::Long(ids.iter().map(|&id| id.into()).collect()),
            }
        }
        if let Self::Long(ids) = self {
            ids.push(id);
        }
    }
}

impl Default for Interner {
    fn default() -> Self {
        Self {
            raw: RawIds::Short(Vec::new()),
            first_child: Vec::new(),
            first_root: ROOT,
            branches: HashMap::new(),
            sampled: HashMap::new(),
            repeats: false,
            nodes: 0,
            max_nodes: ROOT,
        }
    }
}

impl Interner {
    /// The node of `id` under `parent`, and whether it is new.
    pub fn intern(&mut self, parent: u32, id: u64) -> Result<(u32, bool), String> {
        let first =
            if parent == ROOT { self.first_root } else { self.first_child[parent as usize] };
        if first != ROOT {
            if self.raw.is(first, id) {
                return Ok((first, false));
            }
            if let Some(&node) = self.branches.get(&(parent, id)) {
                return Ok((node, false));
            }
        }
        let node = self.add()?;
        self.raw.push(id);
        self.first_child.push(ROOT);
        if first != ROOT {
            self.branches.insert((parent, id), node);
        } else if parent == ROOT {
            self.first_root = node;
        } else {
            self.first_child[parent as usize] = node;
        }
        if !self.repeats && id.is_multiple_of(SAMPLE) {
            let known = self.sampled.get(&id).copied();
            self.repeats = known.is_some_and(|known| known != parent);
            if known.is_none() && self.sampled.len() < SAMPLES {
                self.sampled.insert(id, parent);
            }
        }
        Ok((node, true))
    }

    /// A new node, of no raw id.
    pub fn add(&mut self) -> Result<u32, String> {
        let node = self.nodes;
        if node >= self.max_nodes {
            return Err(format!("more than {} distinct blocks in one trace", self.max_nodes));
        }
        self.nodes += 1;
        Ok(node)
    }

    /// Whether an id was seen under two parents: ids then stand for single blocks, not for prefixes.
    pub fn repeats(&self) -> bool {
        self.repeats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_64_bits_may_come_late() {
        let mut interner = Interner::default();
        let ids = [3, 7, u64::from(u32::MAX), 1 << 40, u64::MAX, 3];
        let mut parent = ROOT;
        for (node, id) in ids.into_iter().enumerate() {
            assert_eq!(interner.intern(parent, id), Ok((node as u32, true)));
            parent = node as u32;
        }
        parent = ROOT;
        for (node, id) in ids.into_iter().enumerate() {
            assert_eq!(interner.intern(parent, id), Ok((node as u32, false)));
            parent = node as u32;
        }
        assert_eq!(interner.intern(2, 7 + (1 << 32)), Ok((6, true)));
        assert_eq!(interner.intern(2, 7), Ok((7, true)));
    }

    #[test]
    fn an_id_behind_two_others_repeats() {
        let mut interner = Interner::default();
        for (parent, id, repeats) in
            [(ROOT, 1, false), (0, 16, false), (ROOT, 2, false), (2, 16, true)]
        {
            interner.intern(parent, id).unwrap();
            assert_eq!(interner.repeats(), repeats);
        }
    }
}
