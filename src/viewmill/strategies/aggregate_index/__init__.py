"""Correlated nested aggregates in O(log n): levels in order, their sums, and where a predicate turns."""
