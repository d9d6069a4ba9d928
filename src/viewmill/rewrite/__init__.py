"""Algebra to simpler algebra: one rule per file, in the order of `rules.RULES`."""
