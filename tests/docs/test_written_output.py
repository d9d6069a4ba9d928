"""Pages that show output show the output that their blocks have."""

from pathlib import Path

import pytest

from .written_output import BLOCK, written_anew

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("tour.md", "reference/sql.md")


@pytest.mark.parametrize("name", PAGES)
def test_the_output_on_the_page_is_what_its_blocks_print(name, uncompiled, update_golden):
    page = ROOT / "docs" / name
    found = written_anew(page)
    if update_golden:
        page.write_text(found)
    assert found == page.read_text(), "pytest --update-golden writes it anew; read the diff"


@pytest.mark.parametrize("name", PAGES)
def test_the_page_shows_output(name):
    shown = [each["output"] for each in BLOCK.finditer((ROOT / "docs" / name).read_text())]
    assert sum(bool(each) for each in shown) > 5
