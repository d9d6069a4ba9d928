"""Write docs/reference/api.md from the docstrings of what users call.

takes  the public names below, and an example for each in tools/api_examples/NAME.py
gives  one page: a heading, signature and docstring per name, the example as a block that tests run

    python tools/api_reference.py            # writes the page
    python tools/api_reference.py --check    # exit code 1 if it is not what would be written
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import viewmill as vm
from viewmill.pipeline.query import PipelineQuery

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/reference/api.md"
EXAMPLES = Path(__file__).resolve().parent / "api_examples"
FUNCTIONS = ("connect", "factorize")
CLASSES: tuple[type, ...] = (
    vm.Mill, vm.View, vm.Result, vm.Change, vm.Difference, vm.Pipeline, PipelineQuery,
    vm.Ring, vm.Operation, vm.Function,
)  # fmt: skip
# Public for other rooms of the project, not for users.
_INTERNAL = {
    "Mill": {"commit_changes", "changing", "change", "require_no_batch", "core", "definition",
             "definitions", "memory_operators"},
    "View": {"mill", "query", "is_immediate", "with_low_parts", "mixed_moments", "batches"},
    "Change": {"dictionary"},
    "Pipeline": {"take", "is_noted", "ended", "mill", "recompute"},
    "PipelineQuery": {"begin"},
    "Ring": {"lifts", "times", "of_row", "total", "shown"},
    "Operation": {"has", "width", "fingerprint", "combined", "lifted", "lowered", "packed",
                  "total"},
    "Function": {"spark_kind", "spelled_type", "is_deterministic", "code", "takes"},
}  # fmt: skip
_QUOTED = re.compile(r"(: |-> )'([^']*)'")
_INTRO = """# API reference

What `import viewmill as vm` gives, from its docstrings, with examples. The page is written by
`python tools/api_reference.py`; a test compares it with the source.
"""


def page() -> str:
    """The whole page."""
    parts = [_INTRO, *(each for name in FUNCTIONS for each in _function(name))]
    for kind in CLASSES:
        parts += _class(kind)
    parts += _errors()
    return "\n".join(parts).rstrip() + "\n"


def _function(name: str) -> Iterator[str]:
    found = getattr(vm, name)
    yield f"## vm.{name}\n"
    yield _code(f"vm.{name}", found)
    yield _text(found)
    yield _example(name)


def _class(kind: type) -> Iterator[str]:
    yield f"## {kind.__name__}\n"
    yield _text(kind)
    yield _example(kind.__name__)
    for name, member in _members(kind):
        yield f"### {kind.__name__}.{name}\n"
        if isinstance(member, property):
            yield _text(member.fget)
        else:
            yield _code(name, member)
            yield _text(member)


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties, in the order of the source."""
    seen: dict[str, Any] = {}
    for each in reversed(kind.__mro__[:-1]):
        for name, member in vars(each).items():
            is_ours = callable(member) or isinstance(member, property | classmethod)
            hidden = _INTERNAL.get(kind.__name__, ())
            if is_ours and not name.startswith("_") and name not in hidden:
                seen[name] = member.__func__ if isinstance(member, classmethod) else member
    yield from ((name, each) for name, each in seen.items() if _documented(each))


def _documented(member: Any) -> bool:
    return bool(inspect.getdoc(member.fget if isinstance(member, property) else member))


def _code(name: str, function: Any) -> str:
    """The signature, one parameter to a line where it is long."""
    signature = inspect.signature(function)
    kept = [each for key, each in signature.parameters.items() if key not in ("self", "cls")]
    text = _QUOTED.sub(r"\1\2", f"{name}{signature.replace(parameters=kept)}")
    text = re.sub(r"<[\w.]+ object at 0x[0-9a-f]+>|<object object at 0x[0-9a-f]+>", "...", text)
    if len(text) > 100:
        inside = "".join(f"\n    {each}," for each in _separated(kept))
        arrow = text.rpartition(") -> ")
        text = f"{name}({inside}\n)" + (f" -> {arrow[2]}" if arrow[1] else "")
    return f"```text\n{text}\n```\n"


def _separated(parameters: list[inspect.Parameter]) -> Iterator[str]:
    is_named = False
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not is_named:
            is_named = True
            yield "*"
        yield _QUOTED.sub(r"\1\2", str(each))


def _text(documented: Any) -> str:
    return (inspect.getdoc(documented) or "").replace("<", "&lt;") + "\n"


def _example(name: str) -> str:
    path = EXAMPLES / f"{name.lower()}.py"
    if not path.exists():
        return ""
    return f"```python\n{path.read_text().strip()}\n```\n"


def _errors() -> Iterator[str]:
    yield "## Errors\n"
    yield "All are subclasses of `vm.ViewmillError`, with `message`, `detail`, `hint` and `span`.\n"
    yield "| error | when |\n|---|---|"
    for name, each in vars(vm.errors).items():
        if inspect.isclass(each) and issubclass(each, vm.ViewmillError) and each.__doc__:
            yield f"| `vm.errors.{name}` | {each.__doc__.splitlines()[0].replace('|', '/')} |"


def main() -> int:
    """Write the page, or say that it is old."""
    found = page()
    if "--check" not in sys.argv[1:]:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(found)
        return 0
    return int(not PAGE.exists() or PAGE.read_text() != found)


if __name__ == "__main__":
    sys.exit(main())
