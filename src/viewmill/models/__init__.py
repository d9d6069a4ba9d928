"""Models over views: what they need of the data is small, and kept fresh."""

from viewmill.models.linear_regression import LinearRegression

__all__ = ["LinearRegression"]
