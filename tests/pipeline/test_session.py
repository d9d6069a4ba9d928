"""Where the driver of a session listens."""

from __future__ import annotations

import pytest

from viewmill.pipeline.session import executors_are_here


@pytest.mark.parametrize(
    ("master", "here"),
    [
        (None, True),
        ("local[2,4]", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077,localhost:7078", True),
        ("spark://10.0.0.5:7077", False),
        ("spark://localhost:7077,master2:7077", False),
        ("yarn", False),
        ("k8s://https://127.0.0.1:6443", False),
    ],
)
def test_driver_is_on_loopback_only_if_all_executors_are_here(master, here):
    assert executors_are_here(master) is here
