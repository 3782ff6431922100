"""How a release is made: ``make dist``. docs/how-to/release.md says what comes out."""
