"""The bench of a regression on categories finds what NumPy finds."""

from viewmill.bench.categories import categories


def test_the_bench_of_categories_is_verified(uncompiled):
    report = categories(seed=3, quick=True, say=lambda text: None)
    assert report.verified
    assert report.value("viewmill", "p50_ms", rows=2_000) > 0
