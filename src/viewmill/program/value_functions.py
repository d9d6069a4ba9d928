"""Functions of bytes, URLs, JSON and text that no engine but Spark has, as Spark computes them.

takes  Python's values, none of which is NULL where `sql.value_calls` does not say otherwise
gives  a value, None for NULL; or raises `Unfit`, which says what Spark would call an error
next   sql.value_calls types the calls; program.user_calls computes each distinct one once
"""

from __future__ import annotations

import base64
import binascii
import decimal
import hashlib
import math
import re
import zlib
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from viewmill.program.python_functions import Unfit, regex, regexp_replace


def _unfit(message: str) -> Unfit:
    return Unfit("EvaluationFailed", message)


def lenient(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with NULL where it has no result."""

    def attempt(*values: Any) -> Any:
        try:
            return function(*values)
        except Unfit:
            return None

    return attempt


# Bytes.


def hex_of_bytes(value: bytes) -> str:
    """Two digits for each byte."""
    return value.hex().upper()


def unhex(text: str) -> bytes | None:
    """The bytes that digits stand for; an odd first digit is a byte by itself."""
    if not re.fullmatch("[0-9a-fA-F]*", text, re.ASCII):
        return None
    return bytes.fromhex("0" * (len(text) % 2) + text)


_CHARSETS = {
    "us-ascii": "ascii", "iso-8859-1": "latin-1", "utf-8": "utf-8", "utf-16be": "utf-16-be",
    "utf-16le": "utf-16-le", "utf-16": "utf-16", "utf-32": "utf-32-be",
}  # fmt: skip


def _charset(name: str) -> str:
    if name.lower() not in _CHARSETS:
        raise _unfit(f"{name!r} is none of the charsets {', '.join(_CHARSETS).upper()}")
    return _CHARSETS[name.lower()]


def encode(text: str, charset: str) -> bytes:
    """The text in a charset. UTF-16 begins with its byte order, as Java writes it."""
    name = _charset(charset)
    try:
        if name == "utf-16":
            return b"\xfe\xff" + text.encode("utf-16-be") if text else b""
        return text.encode(name)
    except UnicodeEncodeError:
        raise _unfit(f"{charset} cannot write {text!r}") from None


def decode(value: bytes, charset: str) -> str:
    """The text that bytes are in a charset."""
    name = _charset(charset)
    if name == "utf-16" and value[:2] not in (b"\xfe\xff", b"\xff\xfe"):
        name = "utf-16-be"
    try:
        return value.decode(name)
    except UnicodeDecodeError:
        raise _unfit(f"{value!r} is no text in {charset}") from None


def text_of_bytes(value: bytes) -> str:
    """CAST(value AS STRING): what is no UTF-8 is shown as �."""
    return value.decode("utf-8", errors="replace")


def base64_of_bytes(value: bytes) -> str:
    """In letters of base 64."""
    return base64.b64encode(value).decode()


def unbase64(text: str) -> bytes:
    """The bytes that letters of base 64 stand for."""
    plain = "".join(text.split())
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise _unfit(f"{text!r} is no base 64") from None


def to_binary(text: str, form: str = "hex") -> bytes:
    """The bytes that a text stands for: hex, base64 or utf-8."""
    match form.lower():
        case "hex":
            made = unhex(text)
            if made is None:
                raise _unfit(f"{text!r} is no hex")
            return made
        case "utf-8" | "utf8":
            return text.encode()
        case "base64":
            return unbase64(text)
        case _:
            raise _unfit(f"{form!r} is none of hex, base64, utf-8")


def sha1(value: bytes) -> str:
    """SHA-1 in digits."""
    return hashlib.sha1(value, usedforsecurity=False).hexdigest()


def sha2(value: bytes, bits: int) -> str | None:
    """SHA-2 of 224, 256 (or 0), 384 or 512 bits."""
    name = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}.get(bits)
    return None if name is None else hashlib.new(name, value).hexdigest()


def md5(value: bytes) -> str:
    """MD5 in digits."""
    return hashlib.md5(value, usedforsecurity=False).hexdigest()


def crc32(value: bytes) -> int:
    """The checksum."""
    return zlib.crc32(value)


def joined(*values: bytes) -> bytes:
    """One after the other."""
    return b"".join(values)


def part(value: bytes, start: int, count: int = 2**31 - 1) -> bytes:
    """The bytes from `start`, which counts from 1, and from the end below 0."""
    first = start - 1 if start > 0 else len(value) + start if start < 0 else 0
    return value[max(first, 0) : max(first + count, 0)]


def first_bytes(value: bytes, count: int) -> bytes:
    """left(value, count)."""
    return value[: max(count, 0)]


def last_letters(value: str, count: int) -> str:
    """right(value, count), to which bytes are text."""
    return value[-count:] if count > 0 else ""


def padded_left(value: bytes, count: int, fill: bytes = b"\0") -> bytes:
    """lpad: cut off at `count` bytes, or filled up in front."""
    return _filling(value, count, fill) + value[: max(count, 0)]


def padded_right(value: bytes, count: int, fill: bytes = b"\0") -> bytes:
    """rpad: cut off at `count` bytes, or filled up behind."""
    return value[: max(count, 0)] + _filling(value, count, fill)


def _filling(value: bytes, count: int, fill: bytes) -> bytes:
    missing = count - len(value)
    return (fill * (missing // len(fill) + 1))[:missing] if fill and missing > 0 else b""


def bitmap_count(value: bytes) -> int:
    """How many bits are set."""
    return int.from_bytes(value).bit_count()


def is_utf8(value: bytes) -> bool:
    """Whether the bytes are text."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def validate_utf8(value: bytes) -> str:
    """The text, an error where the bytes are none."""
    if not is_utf8(value):
        raise _unfit(f"{value!r} is no UTF-8")
    return value.decode()


# Numbers.


def bit_at(value: int, place: int, bits: int) -> int:
    """One bit of a whole number of so many."""
    if not 0 <= place < bits:
        raise _unfit(f"bit {place} of {bits}")
    return value >> place & 1


def bitmap_position(value: int) -> int:
    """The place of a value in the bitmap of its bucket."""
    return (value - 1) % 32768 if value > 0 else -value % 32768


def bitmap_bucket(value: int) -> int:
    """The bucket of 32768 values that a value is in."""
    return 1 + (value - 1) // 32768 if value > 0 else -(-value // 32768)


def acosh(x: float) -> float:
    """acosh, NaN below 1."""
    return math.acosh(x) if x >= 1 else math.nan


def atanh(x: float) -> float:
    """atanh, infinite at 1 and NaN beyond."""
    if abs(x) == 1:
        return math.copysign(math.inf, x)
    return math.atanh(x) if abs(x) < 1 else math.nan


def rounded_to(way: str, digits: int) -> Callable[[decimal.Decimal], decimal.Decimal]:
    """ceil(x, digits) and floor(x, digits)."""
    unit, context = decimal.Decimal(1).scaleb(-digits), decimal.Context(prec=100)
    return lambda x: x.quantize(unit, way, context)


# Text.


def place_of(text: str, part: str, start: int, occurrence: int = 1) -> int:
    """instr: where a part comes for that time from a place on, below 0 from the end back."""
    if occurrence < 1:
        raise _unfit(f"occurrence {occurrence} is less than 1")
    if start == 0:
        return 0
    at = start - 1 if start > 0 else len(text) + start
    if not part:
        return 1 if start < 0 else min(start, 1)
    for _ in range(occurrence):
        found = text.find(part, at) if start > 0 else text.rfind(part, 0, at + len(part))
        if found < 0 or at < 0:
            return 0
        at = found + (1 if start > 0 else -1)
    return found + 1


def mask(
    text: str | None,
    upper: str | None = "X",
    lower: str | None = "x",
    digit: str | None = "n",
    other: str | None = None,
) -> str | None:
    """Letters and digits replaced by kind; NULL keeps a kind as it is."""
    if text is None:
        return None

    def masked(letter: str) -> str:
        if letter.isupper():
            new = upper
        elif letter.islower():
            new = lower
        else:
            new = digit if letter.isdigit() else other
        return letter if new is None else new

    for each in (upper, lower, digit, other):
        if each is not None and len(each) != 1:
            raise _unfit(f"mask replaces by one letter, not by {each!r}")
    return "".join(map(masked, text))


def elt(place: int | None, *values: Any) -> Any:
    """The value at a place, which counts from 1."""
    if place is None:
        return None
    if not 1 <= place <= len(values):
        raise _unfit(f"there is no value {place} of {len(values)}")
    return values[place - 1]


def split(text: str, pattern: str, limit: int = -1) -> list[str]:
    """Parts between what the pattern matches, at most `limit`; the last has what is left."""
    if not pattern:  # cuts into letters
        return [*text[: limit - 1], text[limit - 1 :]] if 0 < limit < len(text) else list(text)
    parts, last = list[str](), 0
    for found in regex(pattern).finditer(text):
        if found.end() == 0:
            continue
        if len(parts) + 1 == limit:
            break
        parts.append(text[last : found.start()])
        last = found.end()
    return [*parts, text[last:]]


def split_letters(text: str, pattern: str, limit: int = -1) -> list[str]:
    """split, of which a text of nothing is one part."""
    return split(text, pattern, limit) or [""]


def extract_all(text: str, pattern: str, group: int = 1) -> list[str]:
    """What a group matched, each time."""
    compiled = regex(pattern)
    if not 0 <= group <= compiled.groups:
        raise _unfit(f"{pattern!r} has no group {group}")
    return [found.group(group) or "" for found in compiled.finditer(text)]


def replace_from(text: str, pattern: str, new: str, start: int) -> str:
    """regexp_replace from a place on."""
    if start < 1:
        raise _unfit(f"regexp_replace counts places from 1, not {start}")
    before = text[: start - 1]
    is_inside = start == 1 or start - 1 < len(text)
    return before + regexp_replace(text[start - 1 :], pattern, new) if is_inside else text


def text_map(text: str, between: str = ",", inside: str = ":") -> list[tuple[str, str | None]]:
    """str_to_map: entries between what one pattern matches, cut in two by the other."""
    entries = dict[str, str | None]()
    for each in split_letters(text, between):
        key, *rest = split_letters(each, inside, 2)
        if key in entries:
            raise _unfit(f"the key {key!r} comes twice")
        entries[key] = rest[0] if rest else None
    return list(entries.items())


def quote(text: str) -> str:
    """In single quotes, those inside behind a backslash."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def to_base32(value: bytes) -> str:
    """In letters of base 32."""
    return base64.b32encode(value).decode()


def from_base32(text: str) -> bytes:
    """The bytes that letters of base 32 stand for."""
    try:
        return base64.b32decode(text + "=" * (-len(text) % 8), casefold=True)
    except (binascii.Error, ValueError):
        raise _unfit(f"{text!r} is no base 32") from None


# URLs.

_URL_PARTS = frozenset(
    {"HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO"}
)
_NO_URL = re.compile(r"[\s\"<>\\^`{|}]|%(?![0-9a-fA-F]{2})")


def url_part(url: str, name: str, key: str | None = None) -> str | None:
    """parse_url: a part of a URL, or the value of a key in its query."""
    if _NO_URL.search(url):
        raise _unfit(f"{url!r} is no URL")
    if name not in _URL_PARTS or (key is not None and name != "QUERY"):
        return None
    cut = urlsplit(url, allow_fragments=True)
    query = cut.query if "?" in url.partition("#")[0] else None
    match name:
        case "HOST":
            return _host(cut.netloc) or None
        case "PATH":
            return cut.path
        case "QUERY":
            return query if key is None or query is None else _value_in(query, key)
        case "REF":
            return cut.fragment if "#" in url else None
        case "PROTOCOL":
            return cut.scheme or None
        case "FILE":
            return cut.path if query is None else f"{cut.path}?{query}"
        case "AUTHORITY":
            return cut.netloc or None
        case _:
            return cut.netloc.rpartition("@")[0] or None


def _host(authority: str) -> str:
    place = authority.rpartition("@")[2]
    return place if place.endswith("]") else re.sub(":[0-9]*$", "", place)


def _value_in(query: str, key: str) -> str | None:
    found = re.search(f"(?:&|^){re.escape(key)}=([^&]*)", query)
    return found[1] if found else None
