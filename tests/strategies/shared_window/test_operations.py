"""Operations of users in window SQL."""

import datetime as dt
import random

import pytest

import viewmill as vm

START = dt.datetime(2024, 1, 1)
TABLE = "CREATE TABLE s (ts TIMESTAMP, k BIGINT, x BIGINT, d DOUBLE)"
BITS = vm.Operation(combine=lambda a, b: a | b, identity=0, commutative=True)
MEAN = vm.Operation(
    combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
    identity=(0.0, 0),
    lift=lambda x: (float(x), 1),
    lower=lambda v: v[0] / v[1],
    commutes=True,
)
# x -> a x + b, one after the other: order matters.
COMPOSED = vm.Operation(
    combine=lambda a, b: ((a[0] * b[0]) % 97, (a[1] * b[0] + b[1]) % 97),
    identity=(1, 0),
    lift=lambda x: (x % 97, (x * x + 1) % 97),
    lower=lambda v: v[0] * 1000 + v[1],
)


def composed(xs):
    a, b = 1, 0
    for x in xs:
        a, b = (a * (x % 97)) % 97, (b * (x % 97) + x * x + 1) % 97
    return a * 1000 + b


@pytest.mark.parametrize("compiler", ["off", "on"])
def test_operations_are_combined_in_the_order_of_time(compiler, monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", compiler)
    chance = random.Random(3)
    with vm.connect() as mill:
        mill.sql(f"{TABLE} TIMESTAMP BY ts LATENESS INTERVAL '100' SECONDS")
        for name, operation in {"bits": BITS, "mid": MEAN, "composed": COMPOSED}.items():
            mill.register(name, operation)
        mill.sql(
            "CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS"
            " SELECT k, bits(x) AS b, mid(d) AS m, Composed(x) AS c"
            " FROM s [WINDOW 20 SECONDS SLIDE 5 SECONDS] GROUP BY k"
        )
        held = []
        for step in range(8):
            moments = [step * 40 + 100 + chance.randint(-60, 40) for _ in range(20)]
            rows = [
                (START + dt.timedelta(seconds=s), chance.randrange(3), chance.randrange(100), 1.5)
                for s in moments
            ]
            mill.insert("s", rows)
            held += rows
            gone = held.pop(chance.randrange(len(held)))
            mill.delete("s", [gone])
            assert mill["v"].verify() == []
        newest = max(row[0] for row in (*held, gone))
        past = (newest - START).total_seconds() - 100
        end = START + dt.timedelta(seconds=past // 5 * 5)
        seen = [r for r in held if end - dt.timedelta(seconds=20) <= r[0] < end]
        for k, b, m, c in mill["v"].rows():
            own = [r[2] for r in sorted(seen, key=lambda r: r[0]) if r[1] == k]
            bits = 0
            for x in own:
                bits |= x
            assert (b, m, c) == (bits, 1.5, composed(own))
        assert "flatfat" in mill["v"].explain()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"combine": lambda a, b: (a + b) / 2, "identity": 0}, "not associative"),
        ({"combine": lambda a, b: a - b, "identity": 0}, "not associative"),
        ({"combine": lambda a, b: a + b, "identity": 1}, "identity"),
        ({"combine": lambda a, b: a + b, "identity": 0, "selective": True}, "not selective"),
        ({"combine": lambda a, b: b, "identity": 0}, "identity"),
        ({"combine": max, "identity": float("-inf"), "inverse": min}, "does not undo"),
        ({"combine": lambda a, b: a + b, "identity": (0, 0)}, "shapes"),
        ({"combine": 3, "identity": 0}, "function"),
    ],
    ids=["mean", "minus", "one", "choosing", "right", "max", "shape", "number"],
)
def test_an_operation_that_is_not_what_it_says_is_refused(wrong, why):
    with pytest.raises(vm.ViewmillError, match=why):
        vm.Operation(**wrong)


def test_operations_survive_a_restart_and_are_computed_again_without_a_window(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    path = tmp_path / "m.mill"
    with vm.connect(path, register={"bits": BITS}) as mill:
        mill.sql(f"{TABLE} TIMESTAMP BY ts")
        window = "[WINDOW 3 SECONDS SLIDE 1 SECOND]"
        mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT bits(x) AS b FROM s {window}")
        mill.sql("CREATE MATERIALIZED VIEW r AS SELECT k, bits(x) AS b FROM s GROUP BY k")
        mill.insert("s", [(START + dt.timedelta(seconds=i), 1, 1 << i, 0.0) for i in range(6)])
        assert mill["v"].rows() == [(0b11100,)]
        assert (mill["r"].status()["strategy"], mill["r"].rows()) == ("recompute", [(1, 63)])
        with pytest.raises(vm.ViewmillError, match="cannot be maintained"):
            mill.sql(
                "CREATE MATERIALIZED VIEW w REFRESH POLICY INCREMENTAL STRICT AS"
                " SELECT bits(x) AS b FROM s"
            )
    with vm.connect(path, register={"bits": BITS}) as mill:
        assert mill["v"].rows() == [(0b11100,)]
        assert mill["v"].verify() == []
