"""The spec file: which sources, which views, which sinks.

takes  the path of a viewmill.yml
gives  a `Spec`, every path in it relative to the folder of the file
next   cli.project, which builds a mill from it
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from viewmill.algebra.units import parse_bytes
from viewmill.cli.yaml_reader import InvalidSpec, Value, read_yaml
from viewmill.cli.yaml_reader import Mapping as Fields
from viewmill.errors import InvalidArgument

DEFAULT_SPEC = Path("viewmill.yml")
Format = Literal["csv", "json", "parquet", "delta"]
Mode = Literal["table", "changes"]

FORMATS: tuple[Format, ...] = ("csv", "json", "parquet")
SPARK_SINKS: tuple[Format, ...] = ("parquet", "delta")


@dataclass(frozen=True)
class Source:
    """Files whose rows change one table, or a stream that Spark reads.

    stream        the connector as `format`, a `table` if it reads one, and its options
    change        the column that says insert, delete, update_preimage or update_postimage
    multiplicity  the column that says how often a row is added; negative removes
    schema        the columns, as in CREATE TABLE; left out when a library creates the table
    checked       whether a delete of a row that is not there is an error
    """

    name: str
    paths: tuple[str, ...]
    format: Format
    schema: str | None = None
    change: str | None = None
    multiplicity: str | None = None
    timestamp: str | None = None
    options: str = ""
    checked: bool = False
    stream: Mapping[str, str] | None = None

    def create_statement(self) -> str | None:
        """CREATE TABLE, or None when the spec gives no schema."""
        if self.schema is None:
            return None
        options = "" if self.checked else " UNCHECKED"
        options += f" TIMESTAMP BY {self.timestamp}" if self.timestamp else ""
        options += f" {self.options}" if self.options else ""
        return f"CREATE TABLE {self.name} ({self.schema}){options}"


@dataclass(frozen=True)
class Sink:
    """Where the rows of a view go: a table that is replaced, or its changes, file after file."""

    view: str
    path: Path
    format: Format = "parquet"
    mode: Mode = "table"


@dataclass(frozen=True)
class SparkSettings:
    """How `runtime: spark` gets its session; nothing said is a tuned local one."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    placement: str = "driver"
    shards: int | None = None
    archive: bool | None = None


@dataclass(frozen=True)
class Spec:
    """A whole project."""

    file: Path
    name: str
    storage: Path
    sources: tuple[Source, ...] = ()
    libraries: tuple[str, ...] = ()
    sinks: tuple[Sink, ...] = ()
    spark: SparkSettings | None = None  # None is the runtime in this process
    memory: int | None = None  # bytes, for all states together
    refresh: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # policies, by view
    entries: Mapping[str, Value] = field(default_factory=dict, repr=False)  # by path, for errors

    def error(self, path: str, message: str, *, detail: str = "", hint: str = "") -> InvalidSpec:
        """An error that underlines the entry at `path`, for example sinks.revenue."""
        entry = self.entries.get(path)
        if entry is None:
            return InvalidSpec(f"{self.file}: {path}: {message}", detail=detail, hint=hint)
        return entry.error(f"{path}: {message}", detail=detail, hint=hint)

    @property
    def folder(self) -> Path:
        """The folder that paths in the spec are relative to."""
        return self.file.parent

    @property
    def mill_path(self) -> Path:
        """Where the durable mill lives."""
        return self.storage / "mill"

    def files(self, pattern: str) -> list[Path]:
        """What a pattern of the spec matches now, sorted; hidden files are not ours."""
        path = Path(pattern)
        root = Path(path.anchor) if path.is_absolute() else self.folder
        relative = str(path.relative_to(path.anchor)) if path.is_absolute() else pattern
        found = [each for each in root.glob(relative) if each.is_file()]
        return sorted(each for each in found if not each.name.startswith((".", "_")))


def read_spec(file: Path) -> Spec:
    """Read and check a spec file."""
    if not file.is_file():
        raise InvalidSpec(
            f"there is no spec file {file}",
            hint="`viewmill init NAME` writes one that runs; --spec names another file.",
        )
    keys = ("name", "storage", "runtime", "spark", "memory", "sources", "libraries", "sinks",
            "refresh")  # fmt: skip
    root = read_yaml(file).mapping(keys)
    runtime = root.get("runtime")
    on_spark = runtime is not None and runtime.one_of(("in-process", "spark")) == "spark"
    if (spark := root.get("spark")) and not on_spark:
        raise spark.error("the key spark belongs to runtime: spark")
    memory, refresh = root.get("memory"), root.get("refresh")
    sources, libraries, sinks = (root.get(key) for key in ("sources", "libraries", "sinks"))
    return Spec(
        file=file,
        name=root.text("name") or file.resolve().parent.name,
        storage=file.parent / (root.text("storage") or "storage"),
        sources=_read_sources(sources, on_spark=on_spark) if sources else (),
        libraries=_read_libraries(libraries) if libraries else (),
        sinks=_read_sinks(sinks, file.parent, on_spark=on_spark) if sinks else (),
        spark=_read_spark(spark) if on_spark else None,
        memory=_read_memory(memory) if memory else None,
        refresh=_read_refresh(refresh) if refresh else {},
        entries=_entries(sources, sinks, refresh),
    )


def _entries(*sections: Value | None) -> dict[str, Value]:
    """The named entries of sections and what stands in them, by path."""
    entries = [each for part in sections if part for each in part.mapping().values.values()]
    inside = [
        each for entry in entries if entry.is_mapping for each in entry.mapping().values.values()
    ]
    return {each.path: each for each in (*entries, *inside)}


def _read_memory(value: Value) -> int:
    try:
        return parse_bytes(value.string())
    except InvalidArgument as error:
        raise value.error(error.message, hint=error.hint) from error


def _read_refresh(value: Value) -> dict[str, tuple[str, ...]]:
    """`refresh: {revenue: [EVERY 1000 ROWS, WITHIN INTERVAL '5' SECONDS]}`."""
    return {view: entry.strings() for view, entry in value.mapping().values.items()}


def _read_spark(value: Value | None) -> SparkSettings:
    if value is None:
        return SparkSettings()
    fields = value.mapping(("master", "conf", "placement", "shards", "archive"))
    conf = fields.get("conf")
    settings = {} if conf is None else conf.mapping().values
    return SparkSettings(
        fields.text("master"),
        {key: each.string() for key, each in settings.items()},
        *_read_placement(fields),
    )


def _read_placement(fields: Fields) -> tuple[str, int | None, bool | None]:
    """`placement: shards` with `shards: 2` and `archive: true`."""
    placement, shards, archive = (fields.get(key) for key in ("placement", "shards", "archive"))
    where = "driver" if placement is None else placement.one_of(("driver", "shards"))
    for key, value in (("shards", shards), ("archive", archive)):
        if value is not None and where != "shards":
            raise value.error(f"the key {key} belongs to placement: shards")
    if shards is not None and (not shards.string().isdigit() or int(shards.string()) == 0):
        raise shards.error("shards must be a number from 1")
    return (
        where,
        None if shards is None else int(shards.string()),
        None if archive is None else archive.boolean(),
    )


def _name(value: Value, name: str) -> str:
    if not name.isidentifier() or name.lower().startswith("_viewmill"):
        raise value.error(f"{name!r} cannot name a table", hint="Use letters, digits and _.")
    return name


def _read_sources(value: Value, *, on_spark: bool) -> tuple[Source, ...]:
    keys = ("path", "format", "schema", "change", "multiplicity", "timestamp", "options", "checked",
            "stream")  # fmt: skip
    sources = []
    for name, entry in value.mapping().values.items():
        fields = entry.mapping(keys)
        change, multiplicity = fields.get("change"), fields.get("multiplicity")
        if change and multiplicity:
            raise multiplicity.error(f"{entry.path} has both change and multiplicity; take one")
        checked = fields.get("checked")
        stream = _read_stream(fields, on_spark=on_spark)
        paths = () if stream else fields.need("path").strings()
        sources.append(
            Source(
                name=_name(entry, name),
                paths=paths,
                format="json" if stream else _format(entry, fields.get("format"), paths[0]),
                schema=fields.text("schema"),
                change=change.string() if change else None,
                multiplicity=multiplicity.string() if multiplicity else None,
                timestamp=fields.text("timestamp"),
                options=fields.text("options") or "",
                checked=checked.boolean() if checked else False,
                stream=stream,
            )
        )
    return tuple(sources)


def _read_stream(fields: Fields, *, on_spark: bool) -> dict[str, str] | None:
    """`stream: {format: kafka, subscribe: orders, ...}` in the place of `path`."""
    stream = fields.get("stream")
    if stream is None:
        return None
    if not on_spark:
        raise stream.error("the key stream belongs to runtime: spark")
    for key in ("path", "format"):
        if other := fields.get(key):
            raise other.error(f"a stream has no {key}; its format is a key of stream")
    said = stream.mapping()
    said.need("format")
    return {key: each.string() for key, each in said.values.items()}


def _read_libraries(value: Value) -> tuple[str, ...]:
    patterns: list[str] = []
    for entry in value.items():
        glob = entry.mapping(("glob",)).need("glob").mapping(("include",))
        patterns += glob.need("include").strings()
    return tuple(patterns)


def _read_sinks(value: Value, folder: Path, *, on_spark: bool) -> tuple[Sink, ...]:
    formats = SPARK_SINKS if on_spark else FORMATS
    sinks = []
    for view, entry in value.mapping().values.items():
        fields = entry.mapping(("path", "format", "mode"))
        path, mode = fields.need("path").string(), fields.get("mode")
        word = mode.one_of(("table", "changes")) if mode else "table"
        sinks.append(
            Sink(
                view=view,
                path=folder / path,
                format=_format(entry, fields.get("format"), path, formats),
                mode="changes" if word == "changes" else "table",
            )
        )
    return tuple(sinks)


def _format(
    entry: Value, said: Value | None, path: str, formats: tuple[Format, ...] = FORMATS
) -> Format:
    """The format as said, or as the file name says it."""
    word = said.one_of(formats) if said else Path(path.removesuffix(".gz")).suffix[1:]
    word = {"jsonl": "json", "ndjson": "json"}.get(word, word)
    for known in formats:
        if word == known:
            return known
    raise entry.error(f"{entry.path} needs the key 'format'", detail=", ".join(formats) + ".")
