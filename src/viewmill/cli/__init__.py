"""The command line: one file per command, results to stdout, progress to stderr."""
