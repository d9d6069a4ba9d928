"""Operators with several states or inputs: one file each, from a relation to a program."""
