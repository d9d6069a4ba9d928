"""The bench of parts prints every system, and says that the result is right."""

import json
import subprocess
import sys


def test_the_json_has_pattern_and_window_with_their_baselines():
    command = [sys.executable, "-m", "viewmill.cli.main", "bench", "parts", "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["verified"] is True
    systems = {(each["system"], each["workload"]["view"]) for each in found["results"]}
    assert {("viewmill", "pattern"), ("naive", "pattern"), ("hard_coded", "pattern")} <= systems
    assert {("viewmill", "window"), ("naive", "window"), ("hard_coded", "window")} <= systems
    assert {("initialize_update", "window"), ("viewmill", "late")} <= systems
    assert ("initialize_update_helper_parts", "window") in systems
