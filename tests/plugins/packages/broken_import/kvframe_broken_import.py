"""A plugin that needs a package which is not there."""

import a_package_that_nobody_has  # noqa: F401
