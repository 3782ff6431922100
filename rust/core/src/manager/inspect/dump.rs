//! What is cached, as text for people to read.

use crate::error::{Error, Result};
use crate::manager::Manager;

/// How a dump is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpFormat {
    /// A line a node, indented.
    Text,
    /// A Graphviz graph.
    Dot,
}

impl Manager {
    /// The tree of the radix index.
    ///
    /// # Errors
    /// [`Error::Invalid`] under another index, which has no tree.
    pub fn dump(&self, format: DumpFormat) -> Result<String> {
        let Some(radix) = self.store.index().radix() else {
            return Err(Error::Invalid {
                what: "dump",
                value: self.options.index.name().into(),
                limit: "only the radix index has a tree to show: index = \"radix\"".into(),
            });
        };
        Ok(match format {
            DumpFormat::Text => radix.text(self.pool()),
            DumpFormat::Dot => radix.dot(self.pool()),
        })
    }
}
