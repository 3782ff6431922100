"""Tenants: floors, quotas, figures and erasure, through the package."""
