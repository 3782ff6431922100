"""Tests that need a card; without one they are not collected."""
