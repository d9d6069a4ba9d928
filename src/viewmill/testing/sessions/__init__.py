"""Random sessions: everything a user can do with a mill, in any order, against an oracle.

A session is a list of steps (`steps.py`), drawn from a seed (`draw.py`, `draw_views.py`). A player
(`play.py`) performs each step on a mill and on a world of plain Python rows (`world.py`), whose
views DuckDB or a few lines of Python compute again (`definitions.py`); after each step it compares
the two (`check.py`). A session that fails is made small (`shrink.py`) and printed as JSON lines,
which can be played again. Sessions of a pipeline in shards have their own steps and players
(`draw_shards.py`, `play_shards.py`): on Spark, or with slots in memory.
`python -m viewmill.testing.sessions --help` runs them.
"""
