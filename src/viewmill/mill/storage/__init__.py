"""The parts of a durable directory, which `mill.store` puts together.

orders.mill/
  LOCK               held while open, with the process id
  HEAD               the newest commit, so that a database that lost its tail is noticed
  mill.db            SQLite: catalog, log, where the snapshots are; its commit is our commit
  mill.db-wal        SQLite's own log, while open or after a crash
  delta-*.arrow      deltas too large for the database
  snapshot-*.arrow   tables and states of the checkpoint, Arrow streams one after another
  parts/m/part_timestamp=.../part.parquet   a time part of a table or view, as its footer says when
"""
