"""Compute the view again, by the engine: takes any query, so that no view is ever refused."""
