"""A spec file is read strictly, and its mistakes are underlined."""

import pytest

from viewmill.cli.project import check
from viewmill.cli.spec import read_spec
from viewmill.cli.yaml_reader import InvalidSpec


def write(tmp_path, text):
    file = tmp_path / "viewmill.yml"
    file.write_text(text)
    return file


def test_everything_in_a_spec_is_read(tmp_path):
    spec = read_spec(
        write(
            tmp_path,
            """\
name: orderbook
storage: state/
runtime: in-process
sources:
  bids: {path: data/bids/*.csv, format: csv, schema: "t TIMESTAMP, id BIGINT", change: op,
         timestamp: t}
libraries:
  - glob: {include: "views/**/*.sql"}
sinks:
  vwap: {format: parquet, path: out/vwap, mode: changes}
""",
        )
    )
    assert (spec.name, spec.storage) == ("orderbook", tmp_path / "state")
    assert spec.libraries == ("views/**/*.sql",)
    (bids,) = spec.sources
    assert bids.create_statement() == (
        "CREATE TABLE bids (t TIMESTAMP, id BIGINT) UNCHECKED TIMESTAMP BY t"
    )
    (vwap,) = spec.sinks
    assert (vwap.path, vwap.mode) == (tmp_path / "out/vwap", "changes")


MISTAKES = {
    "an unknown key": ("name: a\nsorces: {}\n", "unknown key 'sorces'", 'Did you mean "sources"?'),
    "an unknown key inside": (
        "sources:\n  bids: {pth: x.csv}\n",
        "viewmill.yml:2: unknown key 'pth' in sources.bids",
        'Did you mean "path"?',
    ),
    "a missing key": ("sources:\n  bids: {format: csv}\n", "needs the key 'path'", ""),
    "a wrong word": (
        "sinks:\n  v: {path: out, format: parket}\n",
        "sinks.v.format cannot be 'parket'",
        'Did you mean "parquet"?',
    ),
    "a list for a mapping": ("sources: [a, b]\n", "sources must be a mapping", ""),
    "both kinds of change": (
        "sources:\n  a: {path: a.csv, change: op, multiplicity: m}\n",
        "both change and multiplicity",
        "",
    ),
    "a name that is none": ("sources:\n  a-b: {path: a.csv}\n", "'a-b' cannot name a table", ""),
    "a key twice": ("name: a\nname: b\n", "name is there twice", ""),
    "Spark's settings in process": ("spark: {master: local}\n", "belongs to runtime", ""),
    "a stream in process": ("sources:\n  a: {stream: {format: rate}}\n", "runtime: spark", ""),
    "a stream in files": (
        "runtime: spark\nsources:\n  a: {path: a.csv, stream: {format: rate}}\n",
        "a stream has no path",
        "",
    ),
    "a stream of nothing": (
        "runtime: spark\nsources:\n  a: {stream: {subscribe: a}}\n",
        "sources.a.stream needs the key 'format'",
        "",
    ),
    "a budget in no unit": ("memory: 1 XB\n", "unknown unit", "512 MB"),
    "no YAML": ("name: [a\n", "not YAML", ""),
    "nothing": ("", "is empty", "viewmill init"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(mistake, tmp_path):
    text, message, hint = MISTAKES[mistake]
    with pytest.raises(InvalidSpec) as raised:
        read_spec(write(tmp_path, text))
    assert message in raised.value.message
    assert hint in raised.value.hint


def test_a_mistake_is_underlined(tmp_path):
    with pytest.raises(InvalidSpec) as raised:
        read_spec(write(tmp_path, "name: a\nsorces: {}\n"))
    assert "  2 | sorces: {}\n    | ^^^^^^" in str(raised.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InvalidSpec, match="there is no spec file"):
        read_spec(tmp_path / "viewmill.yml")


def test_a_budget_and_policies_are_read(tmp_path):
    file = tmp_path / "viewmill.yml"
    file.write_text("memory: 64 MB\nrefresh: {v: [EVERY 10 ROWS, ON DEMAND], w: IMMEDIATE}\n")
    spec = read_spec(file)
    assert spec.memory == 64_000_000
    assert spec.refresh == {"v": ("EVERY 10 ROWS", "ON DEMAND"), "w": ("IMMEDIATE",)}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("sinks:\n  vwapp: {format: csv, path: out.csv}\n", ":6: sinks.vwapp: no view is called"),
        ("refresh:\n  vwapp: EVERY 9 ROWS\n", ":6: refresh.vwapp: no view is called"),
        ("refresh:\n  v: EVERY SO OFTEN\n", ':6: refresh.v: "SO" is no period'),
    ],
    ids=["sink", "refreshed", "period"],
)
def test_mistakes_that_need_the_views_name_entry_and_line(tmp_path, entry, message):
    (tmp_path / "v.sql").write_text("CREATE MATERIALIZED VIEW v AS SELECT sum(id) AS s FROM b")
    text = 'sources:\n  b: {path: b.csv, schema: "id BIGINT"}\nlibraries:\n'
    spec = read_spec(write(tmp_path, text + "  - glob: {include: v.sql}\n" + entry))
    with pytest.raises(InvalidSpec) as failure:
        check(spec)
    assert f"viewmill.yml{message}" in failure.value.message


@pytest.mark.parametrize("schema", ["id BIGINTT", "id INT, id INT"], ids=["type", "twice"])
def test_mistakes_in_a_schema_name_entry_and_line(tmp_path, schema):
    spec = read_spec(write(tmp_path, f'sources:\n  b: {{path: b.csv, schema: "{schema}"}}\n'))
    with pytest.raises(InvalidSpec, match=r"viewmill\.yml:2: sources\.b\.schema: "):
        check(spec)
