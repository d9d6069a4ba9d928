"""Programs at work over deltas."""
