"""Use cases: one transaction each, over ports, store and core."""
