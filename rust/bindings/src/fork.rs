//! A forked child shares no locks and no state with its parent: its managers refuse to work.

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;

static FORKS: AtomicU32 = AtomicU32::new(0);

/// How many forks lie between the first process and this one.
pub fn generation() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Called by Python in the child of a fork; managers made before it refuse to work.
#[pyfunction]
pub fn after_fork_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Has Python call [`after_fork_in_child`].
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let os = module.py().import("os")?;
    if os.hasattr("register_at_fork")? {
        let kwargs = pyo3::types::PyDict::new(module.py());
        kwargs.set_item("after_in_child", module.getattr("after_fork_in_child")?)?;
        os.call_method("register_at_fork", (), Some(&kwargs))?;
    }
    Ok(())
}
