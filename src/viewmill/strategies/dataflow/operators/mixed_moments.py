"""Put cofactors with categories together from the group-bys that they are kept as.

takes  the query, and scans of the blocks of its parts
gives  a candidate with its program
next   kernels.mixed_moments
"""

from __future__ import annotations

from viewmill.algebra.mixed_moments import MixedMoments
from viewmill.algebra.relations import Relation, Scan
from viewmill.codegen.inputs import input_of
from viewmill.program.program import MomentParts, Program
from viewmill.rewrite.mixed_cofactor_parts import MixedGroup
from viewmill.strategies.strategy import Candidate, Cost

# Measured on two cores: a call for one input, and one changed entry.
_CALL_US, _ENTRY_US = 10.0, 1.0
_NAME = "dataflow"


def mixed_candidate(
    query: Relation,
    mixed: MixedGroup,
    whole: Scan,
    by_category: tuple[Scan, ...],
    by_pair: tuple[Scan, ...],
) -> Candidate:
    """The candidate over scans of the parts."""
    type_ = mixed.call.type
    assert isinstance(type_, MixedMoments)
    body = MomentParts(
        type_,
        len(mixed.group.keys),
        mixed.place,
        mixed.outputs,
        whole.alias,
        tuple(each.alias for each in by_category),
        tuple(each.alias for each in by_pair),
    )
    inputs = tuple(map(input_of, (whole, *by_category, *by_pair)))
    program = Program(_NAME, query, inputs, query.schema, (), body)
    changed = 1 + len(by_category) + len(by_pair)
    cost = Cost(_CALL_US * len(inputs), _ENTRY_US * changed, 0)
    said = "moments by category and counts by pair of categories, put together by group"
    return Candidate(_NAME, query, cost, (said,), program=program)
