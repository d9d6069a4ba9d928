"""A mill that follows a topic until it is killed: its arguments are a folder, a broker, a topic."""

import os
import sys

import viewmill as vm

VIEW = "SELECT k, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY k"


def follow(mill, broker, topic):
    mill.sql("CREATE TABLE IF NOT EXISTS t (id BIGINT, k STRING, x BIGINT, PRIMARY KEY (id))")
    mill.follow("t", vm.sources.kafka(broker, topic), background=False)
    if "v" not in mill:
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {VIEW}")
    assert mill.catch_up()


if __name__ == "__main__":
    followed = vm.connect(f"{sys.argv[1]}/m.mill")
    follow(followed, sys.argv[2], sys.argv[3])
    os.write(1, b"ready\n")
    while True:
        followed.catch_up()
