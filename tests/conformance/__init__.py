"""The index of scenarios and the tests that serve them."""
