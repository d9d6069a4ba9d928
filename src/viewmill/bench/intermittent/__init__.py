"""Intermittent maintenance: the experiments of the paper, on TPC-H and on generated joins."""
