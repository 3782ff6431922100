//! What is known of requests that are here: many more have gone, or have yet to come.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};

/// Something for each request that is here, by its place in the trace.
#[derive(Debug)]
pub(crate) struct ByRequest<T>(HashMap<usize, T>);

impl<T> Default for ByRequest<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> ByRequest<T> {
    pub fn insert(&mut self, request: usize, of: T) {
        self.0.insert(request, of);
    }

    /// What was known of a request that leaves.
    pub fn take(&mut self, request: usize) -> Option<T> {
        self.0.remove(&request)
    }

    /// All that is left, in no order.
    pub fn drain(&mut self) -> impl Iterator<Item = (usize, T)> + '_ {
        self.0.drain()
    }
}

impl<T> Index<usize> for ByRequest<T> {
    type Output = T;

    fn index(&self, request: usize) -> &T {
        &self.0[&request]
    }
}

impl<T> IndexMut<usize> for ByRequest<T> {
    fn index_mut(&mut self, request: usize) -> &mut T {
        self.0.get_mut(&request).expect("the request is here")
    }
}
