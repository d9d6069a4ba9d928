"""What the other commands print, and how mistakes look."""

import json

import pytest


def test_a_new_project_runs_at_once_and_is_right(project):
    assert "next: cd book && viewmill run" in project.run("init", "book")
    project.folder /= "book"
    project.run("dry-run", "viewmill.yml")
    assert not (project.folder / "storage").exists()
    assert "no.yml" in project.fail("run", "no.yml")
    out = project.run("run", "viewmill.yml")
    assert "broker_volume" in out
    assert (project.folder / "out/broker_volume.csv").read_text().count("\n") == 11
    assert project.run("verify").count("equal to recompute") == 3


def test_init_does_not_overwrite(shop):
    assert "already there" in shop.fail("init")


def test_explain_shows_the_strategy_before_and_after_running(shop):
    before = shop.run("explain", "revenue")
    shop.run("run")
    after = shop.run("explain", "revenue")
    assert "dataflow" in before
    assert "dataflow" in after
    assert "recompute" in after
    assert json.loads(shop.run("explain", "revenue", "--json"))


def test_explain_takes_a_file_without_a_project(project):
    project.write(
        "a.sql",
        "CREATE TABLE t (a INT);\nCREATE MATERIALIZED VIEW v AS SELECT any_value(a) AS m FROM t;\n",
    )
    assert "recompute" in project.run("explain", "a.sql")


def test_explain_takes_a_file_over_the_tables_of_the_project(shop):
    shop.write("new.sql", "CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM orders")
    assert "dataflow" in shop.run("explain", "new.sql")


@pytest.mark.parametrize(
    ("stage", "word"),
    [("algebra", "orders"), ("plan", "dataflow"), ("program", "revenue"), ("kernel", "def ")],
)
def test_show_prints_every_stage(stage, word, shop):
    assert word in shop.run("show", "revenue", "--stage", stage)


def test_show_refuses_an_unknown_stage_as_usage(shop):
    assert "'kernels'" in shop.fail("show", "revenue", "--stage", "kernels", code=2)


def test_status_lists_the_views(shop):
    assert "has not run yet" in shop.fail("status")
    shop.run("run")
    out = shop.run("status")
    assert "revenue" in out
    assert "fresh" in out
    assert json.loads(shop.run("status", "--json"))["revenue"]["rows"] == 2


def test_a_mill_can_be_named_instead_of_a_project(shop):
    shop.run("run")
    assert "revenue" in shop.run("status", "--mill", "storage/mill", "--spec", "nowhere.yml")
    assert "there is no mill" in shop.fail("status", "--mill", "nowhere")


def test_wrong_sql_is_underlined_with_its_file_and_line(shop):
    shop.write("views/bad.sql", "\nCREATE MATERIALIZED VIEW bad AS\nSELECT custmer FROM orders\n")
    complaint = shop.fail("dry-run")
    assert "views/bad.sql" in complaint
    assert "  3 | SELECT custmer FROM orders\n    |        ^^^^^^^" in complaint
    assert 'Did you mean "customer"?' in complaint


def test_an_unknown_view_is_answered_with_the_nearest(shop):
    complaint = shop.fail("explain", "revenu")
    assert 'Did you mean "revenue"?' in complaint


def test_an_unknown_key_of_the_spec_is_underlined(shop):
    spec = shop.folder / "viewmill.yml"
    spec.write_text(spec.read_text().replace("sinks:", "sink:"))
    complaint = shop.fail("run")
    assert "unknown key 'sink'" in complaint
    assert "^^^^" in complaint


def test_no_command_shows_help_and_the_version_is_told(project):
    bare = project.spawn()
    assert "demo" in bare.stdout + bare.stderr
    assert project.run("--version").startswith("viewmill 0.1")


def test_a_mistake_is_a_message_on_stderr_and_no_traceback(project):
    done = project.spawn("run")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: there is no spec file viewmill.yml")
    assert "Traceback" not in done.stderr


def test_the_demo_works_without_a_terminal_and_verifies_itself(project):
    out = project.run("demo", "--seconds", "0.5", "--depth", "500", "--batch", "50")
    assert out.count("equal") == 3
    assert "dataflow" in out
    assert "init mybook && " in out


@pytest.mark.spark
@pytest.mark.slow
def test_the_demo_on_spark_verifies_itself(project):
    done = project.spawn("demo", "--spark", "--seconds", "3", "--depth", "1000")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("equal") == 2
