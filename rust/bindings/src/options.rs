//! Options by name, at the core's own door: what a built-in policy or a group has no use for is refused.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::calls::{call_method, import};
use crate::errors::{raise, shown};

/// Gives each option to `set` as a number; their names.
///
/// # Errors
/// `ConfigError`: one is no number that can be.
pub fn numbers(
    path: &str,
    options: Option<&Bound<'_, PyDict>>,
    mut set: impl FnMut(&str, u32),
) -> PyResult<Vec<String>> {
    let mut names = Vec::new();
    for (name, value) in options.into_iter().flatten() {
        let Ok(name) = name.extract::<String>() else {
            let message = format!("{path}: {}: an option is named by a string", shown(&name));
            return Err(raise(value.py(), "ConfigError", message));
        };
        set(&name, number(&format!("{path}.{name}"), &value)?);
        names.push(name);
    }
    Ok(names)
}

/// A number of the core's.
pub fn number(path: &str, value: &Bound<'_, PyAny>) -> PyResult<u32> {
    value.extract().map_err(|_| {
        let limit = format!("must be a whole number between 0 and {}", u32::MAX);
        raise(value.py(), "ConfigError", format!("{path} = {}: {limit}", shown(value)))
    })
}

/// Refuses the first of `names` that is not one of `known`.
pub fn check(
    py: Python<'_>,
    path: &str,
    owner: &str,
    names: &[String],
    known: &[&str],
) -> PyResult<()> {
    let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) else {
        return Ok(());
    };
    let near = did_you_mean(py, name, known)?;
    let has = match known {
        [] => format!("; {owner} takes no options"),
        _ if near.is_empty() => format!("; {owner} has {}", known.join(", ")),
        _ => near,
    };
    let name = shown_name(name);
    Err(raise(py, "ConfigError", format!("{path}.{name}: unknown option{has}")))
}

/// `"; did you mean X?"`, or nothing if nothing is near.
pub fn did_you_mean(py: Python<'_>, name: &str, known: &[&str]) -> PyResult<String> {
    let spelling = import(py, "kvframe.spelling")?;
    let near = call_method(&spelling, intern!(py, "did_you_mean"), (name, known.to_vec()))?;
    near.extract()
}

fn shown_name(name: &str) -> String {
    let one_line = name.split_whitespace().collect::<Vec<_>>().join(" ");
    match one_line.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &one_line[..end]),
        None => one_line,
    }
}
