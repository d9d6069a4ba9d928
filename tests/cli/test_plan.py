"""`viewmill plan`: refresh cost against memory, before a view is created."""

import json

import pytest

REVENUE = (
    "CREATE MATERIALIZED VIEW wide AS SELECT o.customer, count(*) AS n FROM orders o "
    "JOIN orders p ON o.customer = p.customer GROUP BY o.customer"
)
BUDGETS = "0,1KB,1GB"


@pytest.fixture
def planned(shop):
    """A project that has run, and a view that nobody has created yet."""
    shop.run("run")
    shop.write("wide.sql", REVENUE)
    return shop


def points(out):
    return [each for each in json.loads(out) if each["selection"] == "dynamic"]


def test_more_memory_never_costs_more_and_no_memory_computes_again(planned):
    out = planned.run("plan", "wide.sql", "--memory", BUDGETS, "--expect", "orders=1%",
                      "--rows", "orders=1000000", "--json")  # fmt: skip
    found = points(out)
    assert [each["memory"] for each in found] == [0, 1000, 10**9]
    costs = [each["refresh_ms"] for each in found]
    assert costs == sorted(costs, reverse=True)
    assert (found[0]["mode"], found[0]["kept"]) == ("full", [])
    assert found[-1]["kept"]
    assert costs[-1] < costs[0]
    assert all(each["state_bytes"] <= each["memory"] for each in found)


def test_nothing_is_created_and_the_curve_can_be_drawn(planned):
    out = planned.run("plan", "wide.sql", "--memory", "64MB", "--plot", "curve.svg")
    assert "against recompute" in out
    assert "<svg" in (planned.folder / "curve.svg").read_text()
    assert "wide" not in planned.run("status")


def test_a_view_that_exists_can_be_planned(planned):
    assert points(planned.run("plan", "revenue", "--memory", "64MB", "--json"))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--memory", ","], "--memory names no budget"),
        (["--memory", "64 miles"], "miles"),
        (["--expect", "orders"], "is not table=rows"),
        (["--expect", "nothing=5"], "nothing"),
        (["--expect", "orders=-5"], "-5"),
        (["--rows", "orders=many"], "many"),
    ],
    ids=["no budget", "no size", "no rows", "no table", "negative", "no number"],
)
def test_wrong_arguments_are_named(arguments, problem, planned):
    assert problem in planned.fail("plan", "wide.sql", *arguments)


def test_a_file_that_is_not_there_is_named(planned):
    assert "nowhere.sql" in planned.fail("plan", "nowhere.sql")


def test_without_a_name_every_view_of_the_project_is_planned(planned):
    planned.write("views/late.sql", REVENUE.replace("wide", "late"))
    out = planned.run("plan", "--memory", "64MB,1GB", "--expect", "orders=1%", "--json")
    assert {each["view"] for each in points(out)} >= {"revenue", "late"}
    assert "view late" in planned.run("plan", "--memory", "64MB,256MB,1GB")
