"""Explain a plan: the chosen strategy and why, other offers, rejections, and the states kept.

takes  `Plan`, and facts of the running mill (bytes, status)
gives  text, JSON or a picture, all from one record
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from viewmill.algebra.display import display, tree
from viewmill.errors import InvalidArgument
from viewmill.planner.picture import picture
from viewmill.planner.plan import Plan, PlannedBlock
from viewmill.program.display import definition_text, state_label
from viewmill.program.states import Passing
from viewmill.strategies.strategy import Candidate, Rejection

FORMS = ("text", "json", "svg")


class Explanation(str):
    """The explanation as text, which also carries its record: `explanation["strategy"]`."""

    record: dict[str, Any]

    def __new__(cls, text: str, record: dict[str, Any]) -> Explanation:
        """Text with its record."""
        made = super().__new__(cls, text)
        made.record = record
        return made

    def __getitem__(self, key: Any) -> Any:
        return self.record[key] if isinstance(key, str) else super().__getitem__(key)

    def _repr_html_(self) -> str:
        return picture(self.record)

    def __repr__(self) -> str:
        return str(self)


def explain(plan: Plan, form: str, facts: Mapping[str, Any]) -> Explanation:
    """The plan in one of the FORMS."""
    if form not in FORMS:
        raise InvalidArgument(f'no form "{form}"', hint=f"One of {', '.join(FORMS)}.")
    record = explain_record(plan, facts)
    if form == "json":
        return Explanation(json.dumps(record, indent=2, default=str), record)
    if form == "svg":
        return Explanation(picture(record), record)
    return Explanation(_text(record), record)


def explain_record(plan: Plan, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The whole explanation as plain data."""
    sizes = facts.get("state_bytes", {})
    shared = facts.get("shared", {})
    blocks = [
        {**_block(block, sizes.get(block.name, {})), "shared_with": shared.get(block.name, [])}
        for block in plan.blocks
    ]
    whole = Candidate(plan.strategy, plan.query, plan.cost, plan.chosen.notes)
    return {
        "view": plan.view,
        "sql": facts.get("sql", ""),
        "strategy": plan.strategy,
        "incremental": plan.is_incremental and not plan.asks_engine,
        "reason": plan.reason,
        "chosen": _candidate(whole),
        "offered": [_candidate(each) for each in plan.offered],
        "rejected": [_rejection(each) for each in plan.rejected],
        "blocks": blocks,
        "states": [state for block in blocks for state in block["states"]],
        "result_bytes": sizes.get(plan.view, {}).get("result"),
        "policies": list(facts.get("policies", [])),
        "sharding": list(facts.get("sharding", [])),
        "adaptive": facts.get("adaptive"),
        "windows": list(facts.get("windows", [])),
        "algebra": display(plan.query),
        "fingerprint": plan.program.fingerprint,
        "status": dict(facts.get("status", {})),
    }


def _block(block: PlannedBlock, sizes: Mapping[str, int]) -> dict[str, Any]:
    states = [
        {
            "name": state.name,
            "label": state_label(state),
            "definition": definition_text(state),
            "bytes": sizes.get(state.name),
        }
        for state in block.program.states
        if not isinstance(state.kind, Passing)
    ]
    return {
        "name": block.name,
        "states": states,
        "rejected": [_rejection(each) for each in block.rejected],
        "algebra": display(block.query),
        "fingerprint": block.program.fingerprint,
        **_candidate(block.chosen),
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    cost = candidate.cost
    return {
        "strategy": candidate.strategy,
        "cost": str(cost),
        "refresh_us": cost.refresh_us,
        "row_us": cost.row_us,
        "state_bytes": cost.state_bytes,
        "notes": list(candidate.notes),
    }


def _rejection(rejection: Rejection) -> dict[str, Any]:
    span = rejection.span
    underlined = [] if span is None else span.underlined()
    return {"strategy": rejection.strategy, "reason": rejection.reason, "where": underlined}


def _text(record: Mapping[str, Any]) -> str:
    because = f"because  {record['reason']}"
    if len(record["blocks"]) == 1:
        more = [*_shared(record["blocks"][0]), *_kept(record)]
        children = [_answer("chosen", record["chosen"], [because, *more])]
    else:
        children = [_answer("chosen", record["chosen"], [because])]
        children += [_block_text(each) for each in record["blocks"]]
    children += [_answer("offered", each, []) for each in record["offered"]]
    for each in record["rejected"]:
        where = [line.strip() for line in each["where"]]
        children.append(tree(f"rejected  {each['strategy']:<16}  {each['reason']}", where))
    if record["policies"]:
        children.append(f"refresh   {', '.join(record['policies'])}")
    if record["sharding"]:
        children.append(tree("shards", record["sharding"]))
    children += [_window(each) for each in record["windows"]]
    if record["adaptive"]:
        children.append(_adaptive(record["adaptive"]))
    status = record["status"]
    if status:
        tier = [f"{status['tier']}: {status['tier_reason']}"] if status.get("tier_reason") else []
        children.append(tree("status", [_freshness(status), _last(status), *tier]))
    children.append(tree("algebra", [record["algebra"]]))
    return tree(f"view {record['view']}", children)


def _answer(word: str, candidate: Mapping[str, Any], more: list[str]) -> str:
    notes = [f"note     {note}" for note in candidate["notes"]]
    because, kept = more[:1], more[1:]
    said = [*because, *notes, *kept]
    return tree(f"{word:<9} {candidate['strategy']:<16}  {candidate['cost']}", said)


def _block_text(block: Mapping[str, Any]) -> str:
    """A block with its query and its states."""
    notes = [f"note     {note}" for note in block["notes"]]
    inside = [tree("computes", [block["algebra"]]), *_shared(block), *notes, *_kept(block)]
    return tree(f"block     {block['strategy']:<16}  {block['cost']}   {block['name']}", inside)


def _shared(block: Mapping[str, Any]) -> list[str]:
    return [f"shared   with {', '.join(block['shared_with'])}"] if block["shared_with"] else []


def _kept(record: Mapping[str, Any]) -> list[str]:
    kept = []
    for state in record["states"]:
        size = "" if state["bytes"] is None else f"   {state['bytes']} bytes"
        kept.append(tree(f"keep     {state['label']}{size}", [state["definition"]]))
    if record.get("result_bytes") is not None:
        kept.append(f"keep     the last result   {record['result_bytes']} bytes")
    return kept


def _window(facts: Mapping[str, Any]) -> str:
    """The technique of a window, its tree, the views that share it, and the other offers."""
    names, others = facts["shared_with"], facts["views"] - 1
    shown = ", ".join(names[:5]) + (f" and {others - 5} more" if others > 5 else "")
    trees = "the only tree" if facts["trees"] == 1 else f"one of {facts['trees']} trees"
    edges = ", ".join(
        f"{e['every']}" + (f" + {e['offset']}" if e["offset"] else "") for e in facts["edges"]
    )
    lines = [
        f"{facts['optimizer']}: {facts['formula']}",
        f"{trees}, edges every {edges}",
        f"shared with {shown}" if others else "shared with no other view",
        *_ranges(facts["ranges"]),
        *_joined(facts["lane"]),
        *facts["offers"],
    ]
    return tree(f"windows   {facts['technique']}, {facts['cost']:.4g} operations/row", lines)


def _ranges(count: int) -> list[str]:
    """The ranges of a GROUP BY window, if there are several."""
    if count == 1:
        return []
    return [f"every window, open ones too: queries of {count} ranges over the newest panes"]


def _joined(lane: Mapping[str, Any] | None) -> list[str]:
    """The work shared with views that have other predicates or keys."""
    if lane is None:
        return []
    fragments = f"{lane['fragments']} fragments by {lane['keys']} keys"
    return [
        f"rows are cut once for {lane['kinds']} kinds of views: {fragments}"
        f" and {lane['predicates']} predicates",
        lane["why"],
    ]


def _adaptive(facts: Mapping[str, Any]) -> str:
    """The size of a change from which the view is recomputed, and whether costs are measured."""
    said = "measured" if facts["row_us_is_measured"] else "estimated"
    head = f"adaptive  computed again from {facts['recompute_from_rows']:,} changed rows on"
    engine = f"{facts['engine_start_us'] / 1e3:.1f} ms + {facts['engine_row_us']:.2g} µs/row"
    return tree(
        head,
        [
            f"triggers  {facts['row_us']:.2g} µs/row, {said}",
            f"again     {facts['recompute_us'] / 1e3:.1f} ms with the tables as they are",
            f"engine    {engine} for a query, measured on this machine",
        ],
    )


def _freshness(status: Mapping[str, Any]) -> str:
    if status["freshness"] == "fresh":
        return f"fresh at version {status['version']}, {status['rows']} rows"
    return (
        f"stale: {status['waiting_rows']} changed rows wait since {status['lag_s']:.1f} s, "
        f"as its refresh policy says"
    )


def _last(status: Mapping[str, Any]) -> str:
    why = {
        "incremental": "the last refresh cost the change, not the data",
        "parts": "the last refresh had the engine compute the parts that changed",
        "full": "the last refresh computed the whole view",
        "rebuilt": "the last refresh built missing states again, then cost the change",
        "backfill": "not refreshed since it was filled",
    }[status["refresh_kind"]]
    return f"{why}; {status['refreshes']} refreshes, {status['engine_calls']} engine calls"
