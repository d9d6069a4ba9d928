"""Grants per table and view, and filters of rows per user."""

import psycopg
import pytest

import viewmill as vm
from viewmill.serve.users import add_user

GRANTS = """
CREATE ROLE readers;
CREATE ROLE clerks;
GRANT readers TO clerks;
GRANT clerks TO ann;
GRANT SELECT ON revenue TO readers;
GRANT SELECT ON orders TO ann, bob WHERE customer = current_user;
GRANT SELECT ON orders TO eve WHERE amount > 6 OR customer = 'none';
GRANT SELECT ON orders TO boss;
GRANT SELECT ON open_plain TO PUBLIC;
"""


@pytest.fixture
def server(served, tmp_path):
    served.sql("CREATE VIEW open_plain AS SELECT count(*) AS orders FROM orders")
    served.sql("CREATE TABLE secret (x BIGINT)")
    served.insert("secret", [(42,)])
    users, grants = tmp_path / "users", tmp_path / "grants.sql"
    for name in ("ann", "bob", "eve", "boss", "stranger"):
        add_user(users, name, name)
    grants.write_text(GRANTS)
    with served.serve(port=0, users=users, grants=grants) as started:
        yield started


@pytest.fixture
def as_user(server, connect):
    return lambda name: connect(server, name, password=name, autocommit=True)


@pytest.mark.parametrize(
    ("user", "seen"), [("ann", [1]), ("bob", [2]), ("eve", [1]), ("boss", [1, 2])]
)
def test_a_user_sees_the_rows_of_their_grants(as_user, user, seen):
    client = as_user(user)
    for query in (
        "SELECT id FROM orders ORDER BY id",
        "SELECT o.id FROM orders o ORDER BY o.id",
        "SELECT orders.id FROM orders ORDER BY 1",
        "WITH mine AS (SELECT * FROM orders) SELECT id FROM mine ORDER BY id",
        "SELECT id FROM (SELECT * FROM Orders WHERE true OR true) x ORDER BY id",
        "SELECT DISTINCT a.id FROM orders a, orders b WHERE a.id = b.id ORDER BY 1",
        "SELECT max(id) FROM orders GROUP BY id ORDER BY 1",
    ):
        assert [row[0] for row in client.execute(query).fetchall()] == seen, query
        assert [row[0] for row in client.execute(query, prepare=True).fetchall()] == seen, query
    assert client.execute("SELECT (SELECT count(*) FROM orders) AS n").fetchone() == (len(seen),)
    found = client.execute(
        "SELECT id FROM orders WHERE id IN (SELECT id FROM orders) OR id = %s", (2,)
    )
    assert sorted(row[0] for row in found.fetchall()) == seen
    with client.cursor().copy("COPY orders (id) TO STDOUT") as out:
        assert sorted(int(row[0]) for row in out.rows()) == seen


def test_roles_are_inherited_and_public_is_for_all(as_user):
    assert as_user("ann").execute("SELECT count(*) FROM revenue").fetchone() == (2,)
    for user in ("ann", "stranger"):
        assert as_user(user).execute("SELECT orders FROM open_plain").fetchone() == (2,)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM secret",
        "SELECT * FROM revenue",
        "SELECT * FROM nothing_there",
        "SELECT 1 FROM open_plain WHERE EXISTS (SELECT 1 FROM secret)",
        "WITH secret AS (SELECT * FROM secret) SELECT * FROM secret",
        "WITH x AS (SELECT * FROM secret) SELECT count(*) FROM x",
        "SELECT * FROM open_plain UNION ALL SELECT x FROM secret",
        "SELECT * FROM open_plain, LATERAL (SELECT x FROM secret) s",
        "COPY secret TO STDOUT",
        "COPY (SUBSCRIBE secret) TO STDOUT",
        "COPY (SUBSCRIBE orders) TO STDOUT",
        "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM secret",
    ],
)
def test_what_is_not_granted_is_refused(as_user, query):
    client = as_user("bob")
    with pytest.raises(psycopg.Error) as raised:
        client.execute(query)
    assert raised.value.sqlstate in ("42501", "42712", "0A000")
    assert client.execute("SELECT orders FROM open_plain").fetchone() == (2,)


def test_names_that_are_not_granted_are_not_listed(as_user):
    query = "SELECT relname FROM pg_class WHERE relkind IN ('r', 'v', 'm') ORDER BY 1"
    assert as_user("bob").execute(query).fetchall() == [("open_plain",), ("orders",)]
    query = "SELECT table_name FROM information_schema.columns GROUP BY 1 ORDER BY 1"
    assert as_user("stranger").execute(query).fetchall() == [("open_plain",)]


def test_a_filter_is_no_place_for_a_users_name_as_sql(served, tmp_path, connect):
    users, grants = tmp_path / "users", tmp_path / "grants.sql"
    name = "x' OR 'a'='a"
    add_user(users, name, "p")
    grants.write_text("GRANT SELECT ON orders TO PUBLIC WHERE customer = current_user")
    with served.serve(port=0, users=users, grants=grants) as server:
        client = connect(server, name, password="p")
        assert client.execute("SELECT count(*) FROM orders").fetchone() == (0,)


@pytest.mark.parametrize(
    "text",
    [
        "GRANT INSERT ON orders TO ann",
        "GRANT nobody TO ann",
        "GRANT SELECT ON orders TO ann WHERE",
        "GRANT SELECT ON orders TO ann WHERE true GROUP BY 1",
        "GRANT SELECT ON orders",
        "DROP TABLE orders",
    ],
)
def test_grants_that_cannot_be_read_start_no_server(served, tmp_path, text):
    users, grants = tmp_path / "users", tmp_path / "grants.sql"
    add_user(users, "ann", "p")
    grants.write_text(text)
    with pytest.raises(vm.InvalidArgument):
        served.serve(port=0, users=users, grants=grants)


def test_grants_without_users_start_no_server(served, tmp_path):
    grants = tmp_path / "grants.sql"
    grants.write_text(GRANTS)
    with pytest.raises(vm.InvalidArgument, match="need users"):
        served.serve(port=0, grants=grants)


def test_no_name_in_a_query_stands_for_a_table_that_a_filter_reads(served, tmp_path, connect):
    """WITH allowed AS (...) once took the place of the table in the filter."""
    served.sql("CREATE TABLE allowed (customer STRING, who STRING)")
    served.insert("allowed", [("bob", "eve")])
    add_user(tmp_path / "users", "eve", "pw")
    grants = tmp_path / "grants.sql"
    grants.write_text(
        "GRANT SELECT ON orders TO eve "
        "WHERE customer IN (SELECT customer FROM allowed WHERE who = current_user)"
    )
    forged = "WITH Allowed AS (SELECT 'ann' AS customer, 'eve' AS who) SELECT id FROM "
    with served.serve(port=0, users=tmp_path / "users", grants=grants) as server:
        client = connect(server, "eve", password="pw", autocommit=True)
        assert client.execute("SELECT id FROM orders").fetchall() == [(2,)]
        for query in (forged + "orders", forged + "(SELECT * FROM orders) AS o"):
            with pytest.raises(psycopg.errors.DuplicateAlias):
                client.execute(query)
