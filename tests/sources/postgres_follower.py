"""A mill that follows a table of PostgreSQL; `python postgres_follower.py FOLDER DSN TABLE`."""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict

import viewmill as vm

VIEW = "SELECT k, COUNT(*) AS n, SUM(amount) AS s, MAX(x) AS m FROM t GROUP BY k"


def follow(mill, dsn, table, **options):
    mill.follow("t", vm.sources.postgres(dsn, table, **options), background=False)
    if "v" not in mill:
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {VIEW}")
    assert mill.catch_up()


def assert_same(mill, writer):
    """The mill's table and view are what the server says and plain Python makes of it."""
    rows = writer.rows()
    shown = mill.sql("SELECT id, k, x, amount, note FROM t").rows()
    assert Counter(shown) == Counter(rows)
    groups = defaultdict(list)
    for _, k, x, amount, _ in rows:
        groups[k].append((x, amount))
    assert Counter(mill["v"].rows()) == Counter(
        (k, len(each), sum(a for _, a in each), max(x for x, _ in each))
        for k, each in groups.items()
    )


if __name__ == "__main__":
    followed = vm.connect(f"{sys.argv[1]}/m.mill")
    follow(followed, sys.argv[2], sys.argv[3])
    os.write(1, b"ready\n")
    while True:
        followed.catch_up()
