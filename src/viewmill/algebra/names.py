"""Names of tables, views and columns: which can be one, how SQL says it, which folder it has."""

from __future__ import annotations

import re
from hashlib import blake2b
from urllib.parse import quote

from viewmill.errors import InvalidArgument, Span

# Controls but tab and line feed, what turns the direction of writing, what XML does not take.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_FIELD = re.compile(r"(?:`(?:[^`]|``)*`|[^<>,:()\s`]+)(?=\s*:)")
_TYPE_TOKEN = re.compile(r"`(?:[^`]|``)*`|[<>,:()]|[^<>,:()\s`]+")
_PLAIN_FIELD = re.compile(r"[A-Za-z0-9_]+")
_MOST_BYTES = 160  # of a folder's name; file systems take 255


def check_name(name: str, what: str, span: Span | None = None) -> None:
    """Refuse what cannot be a name: nothing, and text that no file or engine can hold."""
    if not name:
        why = "it is empty"
    elif "\0" in name:
        why = "it holds a NUL character"
    elif any("\ud800" <= each <= "\udfff" for each in name):
        why = "it holds half a character (a lone surrogate)"
    else:
        return
    raise InvalidArgument(f"{name!r} cannot name {what}: {why}", span=span)


def quoted(name: str) -> str:
    """A name as our SQL and Spark's say it, whatever is in it.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def unquoted(name: str) -> str:
    """The name that `quoted` wrote; one without quotes as it is."""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def quoted_fields(type_name: str) -> str:
    """A type in Spark's spelling with all fields of its structs quoted: a parser takes some names
    for keywords.

    >>> quoted_fields("ARRAY<STRUCT<select:INT,`a:b`:STRUCT<c: INT>>>")
    'ARRAY<STRUCT<`select`:INT,`a:b`:STRUCT<`c`: INT>>>'
    """
    return _FIELD.sub(lambda found: quoted(unquoted(found[0])), type_name)


def readable_type(type_name: str) -> str:
    """A type for a parser that does not know VOID, which is what `array()` has in it: INT then.

    >>> readable_type("STRUCT<VOID: ARRAY<VOID>>")
    'STRUCT<`VOID`:ARRAY<INT>>'
    """
    tokens = _TYPE_TOKEN.findall(quoted_fields(type_name))
    return "".join("INT" if each.upper() == "VOID" else each for each in tokens)


def type_spelling(name: str) -> str:
    """A type as Spark spells it, so that equal types have equal names.

    >>> type_spelling("map<string,Struct<A:int,`b c` : decimal(4, 2)>>")
    'MAP<STRING, STRUCT<A: INT, `b c`: DECIMAL(4,2)>>'
    """
    tokens = _TYPE_TOKEN.findall(name)
    made, inside = [], 0  # of parentheses
    for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
        inside += (token == "(") - (token == ")")
        is_name = following == ":" or token.startswith("`")
        made.append(_field_name(unquoted(token)) if is_name else token.upper())
        if token == ":" or (token == "," and not inside):
            made.append(" ")
    return "".join(made)


def type_words(spelling: str) -> set[str]:
    """The words of a type as `type_spelling` gives it, without fields and numbers of digits.

    >>> sorted(type_words("ARRAY<STRUCT<double: DECIMAL(4,2), `b c`: DATE>>"))
    ['ARRAY', 'DATE', 'DECIMAL', 'STRUCT']
    """
    tokens = _TYPE_TOKEN.findall(spelling)
    pairs = zip(tokens, [*tokens[1:], ""], strict=True)
    names = {token for token, following in pairs if following != ":"}
    return {each for each in names if each not in "<>,:()" and not each.isdecimal()}


def _field_name(name: str) -> str:
    """A field as a type spells it: quoted, where it could be taken for something else."""
    return name if _PLAIN_FIELD.fullmatch(name) else quoted(name)


def visible(text: str) -> str:
    r"""Text for a picture or a terminal: what would move the cursor, or is no XML, is spelled out.

    >>> print(visible("a\x1b[31mb\nc"))
    a\x1b[31mb
    c
    """
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def folder_name(name: str) -> str:
    """The folder that belongs to a name: below its parent, and another one for each name.

    >>> folder_name("orders"), folder_name(".."), folder_name("a/b"), folder_name("%2E")
    ('orders', '%2E%2E', 'a%2Fb', '%252E')
    """
    check_name(name, "a folder")
    text = quote(name, safe="")
    if not text.strip("."):
        return text.replace(".", "%2E")
    if len(text) <= _MOST_BYTES:
        return text
    # No quoted text has two of them side by side.
    return f"{text[:80]}%%{blake2b(name.encode(), digest_size=16).hexdigest()}"
