"""The window benches compare with oracles that are right themselves."""

import numpy as np
import pytest

from viewmill.bench.weave import EXPERIMENTS, Draw
from viewmill.bench.weave_run import deviation
from viewmill.bench.windows import EXPECTED, sensor_readings


@pytest.mark.parametrize("size", [1, 3, 7, 50])
def test_the_oracles_equal_folds(size):
    x = sensor_readings(1, 40)
    folds = [x[max(0, i + 1 - size) : i + 1] for i in range(len(x))]
    assert EXPECTED["sum"](x, size).tolist() == [each.sum() for each in folds]
    assert EXPECTED["max"](x, size).tolist() == [each.max() for each in folds]


def test_windows_are_drawn_as_in_the_paper():
    windows = Draw(queries=500, slide=1000, overlap=50).windows(1)
    assert set(windows.slides.tolist()) <= {d for d in range(1, 1001) if 1000 % d == 0}
    assert (windows.ranges % windows.slides == 0).all()
    assert (windows.ranges // windows.slides).max() <= 50
    skewed = [Draw(queries=500, skew=z).windows(1).slides.mean() for z in (-1, 0, 1)]
    assert skewed == sorted(skewed)
    assert [len(draws) for draws in EXPERIMENTS.values()] == [5] * 5


def test_the_deviation_of_proportional_figures_is_nothing():
    assert deviation(np.array([1.0, 2.0]), np.array([10.0, 20.0])) == 0
    assert deviation(np.array([1.0, 2.0]), np.array([20.0, 20.0])) == pytest.approx(0.25)
