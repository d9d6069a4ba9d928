"""The pipeline's tests are about what is taken and shown, so their triggers run uncompiled."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _uncompiled(uncompiled: None) -> None:
    """Creating a view costs no compilation."""
