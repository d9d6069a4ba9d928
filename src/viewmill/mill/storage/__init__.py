"""The parts of a durable directory, which `mill.store` puts together.

orders.mill/
  LOCK               held while open, with the process id
  HEAD               the newest commit, so that a database that lost its tail is noticed
  mill.db            SQLite: catalog, where the snapshots are, the log of what changes the catalog
  deltas.log         the log of what changes rows only: one record for each commit
  mill.db-wal        SQLite's own log, while open or after a crash
  delta-*.arrow      deltas too large for the log
  snapshot-*.arrow   tables and states of the checkpoint, Arrow streams one after another
  parts/m/part_timestamp=.../part.parquet   a time part of a table or view, as its footer says when
"""
