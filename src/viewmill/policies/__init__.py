"""When a view is refreshed."""
