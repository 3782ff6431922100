//! Options by name, checked before they reach the core: an option that the core, a built-in policy or a group
//! does not have is refused.

use kvframe_core::policy::{self, Builtin, PolicyOption, PolicyOptions, admission};
use kvframe_core::{Error, Options};
use std::collections::HashMap;

use kvframe_core::options::table::Value;
use kvframe_core::options::{Fault, KEYS};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBool, PyDict};

use crate::calls::{call_method, import};
use crate::errors::{from_core, raise, shown, unless_raised};
use crate::groups::group_table;
use crate::tenants;

/// The options of a manager that a table says, by the keys of a configuration; `groups` is a list
/// of tables. What is wrong with the groups themselves is returned as faults.
///
/// # Errors
/// `ConfigError`: a key is unknown, or a value is of another type.
pub fn read(table: &Bound<'_, PyDict>) -> PyResult<(Options, Vec<Fault>)> {
    let py = table.py();
    let mut options = Options::default();
    let mut groups = Vec::new();
    for (key, value) in table {
        let key = key.extract::<String>()?;
        if key == "groups" {
            groups = value.extract::<Vec<Bound<'_, PyDict>>>()?;
            continue;
        }
        if key == "tenants" {
            options.tenants = tenants::read(&value)?;
            continue;
        }
        let Some(taken) = plain(&value) else {
            let message = format!("{key} = {}: is no value of an option", shown(&value));
            return Err(raise(py, "ConfigError", message));
        };
        if !options.set(&key, &taken).map_err(|error| from_core(py, &error))? {
            let known: Vec<&str> = KEYS.iter().map(|(key, _)| *key).collect();
            let near = did_you_mean(py, &key, &known)?;
            let message = format!("{}: unknown option{near}", shown_name(&key));
            return Err(raise(py, "ConfigError", message));
        }
    }
    let mut faults = Vec::new();
    if !groups.is_empty() {
        let groups = groups.iter().enumerate().map(|(at, group)| {
            let table = group_table(py, at, group)?;
            Ok(table.group(at, options.block_size, &mut faults))
        });
        options.groups = groups.collect::<PyResult<Vec<_>>>()?;
    }
    Ok((options, faults))
}

/// The options of a manager that serves a trace: what a table says, but for what the trace decides.
///
/// # Errors
/// As [`read`]; what is wrong with the groups.
pub fn configured(
    py: Python<'_>,
    table: Option<&Bound<'_, PyDict>>,
    traced: Result<Options, kvframe_core::Error>,
) -> PyResult<Options> {
    let traced = traced.map_err(|e| from_core(py, &e))?;
    let Some(table) = table else { return Ok(traced) };
    let (options, faults) = read(table)?;
    if let Some(fault) = faults.into_iter().next() {
        let value = fault.value.map_or_else(String::new, |value| format!(" = {value}"));
        let message = format!("{}{value}: {}", fault.what, fault.limit);
        return Err(raise(py, "ConfigError", message));
    }
    let (blocks, block_size) = (traced.blocks, traced.block_size);
    let options =
        Options { blocks, block_size, compute_last_token: traced.compute_last_token, ..options };
    options.validate().map_err(|e| from_core(py, &e))?;
    Ok(options)
}

/// The policies of a manager.
pub struct Chosen<'py> {
    /// A built-in's name, or a driver of a policy from outside the core.
    pub eviction: Bound<'py, PyAny>,
    /// What the policy is given.
    pub eviction_options: Option<Bound<'py, PyDict>>,
    /// As `eviction`; every block is admitted if there is none.
    pub admission: Option<Bound<'py, PyAny>>,
    /// What the policy is given.
    pub admission_options: Option<Bound<'py, PyDict>>,
    /// Whether Python answers lookups.
    pub matched: bool,
    /// Whether it does so from an index of its own.
    pub mirrored: bool,
}

/// The policies that a manager's table names, and the rest of the table: options of the core.
///
/// # Errors
/// `ConfigError`: no eviction policy is named.
pub fn chosen<'py>(table: &Bound<'py, PyDict>) -> PyResult<(Chosen<'py>, Bound<'py, PyDict>)> {
    let rest = table.copy()?;
    let take = |key: &str| -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = rest.get_item(key)?;
        if value.is_some() {
            rest.del_item(key)?;
        }
        Ok(value.filter(|value| !value.is_none()))
    };
    let options = |key: &str| -> PyResult<Option<Bound<'py, PyDict>>> {
        take(key)?.map(|value| Ok(value.extract::<Bound<'py, PyDict>>()?)).transpose()
    };
    let flag =
        |key: &str| -> PyResult<bool> { take(key)?.map_or(Ok(false), |value| value.extract()) };
    let Some(eviction) = take("eviction.policy")? else {
        return Err(raise(table.py(), "ConfigError", "eviction.policy: missing".into()));
    };
    let chosen = Chosen {
        eviction,
        eviction_options: options("eviction.options")?,
        admission: take("admission.policy")?,
        admission_options: options("admission.options")?,
        matched: flag("prefix.matched")?,
        mirrored: flag("prefix.mirrored")?,
    };
    Ok((chosen, rest))
}

/// The error of a fault, by its key.
pub fn refused(py: Python<'_>, fault: &Fault) -> PyErr {
    let value = fault.value.as_ref().map(|value| format!(" = {value}")).unwrap_or_default();
    raise(py, "ConfigError", format!("{}{value}: {}", fault.key(), fault.limit))
}

fn plain(value: &Bound<'_, PyAny>) -> Option<Value> {
    if value.is_instance_of::<PyBool>() {
        return value.extract().ok().map(Value::Bool);
    }
    let text = || value.extract().ok().map(Value::Text);
    value
        .extract()
        .ok()
        .map(Value::Int)
        .or_else(text)
        .or_else(|| value.extract().ok().map(Value::Float))
}

/// A value of an option, for Python.
pub fn shown_value(py: Python<'_>, value: Value) -> PyResult<Py<PyAny>> {
    Ok(match value {
        Value::Bool(on) => on.into_pyobject(py)?.to_owned().into_any().unbind(),
        Value::Int(number) => number.into_pyobject(py)?.into_any().unbind(),
        Value::Float(number) => number.into_pyobject(py)?.into_any().unbind(),
        Value::Text(text) => text.into_pyobject(py)?.into_any().unbind(),
    })
}

/// Everything that the rules of the core forbid of a table of options: the key of each, whether it has
/// a value, and what is allowed.
#[pyfunction]
pub fn check_options(table: &Bound<'_, PyDict>) -> PyResult<Vec<(String, bool, String)>> {
    let (options, mut faults) = read(table)?;
    let wrong_groups = !faults.is_empty();
    let more = options.faults();
    faults.extend(more.into_iter().filter(|fault| {
        // An invalid group is read as a placeholder, whose faults say nothing about the other
        // groups.
        !(wrong_groups && (fault.group.is_some() || fault.what == "groups"))
    }));
    Ok(faults.into_iter().map(|fault| (fault.key(), fault.value.is_some(), fault.limit)).collect())
}

/// The built-in policy that is found, made with the options at `path`, and the values of all its options.
///
/// # Errors
/// `ConfigError`: it is not found, or does not have one of these options, or one is outside its limits.
pub fn make<P: 'static>(
    py: Python<'_>,
    path: &str,
    given: Option<&Bound<'_, PyDict>>,
    find: impl FnOnce() -> Result<&'static Builtin<P>, Error>,
) -> PyResult<(P, Py<PyDict>)> {
    let (names, values): (Vec<_>, Vec<_>) = numbers(path, given)?.into_iter().unzip();
    let policy = find().map_err(|error| from_core(py, &error))?;
    let known: Vec<&str> = policy.options.iter().map(|option| option.name).collect();
    check(py, path, policy.name, &names, &known)?;
    let given: Vec<_> = names.iter().map(String::as_str).zip(values).collect();
    let made = policy.make(PolicyOptions(&given)).map_err(|error| match error {
        Error::Invalid { what, value, limit } => {
            raise(py, "ConfigError", format!("{path}.{what} = {value}: {limit}"))
        }
        error => from_core(py, &error),
    })?;
    let in_force = policy.in_force(PolicyOptions(&given)).into_py_dict(py)?;
    Ok((made, in_force.unbind()))
}

/// What is known of an option: its name, default, lowest and highest value, and what it does.
type Declared = (&'static str, u32, u32, u32, &'static str);

/// The built-in policies of each kind, and the options that each declares.
#[pyfunction]
pub fn policy_options() -> HashMap<&'static str, HashMap<&'static str, Vec<Declared>>> {
    let eviction = policy::POLICIES.iter().map(|policy| (policy.name, declared(policy.options)));
    let admission =
        admission::POLICIES.iter().map(|policy| (policy.name, declared(policy.options)));
    HashMap::from([("eviction", eviction.collect()), ("admission", admission.collect())])
}

fn declared(options: &[PolicyOption]) -> Vec<Declared> {
    let one = |o: &PolicyOption| (o.name, o.default, o.least, o.most, o.description);
    options.iter().map(one).collect()
}

fn numbers(path: &str, options: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, u32)>> {
    let mut numbers = Vec::new();
    for (name, value) in options.into_iter().flatten() {
        let Ok(name) = name.extract::<String>() else {
            let message = format!("{path}: {}: an option is named by a string", shown(&name));
            return Err(raise(value.py(), "ConfigError", message));
        };
        let number = number(&format!("{path}.{name}"), &value)?;
        numbers.push((name, number));
    }
    Ok(numbers)
}

/// A number of the core's.
pub fn number(path: &str, value: &Bound<'_, PyAny>) -> PyResult<u32> {
    let py = value.py();
    let wrong = || {
        let limit = format!("must be a whole number between 0 and {}", u32::MAX);
        raise(py, "ConfigError", format!("{path} = {}: {limit}", shown(value)))
    };
    value.extract().map_err(|error| unless_raised(py, error, wrong))
}

/// Refuses the first of `names` that is not one of `known`.
pub fn check(
    py: Python<'_>,
    path: &str,
    owner: &str,
    names: &[impl AsRef<str>],
    known: &[&str],
) -> PyResult<()> {
    let mut names = names.iter().map(AsRef::as_ref);
    let Some(name) = names.find(|name| !known.contains(name)) else {
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
