"""Open the mill a command is about, for reading: the project's, or the one named by --mill.

Another process may be writing it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import viewmill as vm
from viewmill.cli.project import durable_mill
from viewmill.cli.spec import read_spec
from viewmill.errors import InvalidArgument

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill


@contextmanager
def open_mill(spec: Path, mill: Path | None) -> Iterator[Mill]:
    """The mill at `mill`, else the one of the spec."""
    if mill is None:
        with durable_mill(read_spec(spec)) as opened:
            yield opened
        return
    if not mill.is_dir():
        raise InvalidArgument(f"there is no mill at {mill}")
    with vm.connect(mill, read_only=True) as opened:
        yield opened
