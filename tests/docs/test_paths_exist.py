"""What the docs name is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMED = r"`((?:src|tests|tools|docs|examples|\.ci)/[\w/.]*)`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_named_on_the_page_exists(page):
    named = re.findall(NAMED, page.read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_on_the_page_leads_somewhere(page):
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_make_target_named_in_the_docs_exists():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    named = {name for page in PAGES for name in re.findall(r"`?make ([a-z]+)`", page.read_text())}
    assert named - targets == set()


def test_the_index_leads_to_every_page():
    index = ROOT / "docs" / "index.md"
    linked = {
        (index.parent / link).resolve()
        for link in re.findall(r"\]\(([^)#:]+)\)", index.read_text())
    }
    pages = {page.resolve() for page in (ROOT / "docs").rglob("*.md")} - {index.resolve()}
    assert sorted(str(page.relative_to(ROOT)) for page in pages - linked) == []
