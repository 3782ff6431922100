//! Checks a policy's table before it is loaded.

use crate::v1::{self, COLUMNS, FACT_NAMES, FACTS, Head, Table};

/// Why a table is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// Its version of the interface is not supported.
    Version {
        /// The version that the table states.
        found: String,
        /// The supported version.
        needed: String,
    },
    /// Its fields contradict each other or the interface.
    Contract(String),
}

/// The supported version, as text.
#[must_use]
pub fn needed() -> String {
    format!("ABI {}.{} ({} bytes)", v1::MAJOR, v1::MINOR, size_of::<Table>())
}

/// The table at `address`, copied, if its version is supported and its fields are consistent.
///
/// # Errors
/// [`LoadError`].
///
/// # Safety
/// `address` is null or points to a table of any version: to what [`Head`] says, and to as many
/// bytes as that says.
pub unsafe fn read(address: *const Table) -> Result<Table, LoadError> {
    if address.is_null() || !address.is_aligned() {
        return Err(LoadError::Contract(format!("a table cannot be at {address:p}")));
    }
    // SAFETY: aligned and not null; every version begins with a head.
    let head = unsafe { std::ptr::read(address.cast::<Head>()) };
    version(head)?;
    // SAFETY: it is of this version and as long as that is.
    let table = unsafe { std::ptr::read(address) };
    sense(&table)?;
    Ok(table)
}

/// Puts a function into its place of a table; false if none is called so.
///
/// # Safety
/// `address` is null or a function of the type that stands there.
pub unsafe fn put(table: &mut Table, name: &str, address: *const ()) -> bool {
    let place: *mut *const () = match name {
        "create" => (&raw mut table.create).cast(),
        "destroy" => (&raw mut table.destroy).cast(),
        "resize" => (&raw mut table.resize).cast(),
        "insert" => (&raw mut table.insert).cast(),
        "hit" => (&raw mut table.hit).cast(),
        "acquire" => (&raw mut table.acquire).cast(),
        "release" => (&raw mut table.release).cast(),
        "on_evictable" => (&raw mut table.on_evictable).cast(),
        "remove" => (&raw mut table.remove).cast(),
        "victim" => (&raw mut table.victim).cast(),
        "score" => (&raw mut table.score).cast(),
        _ => return false,
    };
    // SAFETY: the place holds an optional function, which is an address, null for none.
    unsafe { place.write(address) };
    true
}

fn version(head: Head) -> Result<(), LoadError> {
    let Head { magic, major, minor, size } = head;
    let refused = |found| Err(LoadError::Version { found, needed: needed() });
    if magic != v1::MAGIC {
        return refused(format!("no table: magic {magic:#010x}, not {:#010x}", v1::MAGIC));
    }
    // There is one minor version: any other has fields that are not known here.
    if (major, minor) != (v1::MAJOR, v1::MINOR) || size as usize != size_of::<Table>() {
        return refused(format!("ABI {major}.{minor} ({size} bytes)"));
    }
    Ok(())
}

/// Whether the fields go together.
///
/// # Errors
/// [`LoadError::Contract`].
pub fn sense(table: &Table) -> Result<(), LoadError> {
    let wrong = |what: &str| Err(LoadError::Contract(what.into()));
    let columns = (1 << COLUMNS.len()) - 1;
    let facts = ((1 << FACT_NAMES.len()) - 1) << FACTS;
    let unknown = table.wants & !(columns | facts);
    if unknown != 0 || table.reserved != 0 {
        return Err(LoadError::Contract(format!(
            "wants = {:#x}, reserved = {}: bits {unknown:#x} mean nothing",
            table.wants, table.reserved
        )));
    }
    match (table.victim, table.score) {
        (Some(_), Some(_)) => return wrong("it has both victim and score: one of them decides"),
        (None, None) => return wrong("it has neither victim nor score"),
        (Some(_), None) if table.wants & columns != 0 => {
            return wrong("it wants columns, which only score gets");
        }
        (None, Some(_)) if table.on_evictable.is_some() => {
            return wrong("it has score and on_evictable: what is offered may be evicted");
        }
        (Some(_), None) if table.window != 0 => {
            return wrong("it asks for a window, which only score has");
        }
        _ => {}
    }
    if table.wants & facts != 0 && table.insert.is_none() {
        return wrong("it wants facts of blocks that become findable, and has no insert");
    }
    if table.state_bytes > 0 && table.create.is_some() {
        return wrong("it has create and state_bytes: the state comes from one of them");
    }
    if table.state_bytes == 0 && !table.initial.is_null() {
        return wrong("it has an initial state of 0 bytes");
    }
    if table.create.is_none() && table.destroy.is_some() {
        return wrong("it has destroy without create");
    }
    Ok(())
}
