"""The examples are run, and their answers checked."""
