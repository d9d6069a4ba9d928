"""A process that follows files into a mill until it is killed: `python file_follower.py FOLDER`."""

from __future__ import annotations

import os
import sys

import viewmill as vm


def follow(folder: str) -> vm.Mill:
    """The mill of a folder, following the folder's files."""
    mill = vm.connect(f"{folder}/m.mill")
    mill.sql("CREATE TABLE IF NOT EXISTS t (x BIGINT)")
    if "v" not in mill:
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n, SUM(x) AS s FROM t")
    mill.follow("t", vm.sources.files(f"{folder}/*.csv", batch_rows=3), background=False)
    return mill


if __name__ == "__main__":
    followed = follow(sys.argv[1])
    os.write(1, b"ready\n")
    while True:
        followed.catch_up()
