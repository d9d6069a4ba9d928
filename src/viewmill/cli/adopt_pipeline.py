"""`viewmill adopt spark-pipeline.yml`: run a project of Spark Declarative Pipelines.

takes  the spec file that `spark-pipelines run` takes
does   one run with a pipeline of ours, and prints how each dataset is kept
"""

from __future__ import annotations

import pkgutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from viewmill.cli.terminal import grid, print_json, print_text, remark, results
from viewmill.cli.yaml_reader import Mapping, Value, read_yaml
from viewmill.errors import InvalidArgument, MissingDependency

_ADOPT = "viewmill.pipeline.declarative.adopt"  # loaded when a project asks for it
_KEYS = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
_WILD = frozenset("*?[")


def adopt_pipeline(file: Path, storage: Path | None, *, run: bool, json: bool) -> None:
    """Run the project and print what came of it."""
    project = read_project(file, storage)
    remark("starting Spark")
    found = pkgutil.resolve_name(_ADOPT).adopt(project, run=run)
    if json:
        print_json(found)
        return
    for title in ("datasets", "expectations", "not understood"):
        rows = found[title]
        if rows:
            results().print(grid(list(rows[0]), [list(row.values()) for row in rows]))
            print_text("")
    for name, place in found["tables"].items():
        print_text(f"{name.replace('`', '')} -> {place}")
    print_text(found["summary"])
    remark(f"{found['rows']:,} new rows, {found['seconds']:.1f} s.")


def read_project(file: Path, storage: Path | None = None) -> Any:
    """What a spec file says, as Spark reads it."""
    fields = read_yaml(file).mapping(_KEYS)
    root = file.parent.resolve()
    asked, database = fields.need("storage"), fields.get("database") or fields.get("schema")
    given, libraries = fields.get("configuration"), fields.get("libraries")
    configuration = {} if given is None else given.mapping().values
    try:
        made = pkgutil.resolve_name(_ADOPT).DeclarativeProject
    except ImportError as why:
        raise MissingDependency(
            "Spark Declarative Pipelines need PySpark 4.1 or newer",
            detail=str(why),
            hint="pip install 'viewmill[spark]'",
        ) from why
    return made(
        name=fields.need("name").string(),
        root=root,
        storage=(_local(asked, root) / "viewmill") if storage is None else storage.resolve(),
        files=tuple(_files(libraries, root)),
        catalog=fields.text("catalog"),
        database=None if database is None else database.string(),
        configuration={key: each.string() for key, each in configuration.items()},
    )


def _local(value: Value, root: Path) -> Path:
    """The storage's directory: a path, or a file URL."""
    said = urlsplit(value.string())
    if said.scheme not in ("", "file"):
        raise value.error(
            f"the storage is at {said.scheme}://, and ours needs a local disk",
            hint="Give --storage, a directory of this machine.",
        )
    return root / unquote(said.path if said.scheme else value.string())


def _files(libraries: Value | None, root: Path) -> list[Path]:
    """The definitions, each once, in the order of their names."""
    found: set[Path] = set()
    for entry in () if libraries is None else libraries.items():
        include = _glob(entry)
        pattern = include.string()
        if pattern.endswith("/**") and not _WILD & set(pattern[:-3]):
            pattern += "/*"
        elif _WILD & set(pattern):
            raise include.error(
                f"{pattern} is no pattern of Spark's",
                hint="A path, or a folder with /** behind it.",
            )
        if Path(pattern).is_absolute():
            raise include.error(f"{pattern} is not below the spec file")
        found |= {each for each in root.glob(pattern) if each.is_file()}
    kept = sorted(each for each in found if "__pycache__" not in each.parts)
    if not kept:
        raise InvalidArgument("the project has no definitions", hint="libraries: - glob: include:")
    return kept


def _glob(entry: Value) -> Value:
    fields: Mapping = entry.mapping(("glob",))
    return fields.need("glob").mapping(("include",)).need("include")
