"""Hold the names of modules and classes to the vocabulary.

takes  docs/vocabulary.md: the words we do not say, the class words we skip, the names allowed
gives  one line per name that uses a word we do not say; exit code 1 if there is any
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "vocabulary.md"
SOURCE = ROOT / "src" / "viewmill"

Words = tuple[str, ...]


def words_of(name: str) -> Words:
    """The words in a name, in lower case.

    >>> words_of("SparkBatchRuntime"), words_of("ring_buffers"), words_of("SQLRender")
    (('spark', 'batch', 'runtime'), ('ring', 'buffers'), ('sql', 'render'))
    """
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return tuple(part.lower() for part in parts)


def table_rows(section: str) -> Iterator[list[str]]:
    """The cells of every table row of a section, without its head."""
    lines = [line for line in section.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def unsaid_words(page: str) -> dict[Words, str]:
    """What we do not say, and the word we say instead.

    >>> unsaid_words("| a | b | c |\\n|---|---|---|\\n| **row** | a tuple | record, big event |")
    {('record',): 'row', ('big', 'event'): 'row'}
    """
    unsaid: dict[Words, str] = {}
    for said, _meaning, others in table_rows(page):
        for other in re.sub(r"\([^)]*\)", "", others).split(","):
            words = words_of(other)
            if words:
                unsaid[words] = said.replace("*", "")
    return unsaid


def read_page(page: str) -> tuple[dict[Words, str], set[Words]]:
    """The unsaid words with their better word, and the names that are allowed."""
    first, skipped, allowed = re.split(r"^## .*$", page, flags=re.MULTILINE)
    unsaid = unsaid_words(first)
    listed = skipped.split(":", 1)[1]
    unsaid.update({words_of(word): "a plain noun" for word in re.findall(r"\w+", listed)})
    return unsaid, {words_of(row[0]) for row in table_rows(allowed)}


def names(source: Path) -> Iterator[tuple[str, str]]:
    """Every module, package and class of the source, with where it stands."""
    for path in sorted(source.rglob("*.py")):
        where = str(path.relative_to(source.parent.parent))
        yield (path.parent.name if path.stem == "__init__" else path.stem), where
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield node.name, f"{where}:{node.lineno}"


def contains(name: Words, phrase: Words) -> bool:
    """Whether the words of `phrase` follow each other in `name`; a plural counts too."""
    size = len(phrase)
    windows = (name[i : i + size] for i in range(len(name) - size + 1))
    plural = (*phrase[:-1], phrase[-1] + "s")
    return any(window in (phrase, plural) for window in windows)


def complaints(source: Path, page: str) -> list[str]:
    """One line for every name that uses a word we do not say."""
    unsaid, allowed = read_page(page)
    found = []
    for name, where in names(source):
        words = words_of(name)
        for phrase, said in unsaid.items():
            excused = any(contains(words, ok) and contains(ok, phrase) for ok in allowed)
            if contains(words, phrase) and not excused:
                found.append(f"{where}: {name!r} says {' '.join(phrase)!r}; we say {said!r}")
    return found


def main() -> int:
    """Print the complaints."""
    found = complaints(SOURCE, PAGE.read_text())
    print("\n".join(found) if found else f"names in {SOURCE.relative_to(ROOT)} keep the vocabulary")
    if found:
        print("  hint: rename, or add the name with its reason to docs/vocabulary.md")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
