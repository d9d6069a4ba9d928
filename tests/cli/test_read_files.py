"""Files are read strictly: what does not fit is an error that names the row."""

import gzip
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from viewmill.errors import InvalidRow
from viewmill.sources.read_files import read_file

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("price", pa.decimal128(12, 2)),
        ("name", pa.string()),
        ("at", pa.timestamp("us")),
        ("day", pa.date32()),
        ("open", pa.bool_()),
    ]
)
ROW = {
    "id": 1,
    "price": Decimal("10.50"),
    "name": 'ann "a", b',
    "at": datetime(2024, 1, 2, 3, 4, 5),
    "day": date(2024, 1, 2),
    "open": True,
}


def read(file, format, skip=0, batch_rows=1000):
    tables = read_file(file, format, SCHEMA, skip=skip, batch_rows=batch_rows)
    return [row for table in tables for row in table.to_pylist()]


def write(tmp_path, name, text):
    file = tmp_path / name
    file.write_text(text)
    return file


def test_csv_values_get_their_types(tmp_path):
    text = 'id,price,name,at,day,open\n1,10.5,"ann ""a"", b",2024-01-02 03:04:05,2024-01-02,true\n'
    assert read(write(tmp_path, "a.csv", text), "csv") == [ROW]


def test_json_values_get_their_types(tmp_path):
    text = (
        '{"id": 1, "price": 10.5, "name": "ann \\"a\\", b", "at": "2024-01-02T03:04:05", '
        '"day": "2024-01-02", "open": true}\n'
    )
    assert read(write(tmp_path, "a.json", text), "json") == [ROW]
    assert read(write(tmp_path, "b.json", f"[{text}]"), "json") == [ROW]


def test_parquet_values_stay_as_they_are(tmp_path):
    pq.write_table(pa.Table.from_pylist([ROW], SCHEMA), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", "parquet") == [ROW]


def test_an_empty_field_is_null_and_an_empty_string_is_not(tmp_path):
    rows = read(write(tmp_path, "a.csv", 'id,name\n1,\n2,""\n'), "csv")
    assert [row["name"] for row in rows] == [None, ""]


def test_times_with_a_zone_become_utc(tmp_path):
    text = "at\n2024-01-02T03:04:05Z\n2024-01-02 03:04:05\n2024-01-02 03:04:05+01:00\n"
    rows = read(write(tmp_path, "a.csv", text), "csv")
    assert [row["at"].hour for row in rows] == [3, 3, 2]


def test_compressed_files_are_read(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"id\n7\n"))
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"id": 7}\n'))
    assert read(tmp_path / "a.csv.gz", "csv") == [{"id": 7}]
    assert read(tmp_path / "a.json.gz", "json")[0]["id"] == 7


@pytest.mark.parametrize("text", ["", "id,name\n"])
def test_a_file_without_rows_gives_none(text, tmp_path):
    assert read(write(tmp_path, "a.csv", text), "csv") == []


def test_skipping_and_cutting_keep_the_order(tmp_path):
    file = write(tmp_path, "a.csv", "id\n" + "".join(f"{i}\n" for i in range(10)))
    tables = list(read_file(file, "csv", SCHEMA, skip=3, batch_rows=4))
    assert [table["id"].to_pylist() for table in tables] == [[3, 4, 5, 6], [7, 8, 9]]


MISTAKES = {
    "text for a number": ("a.csv", "id\n1\nx\n", "a.csv, row 2: id cannot be 'x'"),
    "a fraction for an integer": ("a.csv", "id\n1.5\n", "row 1: id cannot be '1.5'"),
    "too many digits": ("a.csv", "price\n1.005\n", "row 1: price cannot be '1.005'"),
    "a number that is too big": ("a.csv", "id\n99999999999999999999\n", "row 1: id cannot be"),
    "an unknown column": ("a.csv", "idd\n1\n", "has a column 'idd'"),
    "a ragged line": ("a.csv", "id,name\n1\n", "is not CSV"),
    "text for a number in JSON": ("a.json", '{"id": 1}\n{"id": "x"}\n', "row 2: id cannot be 'x'"),
    "a nested value": ("a.json", '{"id": [1]}\n', "row 1: id holds"),
    "no object": ("a.json", "7\n", "row 1: not a JSON object"),
    "no JSON": ("a.json", '{"id": 1}\n{"id"\n', "row 2: not JSON"),
    "no Parquet": ("a.parquet", "PAR1", "is not a Parquet file"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_names_its_place(mistake, tmp_path):
    name, text, message = MISTAKES[mistake]
    file = write(tmp_path, name, text)
    with pytest.raises(InvalidRow) as raised:
        read(file, file.suffix[1:])
    assert message in raised.value.message
