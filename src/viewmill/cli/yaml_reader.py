"""Read YAML so that every mistake is underlined where it stands.

takes  the text of a spec file
gives  `Mapping`s and `Value`s that know their place; reading a wrong one raises `InvalidSpec`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from viewmill.errors import Span, ViewmillError, nearest


class InvalidSpec(ViewmillError):
    """A spec file that says something we do not understand."""


@dataclass(frozen=True)
class Value:
    """One YAML node, and where it stands."""

    file: Path
    text: str
    node: yaml.Node
    path: str  # sources.bids.format

    def error(self, message: str, *, detail: str = "", hint: str = "") -> InvalidSpec:
        """An error that underlines this value."""
        start, end = self.node.start_mark.index, self.node.end_mark.index - 1
        line = self.node.start_mark.line + 1
        span = Span(self.text, start, max(start, end))
        return InvalidSpec(f"{self.file}:{line}: {message}", detail=detail, hint=hint, span=span)

    @property
    def is_mapping(self) -> bool:
        """Whether it has keys."""
        return isinstance(self.node, yaml.MappingNode)

    def string(self) -> str:
        """The value as text; numbers and dates are taken as they were written."""
        if not isinstance(self.node, yaml.ScalarNode) or not str(self.node.value).strip():
            raise self.error(f"{self.path} must be text")
        return str(self.node.value)

    def one_of(self, choices: Iterable[str]) -> str:
        """The value, which must be one of a few words."""
        known = list(choices)
        said = self.string()
        if said not in known:
            listed = ", ".join(known)
            raise self.error(
                f"{self.path} cannot be {said!r}",
                detail=f"It is one of: {listed}.",
                hint=nearest(said, known),
            )
        return said

    def boolean(self) -> bool:
        """The value as true or false."""
        said = self.string().lower()
        if said not in ("true", "false"):
            raise self.error(f"{self.path} must be true or false")
        return said == "true"

    def strings(self) -> tuple[str, ...]:
        """One text, or a list of them."""
        if isinstance(self.node, yaml.SequenceNode):
            return tuple(each.string() for each in self.items())
        return (self.string(),)

    def items(self) -> Iterator[Value]:
        """The members of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.error(f"{self.path} must be a list")
        for i, node in enumerate(self.node.value):
            yield Value(self.file, self.text, node, f"{self.path}[{i}]")

    def mapping(self, keys: Iterable[str] | None = None) -> Mapping:
        """The value as a mapping; with `keys`, no others may appear."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(f"{self.path or 'the file'} must be a mapping of keys to values")
        values: dict[str, Value] = {}
        for key_node, node in self.node.value:
            name = str(key_node.value)
            path = f"{self.path}.{name}" if self.path else name
            key = Value(self.file, self.text, key_node, path)
            if name in values:
                raise key.error(f"{path} is there twice")
            if keys is not None and name not in (known := list(keys)):
                where = f" in {self.path}" if self.path else ""
                raise key.error(f"unknown key {name!r}{where}", hint=nearest(name, known))
            values[name] = Value(self.file, self.text, node, path)
        return Mapping(self, values)


@dataclass(frozen=True)
class Mapping:
    """The keys of a mapping."""

    value: Value
    values: dict[str, Value]

    def get(self, key: str) -> Value | None:
        """The value of a key that may be left out."""
        return self.values.get(key)

    def need(self, key: str) -> Value:
        """The value of a key that must be there."""
        found = self.values.get(key)
        if found is None:
            where = self.value.path or "the file"
            raise self.value.error(f"{where} needs the key {key!r}")
        return found

    def text(self, key: str) -> str | None:
        """The text of a key, or None."""
        found = self.values.get(key)
        return found.string() if found is not None else None


def read_yaml(file: Path) -> Value:
    """Parse a file."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSpec(f"cannot read {file}", detail=str(error)) from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{file}:{mark.line + 1}" if mark else str(file)
        span = Span(text, min(mark.index, len(text) - 1), mark.index) if mark and text else None
        raise InvalidSpec(f"{where}: not YAML: {error.problem}", span=span) from error
    except yaml.YAMLError as error:
        raise InvalidSpec(f"{file}: not YAML", detail=ascii(str(error))[1:-1]) from error
    except RecursionError:
        raise InvalidSpec(f"{file}: nested too deeply") from None
    if node is None:
        raise InvalidSpec(f"{file} is empty", hint="`viewmill init` writes one that runs.")
    return Value(file, text, node, "")
