"""`viewmill adopt target/manifest.json`: the models of a dbt project as views."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

import viewmill as vm
from viewmill.cli.dbt_manifest import read_manifest

pytestmark = pytest.mark.usefixtures("uncompiled")


def model(name, sql, *below, materialized="table", **more):
    return {
        f"model.shop.{name}": {
            "resource_type": "model", "name": name, "alias": name, "database": "db",
            "schema": "main", "relation_name": f'"db"."main"."{name}"', "language": "sql",
            "config": {"materialized": materialized}, "compiled_code": sql,
            "depends_on": {"nodes": list(below)}, **more,
        }
    }  # fmt: skip


def check(name, sql, *below):
    return {
        f"test.shop.{name}": {
            "resource_type": "test", "name": name, "config": {"materialized": "test"},
            "compiled_code": sql, "depends_on": {"nodes": list(below)},
        }
    }  # fmt: skip


@pytest.fixture
def manifest(project):
    """A project whose models stand in the wrong order."""
    (project.folder / "seeds").mkdir()
    (project.folder / "seeds" / "raw.csv").write_text(
        "id,customer,amount,day\n1,ann,10.5,2024-01-01\n2,bob,5,2024-01-02\n3,ann,,2024-02-01\n"
    )
    seed, source = "seed.shop.raw", "source.shop.crm.customers"
    nodes = {
        **model(
            "revenue",
            'select o.customer, date_trunc(\'month\', day) as m, sum(o.amount)::double as s '
            'from "db"."main"."stg" o group by 1, 2',
            "model.shop.stg",
        ),
        **model("stg", 'select * from "db"."main"."raw" where id > 0', seed, materialized="view"),
        **model("listed", 'select array_agg(customer) as l from "db"."main"."raw"', seed),
        **model("itself", 'select * from "db"."main"."itself"', materialized="incremental"),
        **model("python", "def model(): ...", language="python"),
        **model("joined", 'select raw.id, c.city from "db"."main"."raw" '
                'left join "db"."crm"."customers" c on c.name = raw.customer', seed, source),
        **check("amounts_are_there", 'select id from "db"."main"."raw" where amount is null', seed),
        **check("ids_are_unique",
                'select id from "db"."main"."raw" group by id having count(*) > 1', seed),
        seed: {
            "resource_type": "seed", "name": "raw", "alias": "raw", "database": "db",
            "schema": "main", "relation_name": '"db"."main"."raw"', "config": {},
            "original_file_path": "seeds/raw.csv", "depends_on": {},
        },
    }  # fmt: skip
    sources = {source: {
        "resource_type": "source", "name": "customers", "identifier": "customers", "database": "db",
        "schema": "crm", "relation_name": '"db"."crm"."customers"',
        "columns": {"name": {"name": "name", "data_type": "varchar"},
                    "city": {"name": "city", "data_type": "text"}},
    }}  # fmt: skip
    file = project.folder / "target" / "manifest.json"
    file.parent.mkdir()
    metadata = {"adapter_type": "duckdb", "project_name": "shop"}
    file.write_text(json.dumps({"metadata": metadata, "nodes": nodes, "sources": sources}))
    return file


def test_models_become_views_and_the_share_is_said(project, manifest):
    found = json.loads(project.run("adopt", str(manifest), "--mill", "shop.mill", "--json"))
    kept = {each["model"]: each["kept"] for each in found["models"]}
    assert kept == {
        "stg": "incrementally", "revenue": "incrementally", "joined": "incrementally",
        "listed": "again", "itself": "not understood", "python": "not understood",
    }  # fmt: skip
    why = {each["model"]: each["why"] for each in found["models"]}
    assert "collect_list" in why["listed"] or "array_agg" in why["listed"].lower()
    assert "full-refresh" in why["itself"]
    assert "python" in why["python"]
    assert found["incremental"] == 0.5
    assert {each["test"]: each["failures"] for each in found["tests"]} == {
        "amounts_are_there": 1, "ids_are_unique": 0
    }  # fmt: skip
    with vm.connect(project.folder / "shop.mill") as mill:
        mill.insert("raw", [(4, "ann", 1.0, "2024-01-31")])
        mill.insert("customers", [("ann", "Rome")])
        rows = {(customer, str(m)[:7]): s for customer, m, s in mill["revenue"].rows()}
        assert rows == {("ann", "2024-01"): 11.5, ("bob", "2024-01"): 5.0, ("ann", "2024-02"): None}
        assert (4, "Rome") in mill["joined"].rows()


def test_it_prints_for_people_and_writes_nothing_unless_told(project, manifest):
    said = project.run("adopt", str(manifest))
    assert "3 of 6 models are kept incrementally, 1 are computed again, 2 were not" in said
    assert not list(project.folder.glob("*.mill"))


@pytest.mark.parametrize("text", ["{", "[]", '{"nodes": {}}', '{"nodes": [], "metadata": {}}'])
def test_what_is_no_manifest_is_refused(project, text):
    (project.folder / "manifest.json").write_text(text)
    assert "manifest.json is no" in project.fail("adopt", "manifest.json")


def spoiled(manifest, change):
    """The manifest with a change."""
    found = json.loads(manifest.read_text())
    change(found)
    manifest.write_text(json.dumps(found))
    return str(manifest)


def test_a_manifest_runs_no_statements_and_reads_no_files_of_others(project, manifest):
    """A test that was no SELECT was run, and a type that was none became SQL as it was written."""

    def change(found):
        found["nodes"] |= check("drops", "DROP TABLE raw") | model("deletes", "DELETE FROM raw")
        names = found["sources"]["source.shop.crm.customers"]["columns"]
        names["city"]["data_type"] = "my_type) UNCHECKED --"

    done = json.loads(project.run("adopt", spoiled(manifest, change), "--json"))
    assert done["tables"][0]["rows"] == 3
    assert {each["test"]: each["not understood"] for each in done["tests"]}["drops"] == (
        "it is no SELECT"
    )
    assert {each["model"]: each["why"] for each in done["models"]}["deletes"] == "it is no SELECT"
    assert [each["not understood"] != "" for each in done["tables"]] == [False, True]

    def leave(found):
        found["nodes"]["seed.shop.raw"]["original_file_path"] = "seeds/../../other.csv"

    assert "is not in the project" in project.fail("adopt", spoiled(manifest, leave))


@pytest.mark.parametrize("wrong", [None, 5, [], "x", {"nodes": 5}])
@pytest.mark.parametrize("key", ["relation_name", "depends_on", "config", "columns"])
def test_a_manifest_that_dbt_did_not_write_is_an_error_with_its_name(project, manifest, key, wrong):
    def change(found):
        found["sources"]["source.shop.crm.customers"][key] = wrong

    path = Path(spoiled(manifest, change))
    with contextlib.suppress(vm.ViewmillError):
        read_manifest(path)
