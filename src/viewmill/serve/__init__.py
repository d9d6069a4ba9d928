"""Serving a mill to clients of Postgres: read-only, over the wire protocol of version 3."""
