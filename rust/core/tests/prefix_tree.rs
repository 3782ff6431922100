//! The engine's radix tree against a model that keeps prefixes in a list: what is found, what is evicted
//! under lru, and what locks hold back, page by page.

use std::collections::HashMap;

use kvframe_core::Key;
use kvframe_core::policy::{NAMES, PolicyOptions, by_name};
use kvframe_core::tier::{NodeId, PrefixTree, RequestInfo};
use proptest::prelude::*;

/// A node of the model: a part of a prompt, and when it was touched last.
#[derive(Debug, Clone)]
struct Part {
    path: Vec<i64>,
    start: usize,
    touched: u64,
    locks: u32,
}

/// Nodes by nothing but their whole path: slow, and nothing to get wrong.
#[derive(Debug, Default)]
struct Model {
    parts: Vec<Part>,
    now: u64,
    page: usize,
}

fn same(a: &[i64], b: &[i64], page: usize) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count() / page * page
}

impl Model {
    fn find(&mut self, tokens: &[i64]) -> usize {
        let tokens = &tokens[..tokens.len() / self.page * self.page];
        let found =
            self.parts.iter().map(|part| same(&part.path, tokens, self.page)).max().unwrap_or(0);
        let cut = self.parts.iter().position(|part| {
            let end = same(&part.path, tokens, self.page);
            end == found && part.start < end && end < part.path.len()
        });
        if let Some(at) = cut {
            let part = self.parts[at].clone();
            let head = Part { path: part.path[..found].to_vec(), ..part };
            self.now += 1;
            self.parts[at].start = found;
            self.parts[at].touched = self.now;
            self.parts.push(head);
        }
        self.now += 1;
        for part in &mut self.parts {
            if tokens[..found].starts_with(&part.path) {
                part.touched = self.now;
            }
        }
        found
    }

    fn store(&mut self, tokens: &[i64]) -> usize {
        let tokens = &tokens[..tokens.len() / self.page * self.page];
        let found = self.find(tokens);
        if found < tokens.len() {
            let part = Part { path: tokens.to_vec(), start: found, touched: self.now, locks: 0 };
            self.parts.push(part);
        }
        found
    }

    fn lock(&mut self, path: &[i64], more: bool) {
        for part in self.parts.iter_mut().filter(|part| path.starts_with(&part.path)) {
            part.locks = if more { part.locks + 1 } else { part.locks - 1 };
        }
    }

    /// The paths that go, in order.
    fn evict(&mut self, tokens: usize) -> Vec<Vec<i64>> {
        let (mut gone, mut freed) = (Vec::new(), 0);
        while freed < tokens {
            let leaf = |part: &&Part| {
                let below = self.parts.iter().filter(|other| other.path.starts_with(&part.path));
                part.locks == 0 && below.count() == 1
            };
            let Some(part) = self.parts.iter().filter(leaf).min_by_key(|p| p.touched).cloned()
            else {
                break;
            };
            freed += part.path.len() - part.start;
            self.parts.retain(|other| other.path != part.path);
            gone.push(part.path);
        }
        gone
    }

    fn sizes(&self) -> (u64, u64) {
        let sum = |locked: bool| {
            let of = self.parts.iter().filter(|part| (part.locks > 0) == locked);
            of.map(|part| (part.path.len() - part.start) as u64).sum()
        };
        (sum(false), sum(true))
    }
}

#[derive(Debug, Clone)]
enum Call {
    Find(Vec<i64>),
    Store(Vec<i64>),
    Lock(Vec<i64>),
    Unlock(usize),
    Evict(u64),
}

/// Few tokens, so that prompts part at every place.
fn prompt() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(0..3i64, 0..40)
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        3 => prompt().prop_map(Call::Find),
        4 => prompt().prop_map(Call::Store),
        2 => prompt().prop_map(Call::Lock),
        2 => any::<usize>().prop_map(Call::Unlock),
        3 => (1..60u64).prop_map(Call::Evict),
    ]
}

fn tree(policy: &str, page: u32) -> PrefixTree {
    PrefixTree::new(page, 0, by_name(policy, PolicyOptions::default()).unwrap()).unwrap()
}

const SPACE: Key = Key(0);

proptest! {
    #[test]
    fn lru_finds_and_evicts_as_the_model(page in 1..5u32, calls in prop::collection::vec(call(), 1..80)) {
        let mut tree = tree("lru", page);
        let mut model = Model { page: page as usize, ..Model::default() };
        let mut locks: Vec<(NodeId, Vec<i64>)> = Vec::new();
        let mut paths: HashMap<u32, Vec<i64>> = HashMap::new();
        for call in calls {
            match call {
                Call::Find(tokens) => {
                    let found = tree.find(SPACE, &tokens).unwrap();
                    prop_assert_eq!(found.tokens, model.find(&tokens));
                    if let Some(split) = found.split {
                        paths.insert(split.head, tokens[..found.tokens].to_vec());
                    }
                }
                Call::Store(tokens) => {
                    let stored = tree.store(SPACE, &tokens, 0, RequestInfo::default()).unwrap();
                    prop_assert_eq!(stored.found, model.store(&tokens));
                    if let Some(split) = stored.split {
                        paths.insert(split.head, tokens[..stored.found].to_vec());
                    }
                    if let Some(new) = stored.new {
                        paths.insert(new, tokens[..stored.tokens].to_vec());
                    }
                }
                Call::Lock(tokens) => {
                    let found = tree.find(SPACE, &tokens).unwrap();
                    model.find(&tokens);
                    if let Some(split) = found.split {
                        paths.insert(split.head, tokens[..found.tokens].to_vec());
                    }
                    tree.lock(found.node).unwrap();
                    model.lock(&tokens[..found.tokens], true);
                    locks.push((found.node, tokens[..found.tokens].to_vec()));
                }
                Call::Unlock(which) if !locks.is_empty() => {
                    let (node, path) = locks.swap_remove(which % locks.len());
                    tree.unlock(node).unwrap();
                    model.lock(&path, false);
                }
                Call::Unlock(_) => {}
                Call::Evict(tokens) => {
                    let gone = tree.evict(tokens).unwrap();
                    let gone: Vec<Vec<i64>> = gone.nodes.iter().map(|n| paths[n].clone()).collect();
                    prop_assert_eq!(gone, model.evict(tokens as usize));
                }
            }
            prop_assert_eq!(tree.sizes(), model.sizes());
            tree.check_integrity().unwrap();
        }
    }

    #[test]
    fn every_policy_keeps_its_order(page in 1..3u32, calls in prop::collection::vec(call(), 1..60)) {
        for &policy in NAMES {
            let mut tree = tree(policy, page);
            let mut locks = Vec::new();
            for call in &calls {
                match call {
                    Call::Find(tokens) => {
                        let _ = tree.find(SPACE, tokens).unwrap();
                    },
                    Call::Store(tokens) => {
                        let _ = tree.store(SPACE, tokens, 0, RequestInfo::default()).unwrap();
                    }
                    Call::Lock(tokens) => {
                        let node = tree.find(SPACE, tokens).unwrap().node;
                        tree.lock(node).unwrap();
                        locks.push(node);
                    }
                    Call::Unlock(_) => locks.pop().into_iter().for_each(|node| {
                        tree.unlock(node).unwrap();
                    }),
                    Call::Evict(tokens) => {
                        let (before, _) = tree.sizes();
                        let gone = tree.evict(*tokens).unwrap();
                        prop_assert!(gone.tokens >= before.min(*tokens), "{policy}");
                        prop_assert_eq!(tree.sizes().0, before - gone.tokens);
                    }
                }
                tree.check_integrity().unwrap();
            }
        }
    }
}

#[test]
fn a_node_that_is_gone_is_refused_by_its_old_name() {
    let mut tree = tree("lru", 1);
    let node = tree.store(SPACE, &[1, 2], 0, RequestInfo::default()).unwrap().node;
    tree.evict(2).unwrap();
    let again = tree.store(SPACE, &[3, 4], 0, RequestInfo::default()).unwrap().node;
    assert_ne!(node, again, "the same number, another name");
    assert!(tree.lock(node).unwrap_err().to_string().contains("not a node of this tree"));
    assert!(tree.unlock(again).unwrap_err().to_string().contains("has no lock left"));
}

#[test]
fn what_the_same_request_stored_before_counts_once() {
    let mut tree = tree("lfu", 1);
    let known = RequestInfo::default;
    tree.store(SPACE, &[1, 1], 100, known()).unwrap();
    tree.store(SPACE, &[1, 1], 100, known()).unwrap();
    tree.store(SPACE, &[2, 2], 0, known()).unwrap();
    tree.store(SPACE, &[2, 2], 0, known()).unwrap();
    tree.check_integrity().unwrap();
    tree.evict(2).unwrap();
    assert_eq!(tree.find(SPACE, &[2, 2]).unwrap().tokens, 2, "used twice, the other once");
}

#[test]
fn namespaces_share_nothing() {
    let mut tree = tree("lru", 1);
    tree.store(Key(1), &[1, 2], 0, RequestInfo::default()).unwrap();
    assert_eq!(tree.find(Key(2), &[1, 2]).unwrap().tokens, 0);
    assert_eq!(tree.find(Key(1), &[1, 2]).unwrap().tokens, 2);
}

#[test]
fn a_prompt_that_was_evicted_is_recognised_though_it_is_cut_otherwise() {
    // ARC moves what comes back from its ghosts to the blocks that were used often.
    let mut tree = tree("arc", 1);
    let known = RequestInfo::default;
    tree.store(SPACE, &[1, 2, 3], 0, known()).unwrap();
    tree.evict(3).unwrap();
    tree.store(SPACE, &[7, 7, 7], 0, known()).unwrap();
    tree.store(SPACE, &[1, 2, 3, 4, 5], 0, known()).unwrap();
    tree.store(SPACE, &[8, 8, 8], 0, known()).unwrap();
    let first = tree.evict(3).unwrap();
    assert_eq!(first.tokens, 3, "one seen once goes first");
    assert_eq!(tree.find(SPACE, &[1, 2, 3, 4, 5]).unwrap().tokens, 5);
}

#[test]
fn those_for_whom_most_wait_come_first() {
    let mut tree = tree("lru", 1);
    let mut node =
        |tokens: &[i64]| tree.store(SPACE, tokens, 0, RequestInfo::default()).unwrap().node;
    let (a, b) = (node(&[1, 1]), node(&[2, 2]));
    let (c, root) = (node(&[2, 2, 3]), tree.root());
    assert_eq!(tree.by_weight(&[a, b, root, c]).unwrap(), [3, 1, 0, 2]);
}
