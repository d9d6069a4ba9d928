"""Hostile names and literals over every strategy: no code runs, no name is a path, rows are right.

What is right is computed here with Python's own lists. HOSTILE_TEXTS says how many texts are tried.
"""

from __future__ import annotations

import builtins
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import viewmill as vm

pytestmark = pytest.mark.usefixtures("uncompiled")

TEXTS = int(os.environ.get("HOSTILE_TEXTS", "36"))
AT_ONCE = 12

MARK = 'getattr(__import__("builtins"),"HOSTILE").append(1)'
ATOMS = [
    *"\n\r\t\v\f\b\a\x1c\x1d\x1e\x1f\x7f\x85\u2028\u2029\u200b\ufeff\u202e\u2066",
    *"'\"`\\;#%$&|<>(){}[]*?~!@^=+-/.,: _",
    "\r\n",
    "''",
    '""',
    '"""',
    "'''",
    "``",
    "\\\\",
    "\\n",
    "\\'",
    "\\u0027",
    "\\x27",
    "\\N{DIGIT ONE}",
    "--",
    "/*",
    "*/",
    "#{",
    "${x}",
    "$(x)",
    "{0}",
    "{x!r}",
    "{{",
    "%s",
    "%(x)s",
    "%2e%2e%2f",
    "../",
    "..\\",
    "/etc/passwd",
    "C:\\",
    "con",
    "NUL",
    "~root",
    "-rf",
    "*",
    "?",
    "\x1b[31m",
    "\x1b]0;x\x07",
    "s",
    "ſ",
    "K",
    "\u212a",
    "k",
    "é",
    "e\u0301",
    "ß",
    "ẞ",
    "ss",
    "ﬁ",
    "fi",
    "Å",
    "\u212b",
    "ª",
    "²",
    "٣",
    "𝐱",
    "ｘ",
    "İ",
    "i\u0307",
    "ı",
    "👩‍💻",
    "\U0010ffff",
    "\ufdd0",
    "漢",
    "א",
    "\u0300",
    "if",
    "None",
    "True",
    "lambda",
    "class",
    "__class__",
    "__import__",
    "self",
    "out",
    "errors",
    "texts",
    "multiplicity",
    "start",
    "size",
    "flush",
    "contents",
    "keyed_touch",
    "text",
    "e",
    "i",
    "m",
    "t",
    "select",
    "from",
    "where",
    "null",
    "true",
    "group",
    "order",
    "count(*)",
    "a.b",
    "new x",
    "_multiplicity",
    "<script>alert(1)</script>",
    "&amp;",
    "]]>",
    "<!--",
    "-->",
    "--\n",
    "; DROP TABLE t; --",
    "' OR '1'='1",
    "`; DROP TABLE t; --",
    '") or ("1"="1',
    "\n# HELP x y\n",
    "\n  - x: y\n",
    "!!python/object/apply:os.system",
    MARK,
    f"\n{MARK}\n",
    f"\n    {MARK}\n#",
    f"'+{MARK}+'",
    f'"""\n{MARK}\n"""',
    f"\\\n{MARK}",
    f"\r{MARK}\r",
    f"x\n    return 0\n{MARK}\ndef zz():\n    #",
    f"\u2028{MARK}",
    f"\x0c{MARK}",
    f"){{{MARK}}}(",
    "x" * 300,
    *"\u180e\u2060\u00a0\u3000\u1680\u2007\u00ad\ue000\U000e0001\u0345\u1fb3\u01c5\u2160",
    "$$",
    "$1",
    "\\1",
    "\\g<0>",
    "\\%",
    "\\_",
    "E'x'",
    "U&'\\0041'",
    "x'41'",
    "r'\\n'",
    'R"x"',
    "\\u{41}",
    "\\U00000041",
    "\\101",
    "?1",
    ":x",
    "/*+ x */",
    "{{x}}",
    "{%x%}",
    "<?x?>",
    "&#39;",
    "\n\n",
    " a",
    "a ",
    "a  b",
    "a\n-- b",
    "a\n/* b",
    "nan",
    "inf",
    "-0",
    "1e5",
    "0x1",
    "default",
    "current_date",
    "x.*",
    "row",
    "#1",
    "#t.k.0_0",
    "block_1",
    "v#1",
    "v~2",
    "#rows",
    "_step",
    "_change_type",
    "__index_level_0__",
]
# A string may hold NUL, a name may not.
VALUES = ["a\0b", "\0'", "\\\0"]


def hostile(seed: int) -> list[str]:
    """Texts that no two of are equal, whatever their case; some atoms alone, others together."""
    chance = random.Random(seed)
    texts = [each for each in ATOMS if seed == 0 or chance.random() < 0.1]
    while len(texts) < 2 * TEXTS + len(ATOMS):
        texts.append("".join(chance.choice(ATOMS) for _ in range(chance.randint(2, 5))))
    return list({each.lower().upper().lower(): each for each in texts}.values())


def name(text: str) -> str:
    """As Spark's SQL says a name."""
    return "`" + text.replace("`", "``") + "`"


def literal(text: str) -> str:
    """As Spark's SQL says a string."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def groups(n: int) -> Iterator[list[str]]:
    texts = hostile(0)
    random.Random(1).shuffle(texts)
    for start in range(0, n, AT_ONCE):
        found = texts[start : start + AT_ONCE]
        while len(found) < AT_ONCE:
            found.append(f"{start} {len(found)}")
        yield found


def run(texts: list[str], path: Path | None) -> None:
    """Tables, columns, views, aliases, literals and values that are these texts."""
    table, other, text, number, key, alias, *values = [*texts, *VALUES]
    rows = [(value, i, i % 3) for i, value in enumerate([*values, *values[:2]])]
    pairs = [(k, value) for k, value in enumerate([*values[:2], text])]
    wanted = values[0]
    t, o, c, n, k, a = map(name, (table, other, text, number, key, alias))
    queries = {
        "filter": f"SELECT {c} AS {a}, {n} FROM {t} WHERE {c} = {literal(wanted)} OR {n} = 1",
        "list": f"SELECT {n} AS {a} FROM {t} WHERE {c} IN ({literal(wanted)}, {literal(table)})",
        "group": f"SELECT {c} AS {a}, sum({n}) AS {n}, count(*) AS c FROM {t} GROUP BY {c}",
        "most": f"SELECT {k} AS {a}, max({n}) AS {n} FROM {t} GROUP BY {k}",
        "cases": f"SELECT {k} AS {a}, sum(CASE WHEN {c} = {literal(wanted)} THEN {n} END) AS s "
        f"FROM {t} GROUP BY {k}",
        "join": f"SELECT x.{n} AS {a}, y.{c} FROM {t} x JOIN {o} y ON x.{k} = y.{k}",
        "tree": f"SELECT y.{c} AS {a}, sum(x.{n}) AS s FROM {t} x JOIN {o} y ON x.{k} = y.{k} "
        f"WHERE x.{c} <> {literal(wanted)} GROUP BY y.{c}",
        "using": f"SELECT sum({t}.{n}) AS {a} FROM {t} JOIN {o} USING ({k})",
        "nested": f"SELECT sum({n}) AS {a} FROM {t} WHERE (SELECT sum(CASE WHEN q.{c} = "
        f"{literal(wanted)} THEN q.{n} ELSE 1 END) FROM {t} q WHERE q.{n} <= {t}.{n}) > 3",
        "rank": f"SELECT {n} AS {a}, row_number() OVER (PARTITION BY {k} ORDER BY {n}) AS r "
        f"FROM {t}",
        "added": f"SELECT concat({c}, {literal(wanted)}) AS {a} FROM {t}",
        "distinct": f"SELECT DISTINCT {c} AS {a} FROM {t}",
    }
    joined = [(v, i, w) for v, i, key_ in rows for key2, w in pairs if key2 == key_]
    upto = [sum(i if v == wanted else 1 for v, i, _ in rows[: at + 1]) for at in range(len(rows))]
    oracle: dict[str, list[tuple[Any, ...]]] = {
        "filter": [(v, i) for v, i, _ in rows if v == wanted or i == 1],
        "list": [(i,) for v, i, _ in rows if v in (wanted, table)],
        "group": [
            (v, sum(i for w, i, _ in rows if w == v), [w for w, _, _ in rows].count(v))
            for v in {v for v, _, _ in rows}
        ],
        "most": [(g, max(i for _, i, h in rows if h == g)) for g in {h for _, _, h in rows}],
        "cases": [
            (
                g,
                sum(found)
                if (found := [i for v, i, h in rows if h == g and v == wanted])
                else None,
            )
            for g in {h for _, _, h in rows}
        ],
        "join": [(i, w) for _, i, w in joined],
        "tree": [
            (w, sum(i for v, i, x in joined if x == w and v != wanted))
            for w in {w for v, _, w in joined if v != wanted}
        ],
        "using": [(sum(i for _, i, _ in joined),)],
        "nested": [(sum(i for (_, i, _), found in zip(rows, upto, strict=True) if found > 3),)],
        "rank": [(i, sum(h == g and j <= i for _, j, h in rows)) for _, i, g in rows],
        "added": [(v + wanted,) for v, _, _ in rows],
        "distinct": [(v,) for v in {v for v, _, _ in rows}],
    }
    mill = vm.connect(path)
    try:
        mill.sql(f"CREATE TABLE {t} ({c} STRING, {n} BIGINT, {k} BIGINT)")
        mill.sql(f"CREATE TABLE {o} ({k} BIGINT, {c} STRING)")
        views = {}
        for each, query in queries.items():
            for kind in ("", " STRATEGY recompute") if each in ("filter", "tree") else ("",):
                views[f"{alias} {each}{kind}"] = each
                mill.sql(
                    f"CREATE MATERIALIZED VIEW {name(f'{alias} {each}{kind}')}{kind} AS {query}"
                )
        mill.insert(table, rows[:-1])
        mill.insert(other, [{key: k, text: v} for k, v in pairs])
        last = ", ".join(literal(v) if isinstance(v, str) else str(v) for v in rows[-1])
        mill.sql(f"INSERT INTO {t} VALUES ({last})")
        check(mill, views, oracle)
        mill.sql(f"DELETE FROM {t} WHERE {c} = {literal(wanted)}")
        mill.insert(table, [row for row in rows if row[0] == wanted])
        check(mill, views, oracle)
        for each in views:
            str(mill[each].explain()), mill[each].explain("json")
            check_picture(mill[each].explain("svg"))
        if path is not None:
            mill.checkpoint()
            mill.close()
            mill = vm.connect(path)
            assert mill.broken() == {}
            check(mill, views, oracle)
    finally:
        mill.close()


def check(mill: vm.Mill, views: dict[str, str], oracle: dict[str, list[tuple[Any, ...]]]) -> None:
    for view, query in views.items():
        found = sorted(mill[view].rows(), key=repr)
        assert found == sorted(oracle[query], key=repr), f"{query}, {view!r}"


def check_picture(svg: str) -> None:
    """It is XML, and nothing in it is run."""
    for each in ElementTree.fromstring(svg).iter():
        assert each.tag.rpartition("}")[2] in ("svg", "rect", "text", "path", "title", "g", "line")
        assert not any(name.startswith("on") or name.endswith("href") for name in each.attrib)


@pytest.mark.parametrize("group", list(groups(TEXTS)), ids=range(-(-TEXTS // AT_ONCE)))
def test_hostile_text_is_text(group: list[str], tmp_path: Path) -> None:
    builtins.HOSTILE = []  # type: ignore[attr-defined]
    (tmp_path / "beside").mkdir()
    run(group, tmp_path / "m.mill")
    assert builtins.HOSTILE == []  # type: ignore[attr-defined]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["beside", "m.mill"]


@pytest.mark.parametrize("text", ["", "a\0b", "\0", "\ud800"])
def test_what_cannot_be_a_name_is_refused(text: str, mill: vm.Mill) -> None:
    mill.sql("CREATE TABLE t (x INT)")
    for statement in (
        f"CREATE TABLE {name(text)} (x INT)",
        f"CREATE TABLE u ({name(text)} INT)",
        f"CREATE MATERIALIZED VIEW {name(text)} AS SELECT x FROM t",
        f"CREATE MATERIALIZED VIEW v AS SELECT x AS {name(text)} FROM t",
        f"CREATE VIEW {name(text)} AS SELECT x FROM t",
    ):
        with pytest.raises(vm.ViewmillError):
            mill.sql(statement)
    assert (mill.tables(), mill.views()) == (["t"], [])
