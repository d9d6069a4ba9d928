"""Files that others wrote: a right row or a clear error, never a row swallowed or changed."""

import pyarrow as pa
import pytest

from viewmill.cli.yaml_reader import InvalidSpec, read_yaml
from viewmill.errors import InvalidRow
from viewmill.sources.read_files import read_file

SCHEMA = pa.schema(
    {
        "a": pa.int64(),
        "s": pa.string(),
        "d": pa.float64(),
        "f": pa.float32(),
        "t": pa.timestamp("us"),
    }
)

REFUSED = {
    "integer beyond 64 bits": ("json", '{"a": 1}\n{"a": 9223372036854775808}', "row 2"),
    "integer of 5000 digits": ("json", '{"a": 1' + "0" * 5000 + "}", "row 1"),
    "deep value": ("json", '{"a": ' + "[" * 100_000, "row 1: nested too deeply"),
    "deep file": ("json", "[" * 100_000, "nested too deeply"),
    "beyond DOUBLE": ("json", '{"d": 1e400}', "row 1"),
    "beyond FLOAT": ("json", '{"f": 1e39}', "row 1"),
    "a key twice": ("json", '{"a": 1}\n{"a": 1, "a": 2}', "row 2: a is there twice"),
    "a key twice in other case": ("json", '{"a": 1, "A": 2}', "a column twice"),
    "half of a character": ("json", '{"s": "x"}\n{"s": "\\ud800"}', "row 2: s"),
    "nanoseconds": ("json", '{"t": "2024-01-01 00:00:00.123456789"}', "row 1"),
    "open quote": ("csv", 'a,s\n1,x\n2,"y\n3,z\n4,w\n', "row 2: the quotes do not match"),
    "open quote at the end": ("csv", 'a,s\n1,x\n2,"', "row 2: the quotes do not match"),
    "open quote closed by another": ("csv", 'a,s\n1,"x\n2,y\n3,"z"\n', "row 1: the quotes"),
    "open quote in the header": ("csv", '"a,s\n1,x\n', "row 0: the quotes do not match"),
    "text after a quote": ("csv", 'a,s\n1,"x"y\n', "row 1: the quotes do not match"),
    "a column twice": ("csv", "a,a\n1,2\n", "a column twice"),
    "integer beyond 64 bits in CSV": ("csv", "a\n9223372036854775808\n", "row 1"),
    "UTF-16": ("csv", "a,s\n1,x\n".encode("utf-16"), "UTF-8"),
}


def rows(tmp_path, format, content):
    file = tmp_path / "{0} odd %s.txt"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    tables = read_file(file, format, SCHEMA, skip=0, batch_rows=1000)
    return [row for table in tables for row in table.to_pylist()]


@pytest.mark.parametrize("case", REFUSED)
def test_an_odd_file_is_refused_with_its_row(case, tmp_path):
    format, content, says = REFUSED[case]
    with pytest.raises(InvalidRow, match=says):
        rows(tmp_path, format, content)


TAKEN = {
    "quotes": ("csv", 'a,s\n1,"x\ny"\n2,"a""b"\n3,x"y\n', ["x\ny", 'a"b', 'x"y']),
    "byte order mark": ("json", '\ufeff{"s": "x"}', ["x"]),
    "blanks before an array": ("json", ' \n [{"s": "x"}]', ["x"]),
    "line breaks of Unicode": ("json", '{"s": "x\u2028y\x85"}', ["x\u2028y\x85"]),
    "NUL": ("json", '{"s": "x\\u0000"}', ["x\0"]),
}


@pytest.mark.parametrize("case", TAKEN)
def test_an_odd_file_is_read_as_it_is_written(case, tmp_path):
    format, content, kept = TAKEN[case]
    assert [row["s"] for row in rows(tmp_path, format, content)] == kept


@pytest.mark.parametrize(
    "text", ["[" * 50_000, "a: \x07\n", "".join(" " * i + "a:\n" for i in range(2000))]
)
def test_odd_yaml_is_refused(text, tmp_path):
    file = tmp_path / "viewmill.yml"
    file.write_text(text)
    with pytest.raises(InvalidSpec):
        read_yaml(file)
