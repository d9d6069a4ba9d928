"""Join-aggregate queries by one tree of views over a variable order, with payloads from a ring (F-IVM)."""
