"""Hypothesis profiles, the switch that rewrites golden outputs, and a mill to test with."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

import viewmill as vm

# Tests are about compiled kernels unless they say otherwise; tests/mill/test_tiers.py is about the
# way there.
os.environ.setdefault("VIEWMILL_COMPILER", "now")

_COMMON: dict[str, Any] = {
    "deadline": None,  # the machines are shared
    "suppress_health_check": list(HealthCheck),
    "print_blob": True,
    "report_multiple_bugs": False,
}
settings.register_profile("dev", max_examples=100, **_COMMON)
settings.register_profile("ci", max_examples=25, derandomize=True, **_COMMON)
settings.register_profile("fuzz", max_examples=3000, **_COMMON)
settings.register_profile(
    "quick_fuzz", max_examples=3000, phases=[Phase.explicit, Phase.generate], **_COMMON
)
settings.register_profile("debug", max_examples=10, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def scaled(share: float) -> int:
    """So many examples as the profile says, times `share`."""
    return max(5, int(settings.default.max_examples * share))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden outputs")
    parser.addoption("--update-long", action="store_true", help="rewrite tests/long_tests.txt")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    asked = bool(request.config.getoption("--update-golden"))
    return asked or os.environ.get("VIEWMILL_GOLDEN") == "update"


@pytest.fixture
def mill(request: pytest.FixtureRequest) -> Iterator[vm.Mill]:
    if "uncompiled" in request.fixturenames:
        request.getfixturevalue("uncompiled")  # a mill reads the setting when it is connected
    with vm.connect() as made:
        yield made


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark session for all tests: it takes ten seconds to start."""
    session = vm.spark.session("viewmill tests", master="local[2,4]")
    yield session
    session.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark's tests go to one worker (`--dist loadgroup`), so that one JVM is started."""
    long = set(LONG_TESTS.read_text().splitlines())
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
        if function_of(item.nodeid) in long:
            item.add_marker(pytest.mark.long)


# `make test-fast` leaves these tests out; `pytest --update-long` measures and rewrites the list.
LONG_TESTS = Path(__file__).with_name("long_tests.txt")
LONG_SECONDS = 0.7
_seconds: dict[str, float] = defaultdict(float)


def function_of(test: str) -> str:
    """The test function, without the parameters of one case."""
    return test.partition("[")[0]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[function_of(report.nodeid)] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    on_a_worker = hasattr(session.config, "workerinput")
    if on_a_worker or not session.config.getoption("--update-long"):
        return
    long = [test for test, seconds in _seconds.items() if seconds > LONG_SECONDS]
    # The golden scripts are long, but cover every strategy.
    kept = [test for test in long if not test.startswith(("tests/golden/", "src/"))]
    LONG_TESTS.write_text("".join(f"{test}\n" for test in sorted(kept)))


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triggers run as plain Python, so that creating a view costs no compilation."""
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
