"""Which strategy maintains a view, and why."""
