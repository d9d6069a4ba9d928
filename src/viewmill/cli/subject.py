"""What `explain` and `show` are about: a view of the project, or a file with SQL.

takes  a name or the path of a file
gives  an open mill, and the name of the view in it
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import viewmill as vm
from viewmill.cli.definitions import Definition, in_order, read_definitions, read_library
from viewmill.cli.project import durable_mill, scratch_mill
from viewmill.cli.spec import Spec, read_spec
from viewmill.errors import InvalidArgument, UnknownName, nearest

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill


@contextmanager
def open_subject(subject: str, spec: Path, mill: Path | None) -> Iterator[tuple[Mill, str]]:
    """The mill that holds the view, and the view's name."""
    if subject.endswith(".sql") or Path(subject).is_file():
        with _file_subject(Path(subject), spec) as found:
            yield found
        return
    if mill is not None:
        with vm.connect(mill) as opened:
            yield opened, _known(subject, opened)
        return
    project = read_spec(spec)
    if project.mill_path.exists():
        with durable_mill(project) as opened:
            if subject.lower() in {name.lower() for name in opened.views()}:
                yield opened, subject
                return
    with scratch_mill(project, read_definitions(project)) as opened:
        yield opened, _known(subject, opened)


@contextmanager
def _file_subject(file: Path, spec: Path) -> Iterator[tuple[Mill, str]]:
    """The last view of a file, over the project's tables if there is a project."""
    if not file.is_file():
        raise InvalidArgument(f"there is no file {file}")
    own = read_library(file)
    views = [each.name for each in own if each.kind == "MATERIALIZED VIEW"]
    if not views:
        hint = "Write CREATE MATERIALIZED VIEW name AS SELECT ..."
        raise InvalidArgument(f"{file} creates no materialized view", hint=hint)
    project = read_spec(spec) if spec.is_file() else Spec(spec, "", Path("storage"))
    names = {each.key for each in own}
    others = [each for each in _others(project) if each.key not in names]
    with scratch_mill(project, in_order([*others, *own])) as opened:
        yield opened, views[-1]


def _others(project: Spec) -> list[Definition]:
    return read_definitions(project) if project.sources or project.libraries else []


def _known(name: str, mill: Mill) -> str:
    views = mill.views()
    if name.lower() not in {each.lower() for each in views}:
        raise UnknownName(f"no view is called {name!r}", hint=nearest(name, views))
    return name
