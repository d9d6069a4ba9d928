"""Joins and aggregates over them: one tree of views over a variable order, payloads from a ring."""
