"""A process that moves money between accounts all the time: the total never moves.

Run as `python bank.py DIRECTORY`; it says "ready", and then each version that it has committed.
"""

from __future__ import annotations

import random
import sys

import viewmill as vm

ACCOUNTS, EACH = 20, 100


def create(mill: vm.Mill) -> None:
    mill.sql("CREATE TABLE accounts (id INT, branch INT, money BIGINT, PRIMARY KEY (id))")
    mill.sql("CREATE TABLE moves (source INT, target INT, money BIGINT)")
    mill.sql(
        "CREATE MATERIALIZED VIEW total AS SELECT SUM(money) AS s, COUNT(*) AS n FROM accounts"
    )
    mill.sql(
        "CREATE MATERIALIZED VIEW by_branch AS "
        "SELECT branch, SUM(money) AS s FROM accounts GROUP BY branch"
    )
    mill.insert("accounts", [(i, i % 3, EACH) for i in range(ACCOUNTS)])


def main(path: str) -> None:
    chance = random.Random(5)
    with vm.connect(path) as mill:
        if "accounts" not in mill:
            create(mill)
        money = dict(mill.sql("SELECT id, money FROM accounts").rows())
        print("ready", flush=True)  # noqa: T201
        for turn in range(10**9):
            source, target = chance.sample(range(ACCOUNTS), 2)
            amount = chance.randrange(50)
            money[source] -= amount
            money[target] += amount
            with mill.batch():
                mill.upsert("accounts", [(i, i % 3, money[i]) for i in (source, target)])
                mill.insert("moves", [(source, target, amount)])
            print(mill.version, flush=True)  # noqa: T201
            if turn % 25 == 24:
                mill.checkpoint()


if __name__ == "__main__":
    main(sys.argv[1])
