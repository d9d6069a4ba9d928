"""What tests Viewmill, and what tests that which is built on it: oracle, generators, golden scripts."""
