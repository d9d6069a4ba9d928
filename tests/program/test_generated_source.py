"""Nothing that a user wrote is in generated Python, and nothing but triggers is run."""

from __future__ import annotations

import ast
import builtins
import io
import tokenize

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import viewmill as vm
from viewmill.codegen.source import Source
from viewmill.errors import RefusedCode
from viewmill.kernels import plain, structures
from viewmill.program.generated_source import (
    Names,
    check_source,
    comments,
    identifier,
    printable,
)

# Every character that some reader of lines takes for the end of one, and what looks like another.
BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
texts = st.text(
    st.one_of(st.characters(), st.sampled_from(BREAKS + "#'\"\\\0_ſs K٣²ªᵃ")), max_size=30
)


@given(texts)
@example("x\n    return 0\nimport os\n#")
@example("a\rimport os")
@example("\ud800")
def test_a_comment_is_nothing_but_comments(text: str) -> None:
    lines = comments(text)
    source = "\n".join([*lines, "def f():", *(f"    {line}" for line in lines), "    return 1", ""])
    assert len(source.splitlines()) == 2 * len(lines) + 2
    assert ast.dump(ast.parse(source)) == ast.dump(ast.parse("def f():\n    return 1\n"))
    kinds = {each.type for each in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline)}
    assert kinds <= {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER}


@given(st.lists(texts, max_size=20))
@example(["s", "ſ", "S", "s_2", "ſ", "K", "\u212a", "ª", "a", "٣", "x²", "__class__", "", "_"])
def test_each_name_is_an_identifier_of_its_own(wishes: list[str]) -> None:
    names = Names(["taken"])
    made = [names.new(each) for each in [*wishes, "taken"]]
    assert len(set(made)) == len(made)
    assert all(each.isascii() and each.isidentifier() for each in made)
    assert not any(each.startswith("_") or each == "taken" for each in made)
    ast.parse(f"def f({', '.join(made)}):\n    return 0\n")


def test_names_read_like_columns() -> None:
    assert [identifier(each) for each in ("price", "Net price", "o.id", "naïve")] == [
        "price", "net_price", "o_id", "na_ve",
    ]  # fmt: skip
    assert printable("a\tb é \u2028") == "a\\tb \\xe9 \\u2028"


def test_no_column_gets_a_name_that_the_library_has() -> None:
    source = Source()
    for name in {*structures.__all__, *plain.__all__, "abs", "min", "max", "range", "int", "float"}:
        assert source.name(name) != name


def test_a_line_is_one_line() -> None:
    with pytest.raises(RefusedCode):
        Source().line("x = 1\nimport os")


REFUSED = [
    "import os",
    "x = __import__('os')",
    "f()",
    "def f():\n    import os",
    "def f():\n    return __import__(1)",
    "def f():\n    return open(1)",
    "def f():\n    return getattr(1, 2)",
    "def f(x):\n    return x.size",
    "def f(x):\n    return x.__class__",
    "def f(x):\n    return x()",
    "def f(x):\n    return x[0](1)",
    "def f():\n    return 'text'",
    "def f():\n    return f'{1}'",
    "def f():\n    return lambda: 1",
    "def f():\n    return [1 for x in (1, 2)]",
    "def f():\n    global g",
    "def f(x=print(1)):\n    return 1",
    "def f(x: print(1)):\n    return 1",
    "def f() -> print(1):\n    return 1",
    "def f(*x):\n    return 1",
    "@print\ndef f():\n    return 1",
    "def f():\n    def g():\n        return 1",
    "def f():\n    keyed_touch = 1",
    "def f(abs):\n    return abs",
    "def f():\n    return unknown",
    "def f():\n    raise x",
    "def f():\n    try:\n        return 1\n    finally:\n        return 2",
    "def f():\n    return (yield)",
    "def f():\n    del x",
    "def f():\n    return (x := 1)",
    "def f():\n    return min(1, key=2)",
    "async def f():\n    return 1",
    "class C:\n    pass",
    "def f():\n    s = 1\n    \u017f = 2\n    return s",
    "def f():\r    return 1",
    "def f(",
    "N = abs(1)",
    "X.y = 1",
    "abs = 1",
    "range = 1",
]


@pytest.mark.parametrize("source", REFUSED)
def test_anything_else_is_refused(source: str) -> None:
    with pytest.raises(RefusedCode):
        check_source(source, ["keyed_touch"])


def test_builtins_are_known_one_by_one() -> None:
    known = {"abs", "bool", "float", "int", "len", "max", "min", "range"}
    for name in known:
        check_source(f"def f(x):\n    return {name}(x)", [])
    for name in set(dir(builtins)) - known:
        with pytest.raises(RefusedCode):
            check_source(f"def f(x):\n    return {name}(x)", [])


def test_triggers_are_taken() -> None:
    check_source(
        'N = 3\n\ndef g(x):\n    """What it is for."""\n    return -x\n\n\ndef f(x, y):\n'
        "    for i in range(N):\n        x += y[i] if y[i] > 0.5 else g(keyed_touch(x, (1, 2)))\n"
        "        if not x and True:\n            continue\n    return x\n",
        ["keyed_touch"],
    )


ODD_NAMES = [
    "s", "ſ", "S2", "2", "²", "ª", "a b", "٣", "'", '"', "`", "\\", "#", "if", "flush", "size",
    "multiplicity", "texts", "groups", "__class__", "é", "e\u0301", "keyed_touch", "\u212a",
]  # fmt: skip
QUERIES = [
    "SELECT {a} AS x, {b} AS y FROM r WHERE {a} > 0",
    "SELECT {a} AS x, sum({b}) AS y FROM r GROUP BY {a}",
    "SELECT r.{a} AS x, sum(q.{b}) AS y FROM r JOIN q ON r.{a} = q.{a} GROUP BY r.{a}",
    "SELECT {a} AS x, {b} AS y FROM r JOIN (SELECT {a} AS other FROM q) ON {a} = other",
    "SELECT {a} AS x, row_number() OVER (ORDER BY {a}) AS y FROM r",
    "SELECT {a} AS x, max({b}) AS y FROM r GROUP BY {a}",
]


@pytest.mark.parametrize("query", QUERIES)
def test_any_column_name_is_good(query: str, uncompiled: None) -> None:
    quoted = [f"`{name.replace('`', '``')}`" for name in ODD_NAMES]
    with vm.connect() as mill:
        for table in ("r", "q"):
            columns = ", ".join(f"{name} BIGINT" for name in quoted)
            mill.sql(f"CREATE TABLE {table} ({columns})")
        for i in range(0, len(quoted), 2):
            text = query.format(a=quoted[i], b=quoted[i + 1])
            mill.sql(f"CREATE MATERIALIZED VIEW v{i} AS {text}")
        for table in ("r", "q"):
            mill.insert(table, [tuple(range(1, len(quoted) + 1))])
        for i in range(0, len(quoted), 2):
            y = 1 if "row_number" in query else i + 2
            assert mill[f"v{i}"].rows() == [(i + 1, y)]


CODE = 'x\n    return 0\nprint(__import__("os"))\ndef zz():\n    #'
LITERALS = [
    "SELECT SUM(x) AS t FROM r WHERE (SELECT SUM(CASE WHEN q.c = '{0}' THEN q.x ELSE 0 END) "
    "FROM r q WHERE q.k <= r.k) > 3",
    "SELECT k, SUM(CASE WHEN c = '{0}' THEN x END) AS t FROM r GROUP BY k",
    "SELECT r.k, SUM(q.x) AS t FROM r JOIN r q ON r.k = q.k WHERE q.c <> '{0}' GROUP BY r.k",
    "SELECT k, c || '{0}' AS t FROM r WHERE c IN ('{0}', 'a')",
]


@pytest.mark.parametrize("query", LITERALS)
def test_no_literal_is_in_the_source(
    query: str, uncompiled: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE r (k INT, c STRING, x BIGINT)")
        for i, end in enumerate(BREAKS):
            literal = CODE.replace("\n", end)
            mill.sql(f"CREATE MATERIALIZED VIEW v{i} AS {query.format(literal)}")
        mill.insert("r", [(1, "a", 1)])
    assert "module" not in capsys.readouterr().out
