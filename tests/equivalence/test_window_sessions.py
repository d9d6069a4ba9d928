"""Short random sessions over windows and time parts; `window_sessions.py` runs long ones."""

import pytest
from tests.equivalence.window_sessions import run


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_session_equals_brute_force(monkeypatch, seed, durable):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    run(seed, 14, durable=durable)
