"""Placement shards: programs in Spark's Python workers, their states in Spark's state store."""
