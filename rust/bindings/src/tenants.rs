//! Tenants as tables, and what each of them has. An `impl` of `Manager`.

use kvframe_core::tenants::{Account, Amount, Tenant};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat};

use crate::errors::{raise, shown, unless_raised};
use crate::manager::Manager;

/// (name; empty for all that are not configured, then what `kvframe.tenants.TenantRow` lists)
type AccountTuple<'py> = (Bound<'py, PyBytes>, [u64; 4], [u64; 6], Option<u32>);

/// A list of tables: `name`, `floor`, `quota`.
///
/// # Errors
/// `ConfigError`: a value is neither a number of blocks nor a share.
pub fn read(value: &Bound<'_, PyAny>) -> PyResult<Vec<Tenant>> {
    let rows: Vec<Bound<'_, PyDict>> = value.extract()?;
    let tenant = |table: Bound<'_, PyDict>| {
        let name = table.get_item("name")?.map(|name| name.extract::<String>()).transpose()?;
        let name = name.unwrap_or_default().into_bytes();
        let amount = |key: &str| -> PyResult<Option<Amount>> {
            let value = table.get_item(key)?.filter(|value| !value.is_none());
            value.map(|value| amount(&name, key, &value)).transpose()
        };
        let (floor, quota) = (amount("floor")?, amount("quota")?);
        let floor = floor.unwrap_or(Amount::Blocks(0));
        let is_public = table.get_item("public")?.map_or(Ok(false), |value| value.extract())?;
        let quota = if is_public { Some(floor) } else { quota };
        Ok(Tenant { name, floor, quota, is_public })
    };
    rows.into_iter().map(tenant).collect()
}

/// How many a table of options names.
///
/// # Errors
/// They are no list.
pub fn count(options: Option<&Bound<'_, PyDict>>) -> PyResult<usize> {
    let named = options.map(|options| options.get_item("tenants")).transpose()?.flatten();
    named.map_or(Ok(0), |named| named.len())
}

fn amount(name: &[u8], key: &str, value: &Bound<'_, PyAny>) -> PyResult<Amount> {
    if value.is_instance_of::<PyFloat>() {
        return value.extract().map(Amount::Share);
    }
    let py = value.py();
    let wrong = || {
        let name = String::from_utf8_lossy(name);
        let limit = "must be a number of blocks, or a share from 0.0 to 1.0";
        let message = format!("tenants: {name}: {key} = {}: {limit}", shown(value));
        raise(py, "ConfigError", message)
    };
    value.extract().map(Amount::Blocks).map_err(|error| unless_raised(py, error, wrong))
}

fn row(account: &Account) -> ([u64; 4], [u64; 6], Option<u32>) {
    let Account { used, cached, floor, quota, counts, .. } = *account;
    let blocks = [used, cached, account.owned(), floor].map(u64::from);
    let counts = [
        counts.requests,
        counts.prompt_tokens,
        counts.hit_tokens,
        counts.refused,
        counts.evicted,
        counts.evicted_for_others,
    ];
    (blocks, counts, (quota < u32::MAX).then_some(quota))
}

#[pymethods]
impl Manager {
    /// Blocks that a tenant's sequences own, and these sequences.
    fn held_by_tenant(&self, py: Python<'_>, tenant: &[u8]) -> PyResult<(u32, Vec<u64>)> {
        self.locked(py, |core| core.held_by_tenant(tenant))
    }

    /// What each tenant has: all that are not configured first; nothing where none is.
    fn tenants<'py>(&self, py: Python<'py>) -> PyResult<Vec<AccountTuple<'py>>> {
        let (names, accounts) = self.locked(py, |core| {
            let names = core.options().tenants.iter().map(|tenant| tenant.name.clone());
            (names.collect::<Vec<_>>(), core.accounts().to_vec())
        })?;
        let names = std::iter::once(Vec::new()).chain(names);
        let rows = names.zip(&accounts).map(|(name, account)| {
            let (blocks, counts, quota) = row(account);
            (PyBytes::new(py, &name), blocks, counts, quota)
        });
        Ok(rows.collect())
    }
}
