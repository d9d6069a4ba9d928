"""`viewmill test`: given rows, expect rows."""

import pytest

SPEC = """\
name: shop
storage: storage/
sources:
  orders:
    path: data/*.csv
    schema: "id BIGINT, customer STRING, amount DECIMAL(10,2), at TIMESTAMP"
libraries:
  - glob: {include: "views/*.sql"}
"""
VIEWS = """\
CREATE MATERIALIZED VIEW revenue AS
SELECT customer, SUM(amount) AS revenue, MAX(at) AS last, AVG(amount) AS mean
FROM orders GROUP BY customer;
CREATE VIEW rich AS SELECT customer FROM revenue WHERE revenue > 5;
"""
CASE = """\
a deleted order is no revenue:
  given:
    orders:
      - {id: 1, customer: ann, amount: 10, at: "2024-01-01 10:00:00"}
      - {id: 2, customer: ann, amount: 0.5, at: "2024-01-02"}
      - {id: 3, customer: bob, amount: 1}
  then:
    - delete: {orders: [{id: 2, customer: ann, amount: 0.5, at: "2024-01-02"}]}
    - sql: DELETE FROM orders WHERE id = 3
    - insert: {orders: [[4, ann, 2, null]]}
  expect:
    revenue:
      - {customer: ann, revenue: REVENUE, last: "2024-01-01 10:00:00", mean: 6}
    rich: [{customer: ann}]
"""


@pytest.fixture
def shop(project):
    (project.folder / "viewmill.yml").write_text(SPEC)
    for name in ("views", "tests", "data"):
        (project.folder / name).mkdir()
    (project.folder / "views" / "all.sql").write_text(VIEWS)
    return project


def write(shop, text):
    (shop.folder / "tests" / "revenue.yml").write_text(text)


def test_a_test_that_holds_is_said_to(shop):
    write(shop, CASE.replace("REVENUE", "12.00"))
    assert "ok     revenue.yml: a deleted order is no revenue" in shop.run("test")
    assert not (shop.folder / "storage").exists()


def test_a_test_that_fails_shows_the_rows_and_exits_with_3(shop):
    write(shop, CASE.replace("REVENUE", "13"))
    done = shop.call("test")
    assert done.returncode == 3
    assert "FAILED revenue.yml: a deleted order is no revenue" in done.stdout
    assert "revenue: missing ('ann', Decimal('13.00')" in done.stdout
    assert "revenue: too much ('ann', Decimal('12.00')" in done.stdout
    assert "1 failed" in done.stdout


def test_expecting_no_rows_fails_if_there_is_one(shop):
    write(shop, "x: {given: {orders: [[1, ann, 2, null]]}, expect: {revenue: [], rich: []}}")
    done = shop.call("test")
    assert done.returncode == 3
    assert done.stdout.count("too much") == 1


def test_an_error_of_a_step_is_a_failure_with_its_message(shop):
    write(shop, "x: {given: {nowhere: [[1]]}, expect: {revenue: []}}")
    done = shop.call("test")
    assert done.returncode == 3
    assert "nowhere" in done.stdout


@pytest.mark.parametrize(
    "text",
    [
        "[1]", "x: {given: {}}", "x: {expext: {}}", "x: [", "", "x: " + "[" * 3000,
        "x: {expect: {v: []}}\nx: {expect: {v: [[1]]}}",
    ],
)  # fmt: skip
def test_what_is_no_test_is_refused(shop, text):
    """Of two tests with one name only the second was run."""
    write(shop, text)
    shop.fail("test")


@pytest.mark.parametrize(
    "case", ["given: {1: [[1]]}", "then: 5", "expect: {5: []}", "expect: {revenue: [{1: 1}]}"]
)
def test_a_test_that_is_written_wrongly_fails_with_a_message(shop, case):
    write(shop, f"x:\n  {case}\n" + ("" if "expect" in case else "  expect: {revenue: []}"))
    done = shop.call("test")
    assert done.returncode == 3
    assert "FAILED" in done.stdout


def test_a_project_without_tests_says_so(shop):
    assert "there are no tests" in shop.fail("test")
