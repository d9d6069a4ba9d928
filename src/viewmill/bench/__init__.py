"""Data generators and timed workloads behind `viewmill bench` and `viewmill demo`."""
