"""Try what `make dist` built, as a stranger would: `python tools/check_dist.py dist`.

The wheel and the sdist are each installed into a new environment with nothing else. There the
README's program runs, the command answers, a console serves its page, and nothing of the
repository is needed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_IN_THE_WHEEL = (
    "viewmill/py.typed",
    "viewmill/console/static/index.html",
    "viewmill/console/static/main.js",
    "viewmill/console/static/style.css",
)

_CONSOLE = """
import re, urllib.parse, urllib.request
import viewmill as vm

with vm.connect() as mill:
    mill.sql("CREATE TABLE t (x BIGINT)")
    console = mill.console(port=0)
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    page = browser.open(console.url).read().decode()
    names = re.findall(r'(?:src|href)="([^"]+[.](?:js|css|svg))"', page)
    assert len(names) >= 3, page
    for name in names:
        assert browser.open(urllib.parse.urljoin(console.url, name)).read(), name
    console.stop()
"""


def main() -> None:
    """Try each file of a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.resolve()
    wheels, sdists = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    if len(wheels) != 1 or len(sdists) != 1:
        sys.exit(f"{folder} should hold one wheel and one sdist")
    check_files(wheels[0])
    for built in (wheels[0], sdists[0]):
        with tempfile.TemporaryDirectory() as place:
            try_installed(built, Path(place))
        print(f"{built.name}: installs alone, runs the README, serves the console")


def check_files(wheel: Path) -> None:
    """The wheel holds what is not Python, too, and nothing that does not belong to it."""
    names = set(zipfile.ZipFile(wheel).namelist())
    static = {
        f"viewmill/console/static/{each.name}"
        for each in (ROOT / "src/viewmill/console/static").iterdir()
    }
    if missing := sorted({*_IN_THE_WHEEL, *static} - names):
        sys.exit(f"{wheel.name} lacks {', '.join(missing)}")
    if strange := sorted(each for each in names if not each.startswith("viewmill")):
        sys.exit(f"{wheel.name} holds {', '.join(strange)}")


def try_installed(built: Path, place: Path) -> None:
    """Install one file into a new environment and use it from an empty folder."""
    venv.create(place / "env", with_pip=True)
    python = place / "env/bin/python"
    work = place / "work"
    work.mkdir()
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    run([*install, f"viewmill[console] @ {built.as_uri()}"], work)
    run([python, "-I", "-c", readme_program()], work)
    run([python, "-I", "-c", _CONSOLE], work)
    run([place / "env/bin/viewmill", "--help"], work)
    run([place / "env/bin/viewmill", "doctor"], work)


def readme_program() -> str:
    """The Python blocks of the README, one after another."""
    text = (ROOT / "README.md").read_text()
    return "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S))


def run(command: list[object], work: Path) -> None:
    """Run a command; its output is shown if it fails."""
    done = subprocess.run(
        [str(each) for each in command], cwd=work, capture_output=True, text=True, timeout=900
    )
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\nfailed: {' '.join(map(str, command))[:200]}")


if __name__ == "__main__":
    main()
