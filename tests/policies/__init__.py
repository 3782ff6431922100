"""The built-in policies against plain twins of theirs, and against another library's."""
