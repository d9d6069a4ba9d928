"""Bulk SQL by someone else: DuckDB in this process, Spark SQL on Spark."""
