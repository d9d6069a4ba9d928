"""A value inside JSON text by its path, as Spark's get_json_object finds and writes it.

Spark reads the text with Jackson, which takes single quotes and raw control characters, and only
as far as the first value goes; what is nested too deeply is no JSON.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, NoReturn

from viewmill.deltas.float_text import float_text

EACH = -1  # the step [*]; others are names and indexes
Steps = tuple[str | int, ...]
_STEP = re.compile(r"\.\s*([^.\[\s][^.\[]*)|\['\s*([^']+)'\]|\[\s*(\d+)\]|\[(\*)\]")
_STRINGS = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL)
_QUOTES = re.compile(r'\\(.)|"', re.DOTALL)
_ESCAPED = re.compile('[\x00-\x1f"\\\\\ud800-\udfff\U00010000-\U0010ffff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f",
          "\r": "\\r"}  # fmt: skip


def get_json_object(text: str, path: str) -> str | None:
    """The value at a path like $.a.b[0]; None where there is none, or the text is no JSON."""
    steps = _steps(path)
    if steps is None:
        return None
    try:
        found, matched = _find(_read(text), steps, "raw")
    except (ValueError, RecursionError):
        return None
    return ",".join(found) if matched else None


class _Object(list[tuple[str, Any]]):
    """The pairs of a JSON object, of which several may have one name."""


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_Object, parse_constant=_refuse)


def _read(text: str) -> Any:
    """Parse the first JSON value of the text; trailing text is ignored."""
    text = text.lstrip(" \t\n\r")
    if "'" in text:
        text = _STRINGS.sub(_in_double_quotes, text)
    value, end = _DECODER.raw_decode(text)
    if not isinstance(value, str | list) and text[end : end + 1] not in ("", *" \t\n\r"):
        raise ValueError("a number or word goes on")
    return value


def _in_double_quotes(found: re.Match[str]) -> str:
    def escaped(letter: re.Match[str]) -> str:
        return '\\"' if letter[0] == '"' else "'" if letter[1] == "'" else letter[0]

    return f'"{_QUOTES.sub(escaped, found[0][1:-1])}"'


@lru_cache(1000)
def _steps(path: str) -> Steps | None:
    """The names and indexes of a path; None if it is none, or finds nothing, as with `.*`."""
    if not path.startswith("$"):
        return None
    steps, at = list[str | int](), 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None or found[0] in (".*", "['*']"):
            return None
        name, quoted, index, _ = found.groups()
        steps.append(int(index) if index else name or quoted or EACH)
        at = found.end()
    return tuple(steps)


# What is found, and whether anything was: texts that stand in an array with commas in between.
# The styles are Spark's: "raw" is outside of arrays, "flat" leaves inner arrays out.
_Found = tuple[list[str], bool]


def _find(value: Any, steps: Steps, style: str) -> _Found:
    if not steps:
        return _whole(value, style)
    step, rest = steps[0], steps[1:]
    if isinstance(step, str):
        return _named(value, step, rest, style) if isinstance(value, _Object) else ([], False)
    if isinstance(value, _Object) or not isinstance(value, list):
        return [], False
    if step != EACH:
        inner = "quoted" if rest[:1] == (EACH,) else style
        return _find(value[step], rest, inner) if step < len(value) else ([], False)
    return _each(value, rest, style)


def _whole(value: Any, style: str) -> _Found:
    if style == "flat" and isinstance(value, list) and not isinstance(value, _Object):
        return _all(value, (), "flat")[:2]
    if style == "raw" and isinstance(value, str):
        return [_plain(value)], True
    return [_written(value)], True


def _named(value: _Object, name: str, rest: Steps, style: str) -> _Found:
    """Try every value under a duplicated name; the first one with a match wins."""
    for key, inside in value:
        if key == name and inside is not None:
            found = _find(inside, rest, style)
            if found[1]:
                return found
    return [], False


def _each(value: list[Any], rest: Steps, style: str) -> _Found:
    if rest[:1] == (EACH,):
        found, matched, _ = _all(value, rest[1:], "flat")
        return [_listed(found)], matched
    inner = "flat" if style == "flat" else "quoted"
    found, matched, times = _all(value, rest, inner)
    if style == "quoted" or times > 1:
        return [_listed(found)], matched
    return (found, matched) if matched else ([], False)


def _all(value: list[Any], rest: Steps, style: str) -> tuple[list[str], bool, int]:
    texts, times = list[str](), 0
    for each in value:
        found, matched = _find(each, rest, style)
        texts += found
        times += matched
    return texts, times > 0, times


# Writing.


def _plain(text: str) -> str:
    """A string without quotes; half of a character is an error."""
    text.encode()
    return text


def _listed(texts: list[str]) -> str:
    return f"[{','.join(texts)}]"


def _written(value: Any) -> str:
    match value:
        case str():
            return _quoted(value)
        case _Object():
            return "{" + ",".join(f"{_quoted(k)}:{_written(v)}" for k, v in value) + "}"
        case list():
            return _listed([_written(each) for each in value])
        case bool() | None:
            return {True: "true", False: "false", None: "null"}[value]
        case float():
            text = float_text(value)
            return f'"{text}"' if text.endswith("y") else text
        case _:
            return str(value)


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    """Escape as Jackson does: characters beyond the BMP become two UTF-16 escapes."""
    letter = found[0]
    if letter in _SHORT:
        return _SHORT[letter]
    units = letter.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
