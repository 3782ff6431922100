"""Engines that run on kvframe. Each module needs its engine, and is imported by nothing here."""
