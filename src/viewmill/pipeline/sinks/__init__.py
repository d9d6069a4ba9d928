"""Where views go: tables that any engine reads, and streams of changes. One file per kind."""
