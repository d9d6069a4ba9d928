"""Linear regression over cofactor views, against numpy on the joined rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import viewmill as vm
from viewmill.errors import InvalidArgument, UnknownName

JOINED = "FROM r JOIN s ON r.k = s.k"


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")


@pytest.fixture
def mill() -> Any:
    with vm.connect() as made:
        made.sql("CREATE TABLE r (k INT, x DOUBLE, y DOUBLE)")
        made.sql("CREATE TABLE s (k INT, z DOUBLE, colour STRING)")
        made.sql(f"CREATE MATERIALIZED VIEW v AS SELECT cofactor(y, x, z) AS c {JOINED}")
        made.sql(
            "CREATE MATERIALIZED VIEW by_colour AS "
            f"SELECT colour, cofactor(y, x, z) AS c {JOINED} GROUP BY colour"
        )
        yield made


def fill(mill: Any, seed: int, count: int = 30) -> None:
    random = np.random.default_rng(seed)
    colours = ["red", "green", "blue"]
    x = random.normal(20_000, 300, count)
    r = [(int(random.integers(5)), float(a), float(2 * a + random.normal())) for a in x]
    s = [(int(random.integers(5)), float(random.normal()), colours[i % 3]) for i in range(count)]
    mill.insert("r", r)
    mill.insert("s", s)


def design(mill: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], list[str]]:
    rows = mill.sql(f"SELECT x, z, y, colour {JOINED}").rows()
    return (
        np.array([row[:2] for row in rows]),
        np.array([row[2] for row in rows]),
        [row[3] for row in rows],
    )


def expected(x: Any, y: Any, l2: float = 0.0) -> Any:
    """Intercept and coefficients; the intercept is not penalized."""
    centred, target = x - x.mean(axis=0), y - y.mean()
    matrix = centred.T @ centred + l2 * np.eye(x.shape[1])
    theta = np.linalg.lstsq(matrix, centred.T @ target, rcond=None)[0]
    return [y.mean() - x.mean(axis=0) @ theta, *theta]


@pytest.mark.parametrize("method", ["exact", "gradient"])
@pytest.mark.parametrize("l2", [0.0, 25.0])
def test_the_model_is_that_of_the_joined_rows(mill: Any, method: Any, l2: float) -> None:
    fill(mill, 1)
    model = vm.models.LinearRegression(mill["v"], "y", ["x", "z"], l2=l2, method=method)
    x, y, _ = design(mill)
    wanted = expected(x, y, l2)
    assert [model.intercept, *model.coefficients.values()] == pytest.approx(wanted, rel=1e-6)
    assert list(model.coefficients) == ["x", "z"]
    assert model.n == len(y)
    shown = x @ np.array(wanted[1:]) + wanted[0]
    assert model.predict([tuple(row) for row in x]) == pytest.approx(shown, rel=1e-9)
    assert model.predict([{"Z": row[1], "X": row[0]} for row in x]) == pytest.approx(shown)


def test_refresh_goes_on_from_the_last_parameters(mill: Any) -> None:
    fill(mill, 1, 100)
    model = vm.models.LinearRegression(mill["v"], "y", ["x", "z"], method="gradient")
    first = model.steps
    mill.insert("r", [(1, 20_100.0, 40_200.5)])
    before = dict(model.coefficients)
    assert model.coefficients == before  # until it is asked
    model.refresh()
    x, y, _ = design(mill)
    assert [*model.coefficients.values()] == pytest.approx(expected(x, y)[1:], rel=1e-6)
    assert model.steps < first


def test_a_key_of_the_view_is_a_categorical_feature(mill: Any) -> None:
    fill(mill, 2)
    for method in ("exact", "gradient"):
        model = vm.models.LinearRegression(mill["by_colour"], "y", ["x", "colour"], method=method)
        x, y, colours = design(mill)
        values = sorted(set(colours))
        hot = np.array([[float(each == value) for value in values] for each in colours])
        wide = np.column_stack((x[:, 0], hot))
        wanted = expected(wide, y)
        assert set(model.coefficients["colour"]) == set(values)
        # One-hot columns are collinear: what is determined is the prediction.
        rows = [(a, c) for a, c in zip(x[:, 0], colours, strict=True)]
        shown = wide @ np.array(wanted[1:]) + wanted[0]
        assert model.predict(rows) == pytest.approx(shown, rel=1e-8)


def test_a_model_of_one_group(mill: Any) -> None:
    fill(mill, 3)
    model = vm.models.LinearRegression(mill["by_colour"], "y", ["x", "z"], groups={"colour": "red"})
    x, y, colours = design(mill)
    red = [i for i, each in enumerate(colours) if each == "red"]
    assert [*model.coefficients.values()] == pytest.approx(expected(x[red], y[red])[1:], rel=1e-6)


def test_an_empty_view_has_no_model_yet(mill: Any) -> None:
    model = vm.models.LinearRegression(mill["v"], "y", ["x", "z"])
    assert np.isnan(model.intercept)
    fill(mill, 1)
    model.refresh()
    x, y, _ = design(mill)
    assert model.intercept == pytest.approx(expected(x, y)[0], rel=1e-6)


def test_wrong_arguments_are_said_kindly(mill: Any) -> None:
    fill(mill, 1)
    with pytest.raises(UnknownName, match="xx"):
        vm.models.LinearRegression(mill["v"], "y", ["xx"])
    with pytest.raises(InvalidArgument, match="neither"):
        vm.models.LinearRegression(mill["v"], "y", ["x"], method="magic")
    with pytest.raises(InvalidArgument, match="label"):
        vm.models.LinearRegression(mill["v"], "y", ["x", "y"])
    with pytest.raises(InvalidArgument, match="l2"):
        vm.models.LinearRegression(mill["v"], "y", ["x"], l2=-1.0)
    mill.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM r")
    with pytest.raises(InvalidArgument, match="moments"):
        vm.models.LinearRegression(mill["n"], "y", ["x"])
