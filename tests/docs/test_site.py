"""The documentation site is built from the pages, and loads nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_site_has_every_page_and_loads_nothing_from_elsewhere(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in (ROOT / "docs").rglob("*.md"):
        built = tmp_path / page.relative_to(ROOT / "docs").with_suffix(".html")
        loaded = re.findall(r'<(?:script|img|link)[^>]*(?:src|href)="([^"]+)"', built.read_text())
        assert loaded
        assert [each for each in loaded if each.startswith(("http:", "https:", "//"))] == [], page
