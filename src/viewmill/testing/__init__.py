"""What tests Viewmill and what is built on it: oracle, generators, golden scripts."""
