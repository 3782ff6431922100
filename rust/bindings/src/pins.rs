//! Prefixes that are held, and the tree for people to read. An `impl` of `Manager`.

use kvframe_core::locks::Receipt;
use kvframe_core::manager::{DumpFormat, PinRequest};
use pyo3::prelude::*;

use crate::args::{BlockNumber, Lease, ReceiptNumber};
use crate::buffers::tokens;
use crate::errors::{shown, usage};
use crate::fields::{ItemTuple, items_of};
use crate::lookup::space_of;
use crate::manager::Manager;

#[pymethods]
impl Manager {
    /// Holds what is cached of a prompt, as far as pins may: (receipt, its block, tokens, tokens that
    /// were found), or None.
    #[pyo3(signature = (prompt, *, tenant=None, salt=None, adapter=None, encoder=None, extras=vec![], public=0, owner="", lease=None))]
    fn pin(
        &self,
        py: Python<'_>,
        prompt: &Bound<'_, PyAny>,
        tenant: Option<&[u8]>,
        salt: Option<&[u8]>,
        adapter: Option<&[u8]>,
        encoder: Option<&[u8]>,
        extras: Vec<ItemTuple>,
        public: u32,
        owner: &str,
        lease: Option<Lease>,
    ) -> PyResult<Option<(u64, u32, u32, u32)>> {
        let ids = tokens(prompt, "prompt")?;
        let (space, extras) = (space_of(tenant, salt, adapter, encoder, public), items_of(extras));
        let pinner = PinRequest { owner, lease: lease.map(|l| l.0), session: 0 };
        let locked = self.with(py, |core| core.lock(&ids, space, &extras, pinner))?;
        Ok(locked.map(|l| (l.receipt.id, l.receipt.block, l.tokens, l.found)))
    }

    /// Ends such a hold.
    fn unpin(&self, py: Python<'_>, receipt: ReceiptNumber, block: BlockNumber) -> PyResult<()> {
        self.with(py, |core| core.unlock(Receipt { id: receipt.0, block: block.0 }))
    }

    /// The tree of the radix index as "text" or "dot".
    fn dump(&self, py: Python<'_>, form: &Bound<'_, PyAny>) -> PyResult<String> {
        let format = match form.extract::<String>().as_deref() {
            Ok("text") => DumpFormat::Text,
            Ok("dot") => DumpFormat::Dot,
            _ => {
                let message = format!("form = {}: must be \"text\" or \"dot\"", shown(form));
                return Err(usage(py, message));
            }
        };
        self.with(py, |core| core.dump(format))
    }
}
