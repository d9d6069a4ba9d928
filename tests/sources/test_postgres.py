"""A mill follows a table of a PostgreSQL server that someone else writes."""

from __future__ import annotations

import random
import time
from contextlib import closing

import psycopg
import pytest
from tests.sources import postgres_follower, postgres_writer
from tests.sources.killed import killed_after
from tests.sources.postgres_follower import assert_same, follow
from tests.sources.postgres_writer import Writer

import viewmill as vm


@pytest.fixture
def database(postgres):
    """A connection, and tables that go with the test."""
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        yield connection
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(
            "DROP SCHEMA public CASCADE; CREATE SCHEMA public; "
            "GRANT USAGE ON SCHEMA public TO public; SELECT pg_drop_replication_slot(slot_name) "
            "FROM pg_replication_slots WHERE NOT active"
        )


def rows(mill, query="SELECT * FROM t"):
    return sorted(mill.sql(query).rows())


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("commits", [40, pytest.param(500, marks=pytest.mark.slow)])
def test_the_view_equals_a_read_of_the_table_after_every_catch_up(
    postgres, database, uncompiled, full, commits
):
    seed = random.randrange(1 << 30)
    print("seed", seed)  # noqa: T201
    chance = random.Random(seed)
    writer = Writer(postgres.dsn, "orders", chance, full=full)
    writer.commit()
    with closing(writer.connection), vm.connect() as mill:
        follow(mill, postgres.dsn, "orders")
        for i in range(commits):
            print(i, writer.commit())  # noqa: T201
            if chance.random() < 0.5:
                assert mill.catch_up()
                assert_same(mill, writer)
        assert mill.catch_up()
        assert_same(mill, writer)


@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_killing_both_sides_loses_nothing_and_doubles_nothing(
    tmp_path, postgres, database, uncompiled, kills
):
    chance = random.Random()
    writer = Writer(postgres.dsn, "orders", chance)
    for _ in range(kills):
        with (
            killed_after(postgres_writer, postgres.dsn, "orders"),
            killed_after(postgres_follower, str(tmp_path), postgres.dsn, "orders"),
        ):
            time.sleep(chance.uniform(0.0, 0.5))
    with closing(writer.connection), vm.connect(tmp_path / "m.mill") as mill:
        follow(mill, postgres.dsn, "orders")
        assert_same(mill, writer)
        mill.unfollow("t")


def test_a_transaction_is_one_version_and_one_that_is_rolled_back_is_none(
    postgres, database, uncompiled
):
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, x int)")
    with vm.connect() as mill:
        mill.follow("t", vm.sources.postgres(postgres.dsn, "orders"), background=False)
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(x) AS s FROM t")
        mill.catch_up()
        changes: list[vm.Change] = []
        mill["v"].subscribe(changes.append)
        with database.transaction():
            database.execute("INSERT INTO orders SELECT i, 1 FROM generate_series(1, 9000) i")
            database.execute("UPDATE orders SET x = 2")
        with database.transaction():
            database.execute("DELETE FROM orders")
            raise psycopg.Rollback
        assert mill.catch_up()
        assert [each.inserted for each in changes] == [[(18000,)]]


def test_values_of_every_type_arrive_as_they_are(postgres, database, uncompiled):
    database.execute(
        "CREATE DOMAIN euro AS numeric(8, 2); CREATE TABLE orders (id int PRIMARY KEY, b bool, "
        "s smallint, r real, d double precision, n numeric, e euro, day date, at timestamp, "
        "zoned timestamptz, bin bytea, u uuid, j jsonb, a int[], t text)"
    )
    given = (
        "true, 7, 1.25, 'Infinity', 123.000000000000000001, 9.99, '2024-02-29', "
        "'2024-01-01 10:00:00.123456', '2024-01-01 10:00:00+02', '\\x00ff', "
        "'00000000-0000-0000-0000-000000000001', '{\"a\": 1}', '{1,2}', E'\"quoted\", \\n\\\\N'"
    )
    database.execute(f"INSERT INTO orders VALUES (1, {given}); INSERT INTO orders VALUES (2)")
    with vm.connect() as mill:
        mill.follow("t", vm.sources.postgres(postgres.dsn, "orders"), background=False)
        mill.catch_up()
        database.execute(f"INSERT INTO orders VALUES (3, {given}); INSERT INTO orders VALUES (4)")
        mill.catch_up()
        first, nulls, third, fourth = rows(mill)
        assert first[1:] == third[1:]
        assert nulls[1:] == fourth[1:] == (None,) * 14
        day, at, zoned = (str(each) for each in first[7:10])
        assert (day, at, zoned) == ("2024-02-29", "2024-01-01 10:00:00.123456",
                                    "2024-01-01 08:00:00")  # fmt: skip
        assert [str(each) for each in first[1:7]] == [
            "True", "7", "1.25", "inf", "123.000000000000000001", "9.99"
        ]  # fmt: skip
        assert first[10] == b"\x00\xff"
        assert first[11:] == (
            "00000000-0000-0000-0000-000000000001", '{"a": 1}', "{1,2}", '"quoted", \n\\N'
        )  # fmt: skip


def test_columns_come_and_those_that_no_longer_fit_are_named(postgres, database, uncompiled):
    database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, x int); INSERT INTO orders VALUES (1, 1)"
    )
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (id INT, x INT, y STRING, PRIMARY KEY (id))")
        mill.follow("t", vm.sources.postgres(postgres.dsn, "orders"), background=False)
        mill.catch_up()
        database.execute("ALTER TABLE orders ADD y text, ADD other int")
        database.execute("INSERT INTO orders VALUES (2, 2, 'new', 5)")
        assert mill.catch_up()
        assert rows(mill) == [(1, 1, None), (2, 2, "new")]
        database.execute("ALTER TABLE orders DROP x; INSERT INTO orders VALUES (3)")
        with pytest.raises(vm.ViewmillError, match='orders of postgres: column "x" was dropped'):
            mill.catch_up()
        assert rows(mill) == [(1, 1, None), (2, 2, "new")]


def test_a_column_with_a_default_for_rows_that_are_there_is_an_error(
    postgres, database, uncompiled
):
    database.execute("CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders VALUES (1)")
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (id INT, y INT, PRIMARY KEY (id))")
        mill.follow("t", vm.sources.postgres(postgres.dsn, "orders"), background=False)
        mill.catch_up()
        database.execute("ALTER TABLE orders ADD y int DEFAULT 7; INSERT INTO orders VALUES (2)")
        with pytest.raises(vm.ViewmillError, match="came with a default"):
            mill.catch_up()


def test_a_slot_that_was_dropped_is_an_error_that_says_what_to_do(
    tmp_path, postgres, database, uncompiled
):
    database.execute("CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders VALUES (1)")
    source = vm.sources.postgres(postgres.dsn, "orders", slot="ours")
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.follow("t", source, background=False)
        mill.catch_up()
    database.execute("INSERT INTO orders VALUES (2)")
    database.execute("SELECT pg_drop_replication_slot('ours'); INSERT INTO orders VALUES (3)")
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.follow("t", source, background=False)
        with pytest.raises(vm.ViewmillError, match='are lost: the slot "ours" was dropped') as why:
            mill.catch_up()
        assert "unfollow" in why.value.hint
        assert rows(mill) == [(1,)]
        mill.unfollow("t")
        mill.sql("DELETE FROM t")
        mill.follow("t", source, background=False)
        mill.catch_up()
        assert rows(mill) == [(1,), (2,), (3,)]
        mill.unfollow("t")
    slots = database.execute("SELECT slot_name FROM pg_replication_slots WHERE slot_name = 'ours'")
    assert slots.fetchall() == []


def test_a_server_that_restarts_is_followed_again(tmp_path, postgres, database, uncompiled):
    database.execute("CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders VALUES (1)")
    with vm.connect(tmp_path / "m.mill") as durable, vm.connect() as in_memory:
        for mill in (durable, in_memory):
            mill.follow("t", vm.sources.postgres(postgres.dsn, "orders"), background=False)
            mill.catch_up()
        postgres.stop()
        try:
            for mill in (durable, in_memory):
                with pytest.raises(vm.ViewmillError, match="PostgreSQL table orders of postgres"):
                    mill.catch_up()
        finally:
            postgres.start()
        with psycopg.connect(postgres.dsn, autocommit=True) as again:
            again.execute("INSERT INTO orders VALUES (2); DELETE FROM orders WHERE id = 1")
            for mill in (durable, in_memory):
                assert mill.catch_up()
                assert rows(mill) == [(2,)]
            durable.unfollow("t")


@pytest.mark.parametrize(
    ("change", "table", "said"),
    [
        (lambda dsn: dsn.replace("secret", "wrong"), "orders", "password authentication failed"),
        (lambda dsn: dsn.replace("127.0.0.1:", "127.0.0.1:1"), "orders", "cannot connect"),
        (lambda dsn: dsn.replace("/postgres", "/nothing"), "orders", "does not exist"),
        (lambda dsn: dsn, "missing", "does not exist"),
        (lambda dsn: dsn, "keyless", "no primary key"),
        (lambda dsn: dsn, "a_view", "no table that PostgreSQL replicates"),
        (lambda dsn: dsn.replace("viewmill:", "reader:"), "orders", "permission denied"),
        (lambda dsn: dsn, "x'; DROP TABLE orders; --", "."),
    ],
)
def test_what_cannot_be_followed_is_named_and_creates_nothing(
    postgres, database, uncompiled, change, table, said
):
    database.execute(
        "DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN PASSWORD 'secret'; "
        "CREATE TABLE orders (id int PRIMARY KEY); CREATE TABLE keyless (id int); "
        "CREATE VIEW a_view AS SELECT * FROM orders"
    )
    with vm.connect() as mill:
        source = vm.sources.postgres(change(postgres.dsn), table)
        with pytest.raises(vm.ViewmillError, match=said) as why:
            mill.follow("t", source, background=False)
        assert source.title in why.value.message
        assert "secret" not in str(why.value)
        assert "t" not in mill


def test_a_role_that_may_not_replicate_is_told_what_it_lacks(postgres, database, uncompiled):
    database.execute(
        "CREATE ROLE plain LOGIN PASSWORD 'secret'; CREATE TABLE orders (id int PRIMARY KEY); "
        "GRANT SELECT ON orders TO plain"
    )
    dsn = postgres.dsn.replace("viewmill:", "plain:")
    with vm.connect() as mill:
        source = vm.sources.postgres(dsn, "orders")
        mill.follow("t", source, background=False)
        with pytest.raises(vm.ViewmillError, match="no publication can be created") as why:
            mill.catch_up()
        assert "CREATE PUBLICATION" in why.value.hint
        database.execute("CREATE PUBLICATION p FOR TABLE orders")
        mill.unfollow("t")
        mill.follow("t", vm.sources.postgres(dsn, "orders", publication="p"), background=False)
        with pytest.raises(vm.ViewmillError, match=r"(?i)replication"):
            mill.catch_up()
    database.execute("DROP OWNED BY plain; DROP ROLE plain")


def test_values_that_do_not_fit_change_nothing(postgres, database, uncompiled):
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, n numeric, at timestamp)")
    with vm.connect() as mill:
        mill.follow("t", vm.sources.postgres(postgres.dsn, "orders"), background=False)
        mill.catch_up()
        for bad in ("'NaN', now()", "1, 'infinity'", "1, '0044-03-15 BC'"):
            database.execute(f"TRUNCATE orders; INSERT INTO orders VALUES (1, {bad})")
            with pytest.raises(vm.ViewmillError, match=r"orders of postgres.* cannot be"):
                mill.catch_up()
            assert rows(mill) == []
        database.execute("TRUNCATE orders; INSERT INTO orders VALUES (1, 1, NULL)")


def test_a_key_that_is_deferrable_is_refused_before_the_server_would_refuse_updates(
    postgres, database, uncompiled
):
    database.execute("CREATE TABLE orders (id int PRIMARY KEY DEFERRABLE)")
    with vm.connect() as mill:
        with pytest.raises(vm.ViewmillError, match="no primary key") as why:
            mill.follow("t", vm.sources.postgres(postgres.dsn, "orders"), background=False)
        assert "DEFERRABLE" in why.value.detail
    database.execute("INSERT INTO orders VALUES (1); UPDATE orders SET id = 2")


@pytest.mark.parametrize(
    "change",
    [
        "RENAME s TO q; ALTER TABLE orders RENAME r TO s; ALTER TABLE orders RENAME q TO r",
        "DROP r; ALTER TABLE orders ADD r text",
    ],
)
def test_another_column_of_the_same_name_is_noticed(postgres, database, uncompiled, change):
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, s text, r text)")
    database.execute("INSERT INTO orders VALUES (1, 's', 'r')")
    with vm.connect() as mill:
        mill.follow("t", vm.sources.postgres(postgres.dsn, "orders"), background=False)
        mill.catch_up()
        database.execute(f"ALTER TABLE orders {change}")
        database.execute("INSERT INTO orders VALUES (2, 's', 'r')")
        with pytest.raises(vm.ViewmillError, match="is another column now"):
            mill.catch_up()
        assert rows(mill) == [(1, "s", "r")]
