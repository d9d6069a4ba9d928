"""Correlated nested aggregates in O(log n): levels in order, and where a predicate turns."""
