"""Ways to keep a view up to date, one folder each."""
