"""The runtime in this process."""
