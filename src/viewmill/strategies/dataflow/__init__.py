"""General SQL, one compiled trigger per input: filter, project, group."""
