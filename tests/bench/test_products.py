"""The benches of products and factorized results check themselves."""

from __future__ import annotations

import pytest

from viewmill.bench.factorized import factorized
from viewmill.bench.matrix import matrix
from viewmill.bench.report import Report


@pytest.mark.slow
def test_matrix_is_verified_against_numpy() -> None:
    report: Report = matrix(seed=1, quick=True, say=print, sizes=(8, 16))
    assert report.verified
    assert {each.workload["result"] for each in report.results} == {"keyed", "dense"}


@pytest.mark.slow
def test_factorized_is_smaller_than_listed() -> None:
    report = factorized(seed=1, quick=True, say=print, sizes=(4,))
    assert report.verified
    assert report.value("viewmill", "smaller", scale=4, against="listed_keys") > 1
