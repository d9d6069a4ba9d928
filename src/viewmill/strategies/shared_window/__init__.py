"""Sliding windows over one stream, planned together."""
