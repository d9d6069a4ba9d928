"""Names keep the vocabulary, and the check can fail."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "tools" / "check_words.py"
spec = importlib.util.spec_from_file_location("check_words", FILE)
assert spec is not None
assert spec.loader is not None
check_words = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_words)


@pytest.mark.slow  # `make check` does it
def test_names_keep_the_vocabulary():
    assert check_words.complaints(check_words.SOURCE, check_words.PAGE.read_text()) == []


def test_a_word_we_do_not_say_is_found(tmp_path):
    package = tmp_path / "src" / "viewmill"
    package.mkdir(parents=True)
    (package / "changeset.py").write_text("class RowManager: pass\nclass Batch: pass\n")
    found = check_words.complaints(package, check_words.PAGE.read_text())
    assert len(found) == 2
    assert "'changeset' says 'changeset'; we say 'delta'" in found[0]
    assert "'RowManager' says 'manager'" in found[1]
