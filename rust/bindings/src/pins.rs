//! Prefixes that are held, and the tree for people to read. An `impl` of `Manager`.

use kvframe_core::locks::Receipt;
use kvframe_core::manager::DumpFormat;
use pyo3::prelude::*;

use crate::buffers::tokens;
use crate::errors::usage;
use crate::ints::{BlockNumber, ReceiptNumber};
use crate::manager::{Manager, space_of};
use crate::request::{ExtraTuple, extras_of};

#[pymethods]
impl Manager {
    /// Holds what is cached of a prompt: (receipt, its block, tokens), or None.
    #[pyo3(signature = (prompt, *, salt=None, adapter=None, encoder=None, extras=vec![]))]
    fn pin(
        &self,
        py: Python<'_>,
        prompt: &Bound<'_, PyAny>,
        salt: Option<&[u8]>,
        adapter: Option<&[u8]>,
        encoder: Option<&[u8]>,
        extras: Vec<ExtraTuple>,
    ) -> PyResult<Option<(u64, u32, u32)>> {
        let ids = tokens(prompt, "prompt")?;
        let (space, extras) = (space_of(salt, adapter, encoder), extras_of(extras));
        let locked = self.with(py, |core| core.lock(ids.as_slice(), space, &extras))?;
        Ok(locked.map(|l| (l.receipt.id, l.receipt.block, l.tokens)))
    }

    /// Ends such a hold.
    fn unpin(&self, py: Python<'_>, receipt: ReceiptNumber, block: BlockNumber) -> PyResult<()> {
        self.with(py, |core| core.unlock(Receipt { id: receipt.0, block: block.0 }))
    }

    /// The tree of the radix index as "text" or "dot".
    fn dump(&self, py: Python<'_>, format: &str) -> PyResult<String> {
        let format = match format {
            "text" => DumpFormat::Text,
            "dot" => DumpFormat::Dot,
            other => {
                let message = format!("format = {other:?}: must be \"text\" or \"dot\"");
                return Err(usage(py, message));
            }
        };
        self.with(py, |core| core.dump(format))
    }
}
