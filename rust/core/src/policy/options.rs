//! Options of built-in policies. Each policy declares its own, in its file: the declaration holds all that
//! configuration, bindings and documentation know of an option.

use crate::error::{Error, Result};

/// A whole number that a policy may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyOption {
    /// Its name in configuration.
    pub name: &'static str,
    /// Its value where none is given.
    pub default: u32,
    /// The lowest value.
    pub least: u32,
    /// The highest value.
    pub most: u32,
    /// What it does, in a sentence for users.
    pub description: &'static str,
}

impl PolicyOption {
    /// An option of any number.
    pub const fn number(name: &'static str, default: u32, description: &'static str) -> Self {
        Self { name, default, least: 0, most: u32::MAX, description }
    }

    /// An option of any number but 0.
    pub const fn positive(name: &'static str, default: u32, description: &'static str) -> Self {
        Self { least: 1, ..Self::number(name, default, description) }
    }

    /// A share, 0 to 100.
    pub const fn percent(name: &'static str, default: u32, description: &'static str) -> Self {
        Self { most: 100, ..Self::number(name, default, description) }
    }

    /// This option with `most` as its highest value.
    #[must_use]
    pub const fn up_to(self, most: u32) -> Self {
        Self { most, ..self }
    }
}

/// What a policy is given, by name. What is not named stays at its default.
#[derive(Debug, Clone, Copy, Default)]
pub struct PolicyOptions<'a>(pub &'a [(&'a str, u32)]);

impl PolicyOptions<'_> {
    /// The value of `option`.
    pub fn get(self, option: &PolicyOption) -> u32 {
        let given = self.0.iter().find(|(name, _)| *name == option.name);
        given.map_or(option.default, |&(_, value)| value)
    }

    fn check(self, known: &[PolicyOption]) -> Result<()> {
        for &(name, value) in self.0 {
            let Some(option) = known.iter().find(|option| option.name == name) else {
                let known: Vec<_> = known.iter().map(|option| option.name).collect();
                let (name, known) = (name.into(), known.join(", ").into());
                return Err(Error::UnknownName { what: "option", name, known });
            };
            let PolicyOption { name: what, least, most, .. } = *option;
            if !(least..=most).contains(&value) {
                let limit = format!("must be between {least} and {most}");
                return Err(Error::Invalid { what, value: value.to_string(), limit });
            }
        }
        Ok(())
    }
}

/// A policy that is made from its options. One that has none is its default.
pub trait Configured {
    /// What it may be given.
    const OPTIONS: &'static [PolicyOption] = &[];

    /// The policy with these options, which are among [`Configured::OPTIONS`] and in their limits.
    fn with(options: PolicyOptions<'_>) -> Self;
}

impl<P: Default> Configured for P {
    fn with(_: PolicyOptions<'_>) -> Self {
        Self::default()
    }
}

/// A policy of the core, by the name that configuration has for it.
#[derive(Debug, Clone, Copy)]
pub struct Builtin<P> {
    /// That name.
    pub name: &'static str,
    /// What it may be given.
    pub options: &'static [PolicyOption],
    pub(super) make: fn(PolicyOptions<'_>) -> P,
}

impl<P> Builtin<P> {
    /// The policy.
    ///
    /// # Errors
    /// [`Error::UnknownName`] for an option it does not have, [`Error::Invalid`] for a value outside its limits.
    pub fn make(&self, options: PolicyOptions<'_>) -> Result<P> {
        options.check(self.options)?;
        Ok((self.make)(options))
    }

    /// The values of all its options where these are given.
    pub fn in_force(&self, options: PolicyOptions<'_>) -> Vec<(&'static str, u32)> {
        self.options.iter().map(|option| (option.name, options.get(option))).collect()
    }
}

/// The policy of that name; `what` says what such policies are.
pub(super) fn find<P>(
    policies: &'static [Builtin<P>],
    what: &'static str,
    name: &str,
) -> Result<&'static Builtin<P>> {
    policies.iter().find(|policy| policy.name == name).ok_or_else(|| {
        let known: Vec<_> = policies.iter().map(|policy| policy.name).collect();
        Error::UnknownName { what, name: name.into(), known: known.join(", ").into() }
    })
}
