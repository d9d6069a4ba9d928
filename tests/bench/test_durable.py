import pytest

from viewmill.bench.durable import Rows, Sqlite, durable, is_same


def test_a_wrong_group_is_not_called_verified(tmp_path):
    rows, sqlite = Rows(1), Sqlite(tmp_path / "sqlite.db", ", PRIMARY KEY (id)")
    for batch in [*rows.batches(1, 3), *rows.batches(50, 2)]:
        sqlite.insert(batch)
    groups, expected = sqlite.groups(), rows.groups()
    sqlite.close()
    assert is_same(groups, expected)
    assert not is_same(groups[1:], expected)
    key, orders, total, weight = groups[0]
    assert not is_same([(key, orders, total + 1, weight), *groups[1:]], expected)
    assert not is_same([(key, orders, total, weight * 1.001), *groups[1:]], expected)


@pytest.mark.slow
def test_both_systems_are_measured_and_verified():
    found = durable(seed=1, quick=True, say=lambda text: None).to_json()
    assert found["verified"] is True
    measured = {
        (each["system"], each["metric"], each["workload"]["batch"], each["workload"]["table"])
        for each in found["results"]
    }
    for system in ("viewmill", "sqlite"):
        for metric in ("us_per_update", "commits_per_s", "rows_per_s"):
            assert (system, metric, 1, "keyed") in measured
            assert (system, metric, 1000, "unchecked") in measured
