"""kill -9 between minutes of a stream: views in parts are what they would have been."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.recovery import parts_writer

import viewmill as vm


def kill_once(path: Path, chance: random.Random) -> int:
    source = str(Path(vm.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "VIEWMILL_COMPILER": "off"}
    child = subprocess.Popen(
        [sys.executable, parts_writer.__file__, str(path)], stdout=subprocess.PIPE, env=environment
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    said = [child.stdout.readline().decode() for _ in range(chance.randint(12, 22))]
    time.sleep(chance.uniform(0.0, 0.1))
    child.send_signal(signal.SIGKILL)
    said += child.stdout.read().decode().split("\n")[:-1]
    child.wait()
    child.stdout.close()
    return max((int(each) for each in said), default=0)


def history(mill: vm.Mill) -> dict[str, list[str]]:
    return {
        name: sorted(map(repr, mill.sql(f"SELECT *, PART_TIMESTAMP FROM {name}").rows()))
        for name in ("m", *parts_writer.VIEWS)
    }


def test_views_in_parts_survive_kills(tmp_path, uncompiled):
    chance, path, total = random.Random(1), tmp_path / "parts.mill", 0
    for _ in range(2):
        acknowledged = max(total, kill_once(path, chance))
        with vm.connect(path) as mill:
            total = parts_writer.written(mill)
            assert acknowledged <= total <= acknowledged + 1
            with vm.connect() as other:
                parts_writer.create(other)
                for i in range(total):
                    other.insert("m", parts_writer.rows(i))
                assert history(mill) == history(other)
            assert [mill[name].verify() for name in parts_writer.VIEWS] == [[]] * 4
    assert total > 20
