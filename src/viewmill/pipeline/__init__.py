"""Spark streams to views: the session, sources, the pipeline, sinks."""
