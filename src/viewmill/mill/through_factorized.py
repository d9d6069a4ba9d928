"""Read a factorized view through its definition: its rows are put together only where they must be.

takes  a relation that reads such views
gives  an equal one over the tables that they read; a group-by over their join aggregates each of
       these first, so that ten million rows held as three thousand take as long as three thousand
"""

from __future__ import annotations

from viewmill.algebra.expressions import Column
from viewmill.algebra.relations import Project, Relation, Scan
from viewmill.algebra.walk import sources
from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.rewrite.aggregates_before_joins import aggregates_before_joins
from viewmill.rewrite.correlation import fresh_copy, transform_everywhere
from viewmill.rewrite.prune_columns import prune_columns
from viewmill.rewrite.rules import rewrite


def read_through(core: Core, query: Relation) -> Relation:
    """The query over tables, if the factorized views that it reads show their present rows."""
    inlined = inline_factorized(core, query)
    if inlined is query:
        return query
    return aggregates_before_joins(prune_columns(rewrite(inlined)))


def inline_factorized(core: Core, query: Relation) -> Relation:
    """The query with the definitions of factorized views in their place."""

    def change(relation: Relation) -> Relation:
        if isinstance(relation, Scan) and relation.window is None:
            entry = core.catalog.get(relation.source)
            if isinstance(entry, ViewEntry) and is_present(core, entry):
                return _inlined(entry, relation)
        return relation

    if not any(_is_factorized(core.catalog.get(name)) for name in sources(query)):
        return query
    return transform_everywhere(query, change)


def _is_factorized(entry: object) -> bool:
    found = entry.enumerator if isinstance(entry, ViewEntry) else None
    return found is not None and found.form == "factorized"


def is_present(core: Core, entry: ViewEntry) -> bool:
    """Whether a view is factorized and shows what its definition gives of the tables now."""
    if not _is_factorized(entry) or entry.waiting_rows or entry.outdated or entry.failure:
        return False
    read = [core.catalog.get(name) for name in sources(entry.query)]
    return all(
        isinstance(each, TableEntry) and not each.table.may_have_negative_rows for each in read
    )


def _inlined(entry: ViewEntry, scan: Scan) -> Relation:
    copy, _ = fresh_copy(entry.query, f"#in_{scan.alias}")
    pairs = zip(scan.schema.names, copy.schema, strict=True)
    return Project(copy, tuple((name, Column(f.name, f.type, f.nullable)) for name, f in pairs))
