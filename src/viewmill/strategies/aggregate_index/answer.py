"""The lines of `settle`: from ordered states to the rows of the view.

takes  `Layout`
gives  source that selects levels and sets the entries of `result`
"""

from __future__ import annotations

from viewmill.algebra.display import display_expression
from viewmill.algebra.types import Float
from viewmill.codegen.aggregates import Argument
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.source import Source
from viewmill.program.states import Slot
from viewmill.strategies.aggregate_index.bounds import (
    LOWEST,
    holds,
    write_bound,
    write_bounds,
)
from viewmill.strategies.aggregate_index.classify import Side, Test
from viewmill.strategies.aggregate_index.layout import Kept, Layout
from viewmill.strategies.aggregate_index.levels import OUTGROWN, Levels, Word
from viewmill.strategies.aggregate_index.products import Term, scale_of
from viewmill.strategies.aggregate_index.query import Value

# Which side of a level its aggregate is over, by how inner rows compare with outer ones.
SIDES = {"<=": 0, "<": 1, ">=": 2, ">": 3}
_ALL = (str(LOWEST), "0", "False", "False")


class Answer:
    """Writes what computes the view from the states."""

    def __init__(self, layout: Layout, source: Source) -> None:
        self.layout, self.source = layout, source
        self._range: tuple[str, str, str, str] = _ALL

    def write(self) -> None:
        """Write the body of `settle`."""
        layout, source = self.layout, self.source
        fixed = layout.classified.fixed
        bound = {each.name: self._fixed(each, *layout.fixed[each.name]) for each in fixed}
        scalar = Scalar(source, bound, "-1")
        for made in (each for each in layout.levels if each.is_ordered):
            why = source.message(OUTGROWN, f"the sums of {made.name} leave 64 bits", None)
            with source.block(f"if ordered_strained({made.name}):"):
                source.line(f"fail(errors, {why}, -1)")
        for side in layout.classified.sides:
            self._select(side, scalar)
        if layout.grouped is None:
            self._set_row()
        else:
            self._set_groups(layout.grouped)
        source.line("return 0")

    def _fixed(self, value: Value, made: Levels, count: Word, total: Word | None) -> Operand:
        """Write what reads an uncorrelated aggregate."""
        source = self.source
        if value.call.function in ("min", "max"):
            return self._extreme(value, made, count)
        counted = source.name("count")
        source.line(f"{counted} = ordered_total({made.name}, {made.number(count)})")
        if value.call.function == "count":
            return Operand(counted)
        assert total is not None
        summed = source.name("total")
        read = "ordered_total_real" if total.is_real else "ordered_total"
        source.line(f"{summed} = {read}({made.name}, {made.number(total)})")
        if value.call.function == "avg":
            summed = self._ratio(value, summed, counted)
        return Operand(summed, f"({counted} == 0)")

    def _ratio(self, value: Value, total: str, count: str) -> str:
        """Write what divides a sum by its count, if there is a row."""
        source, type_ = self.source, value.call.type
        ratio, is_real = source.name("average"), isinstance(type_, Float)
        source.line(f"{ratio} = {'0.0' if is_real else '0'}")
        with source.block(f"if {count} != 0:"):
            if is_real:
                source.line(f"{ratio} = {total} / {count}")
            else:
                scalar = Scalar(source, {}, "-1")
                why = scalar.failure(value.call, OUTGROWN, f"the average does not fit {type_}")
                digits = scale_of(type_) - scale_of(value.call.arguments[0].type)
                source.line(f"{ratio} = div_decimal({why}, {total}, {count}, {10**digits})")
        return ratio

    def _extreme(self, value: Value, made: Levels, count: Word) -> Operand:
        """Write what reads the first or the last of the values."""
        source, name = self.source, made.name
        best, none = source.name(value.call.function), source.name("none")
        j, at = made.number(count), "0"
        if value.call.function == "max":
            whole = f"ordered_total({name}, {j}) - ordered_null({name}, {j})"
            at = f"ordered_reach({name}, {j}, {whole})"
        is_real = isinstance(value.call.type, Float)
        source.line(f"{none} = ordered_size({name}) == 0")
        source.line(f"{best} = {'0.0' if is_real else '0'}")
        with source.block(f"if not {none}:"):
            word = f"ordered_key({name}, {at}, 0)"
            source.line(f"{best} = {f'key_float(sort_word({word}))' if is_real else word}")
        return Operand(best, none)

    # Which levels count.

    def _select(self, side: Side, scalar: Scalar) -> None:
        source, made, test = self.source, self.layout.outer[side.alias], side.test
        is_grouped = side.alias == self.layout.grouped
        if test is None:
            if not is_grouped:
                source.line(f"ordered_pick_all({made.name})")
            return
        source.comment(_said(test))
        bound = write_bound(scalar, test)
        if is_grouped:
            self._aim(side, test, bound)
        elif bound.null is None:
            self._pick(made, test, bound.value)
        else:
            with source.block(f"if {bound.null}:"):
                source.line(f"ordered_pick_none({made.name})")
            with source.block("else:"):
                self._pick(made, test, bound.value)

    def _pick(self, made: Levels, test: Test, bound: str) -> None:
        bounds = write_bounds(self.source, test, bound)
        if test.value is None or test.value.correlations[0].operator == "=":
            self.source.line(f"ordered_pick_keys({made.name}, {', '.join(bounds)})")
            return
        over, empty = self._over(made, test, bound)
        self.source.line(f"ordered_pick({made.name}, {over}, {', '.join(bounds)}, {empty})")

    def _over(self, made: Levels, test: Test, bound: str) -> tuple[str, str]:
        """Side, word and count of the aggregate, and whether a level without one counts."""
        assert test.value is not None
        assert made.counted is not None
        side, count = SIDES[test.value.correlations[0].operator], made.number(made.counted)
        if made.watched is None:
            return f"{side}, {count}, -1", holds(test, 0, bound)
        summed = made.number(made.watched)
        if test.default == 0 and not made.watched.is_real:  # the sum of no rows is 0 as it is
            return f"{side}, {summed}, -1", holds(test, 0, bound)
        empty = "False" if test.default is None else holds(test, test.default, bound)
        return f"{side}, {summed}, {count}", empty

    def _aim(self, side: Side, test: Test, bound: Operand) -> None:
        """Write which levels count in any group."""
        source = self.source
        source.line(f"is_unknown = {bound.null or 'False'}")
        bounds = write_bounds(source, test, bound.value)
        if test.value is None:
            self._range = bounds
            return
        inner = self.layout.inner[side.alias]
        over, empty = self._over(inner, test, bound.value)
        with source.block("if is_unknown:"):
            source.line(f"ordered_aim({inner.name}, {over}, 0, 0, True, False, False)")
        with source.block("else:"):
            source.line(f"ordered_aim({inner.name}, {over}, {', '.join(bounds)}, {empty})")

    # The rows of the view.

    def _set_row(self) -> None:
        source, word = self.source, self.layout.result.word("present")
        source.line("e = indexed_touch(result, (0,))")
        source.line(f"indexed_add(result, e, {word}, 1 - int_at(result, e, {word}))")
        for kept in self.layout.kept:
            self._set(kept)

    def _set_groups(self, alias: str) -> None:
        """Write what sets the groups that are not as they were."""
        source, made = self.source, self.layout.outer[alias]
        source.line(f"is_moved = ordered_regroup({made.name})")
        with source.block("if is_moved:"):
            self._clear_groups()
        for other in (each for each in self.layout.outer if each != alias):
            with source.block(f"if ordered_moved({self.layout.outer[other].name}):"):
                source.line("is_moved = True")
        each = f"for t in range(ordered_groups({made.name})):"
        with source.block(each), source.block(f"if {self._gather(alias)} or is_moved:"):
            group = self._group(made)
            source.line(f"e = indexed_touch(result, ({', '.join(group)},))")
            for kept in self.layout.kept:
                self._set(kept)

    def _clear_groups(self) -> None:
        """Write what sets all to nothing, because a group may be gone."""
        source, result = self.source, self.layout.result
        words = ", ".join(f"indexed_word(result, e, {i})" for i in range(result.key_words))
        with source.block("for t in range(indexed_count(result)):"):
            source.line("e = indexed_at(result, t)")
            with source.block("if e != 0:"):
                source.line(f"e = indexed_touch(result, ({words},))")
                for slot in result.payload:
                    self._clear(slot)

    def _group(self, made: Levels) -> list[str]:
        """Write what reads group t; the words of its key in `result`."""
        kind, width = made.kind, len(made.first)
        read = [f"ordered_group_key({made.name}, t, {i})" for i in range(kind.level_words - 1)]
        if not kind.has_bits:
            return read
        self.source.line(f"bits = {read[0]} & 3" if kind.is_narrow else f"bits = {read[width]}")
        words = [f"{read[0]} >> 2"] if kind.is_narrow else read[:width]
        is_nullable = any(field.nullable for field in kind.first)
        return [*words, "bits >> 1"] if is_nullable else words

    def _gather(self, alias: str) -> str:
        """The call that picks levels in group t; it returns whether the pick has changed."""
        made = self.layout.outer[alias]
        side = next(each for each in self.layout.classified.sides if each.alias == alias)
        if side.plan == "order":
            return f"ordered_regather({made.name}, {self.layout.inner[alias].name}, t)"
        is_none = "False" if side.plan == "all" else "is_unknown"
        return f"ordered_regather_keys({made.name}, t, {', '.join(self._range)}, {is_none})"

    def _clear(self, slot: Slot) -> None:
        word = self.layout.result.word(slot.name)
        if slot.kind == "sum":
            self.source.line(f"exact_clear(result, e, {word})")
        elif slot.kind == "wide":
            old = f"wide_times(wide_at(result, e, {word}), -1)"
            self.source.line(f"indexed_add_wide(result, e, {word}, {old})")
        else:
            self.source.line(f"indexed_add(result, e, {word}, -int_at(result, e, {word}))")

    def _set(self, kept: Argument) -> None:
        """Write what puts a count and a sum into entry e."""
        source, sums, result = self.source, self.layout.sums[kept.count], self.layout.result
        count = " * ".join(self._picked(alias, word) for alias, word in sums.counts.items())
        word = result.word(kept.count)
        source.line(f"indexed_add(result, e, {word}, {count} - int_at(result, e, {word}))")
        if not kept.summed:
            return
        if kept.specials[0]:
            self._set_real(kept, sums, count)
            return
        total, word = source.name("total"), result.word(kept.total)
        texts = [self._product(sums, term) for term in sums.terms]
        texts.append(f"wide_times(wide_at(result, e, {word}), -1)")
        source.line(f"{total} = {texts[0]}")
        for text in texts[1:]:
            source.line(f"{total} = wide_plus({total}, {text})")
        source.line(f"indexed_add_wide(result, e, {word}, {total})")

    def _set_real(self, kept: Argument, sums: Kept, count: str) -> None:
        """Write what puts a sum of floats into entry e."""
        source, result = self.source, self.layout.result
        total, specials = source.name("total"), [result.word(name) for name in kept.specials]
        source.line(f"{total} = 0.0")
        with source.block(f"if {count} != 0:"):  # infinite times no row is nothing
            source.line(f"{total} = {' + '.join(self._real(sums, term) for term in sums.terms)}")
        source.line(f"exact_clear(result, e, {result.word(kept.total)})")
        for word in specials:
            source.line(f"indexed_add(result, e, {word}, -int_at(result, e, {word}))")
        tests = [f"is_finite({total})", f"is_nan({total})", f"{total} > 0.0", ""]
        adds = [f"exact_add(result, e, {result.word(kept.total)}, {total}, 1)"]
        adds += [f"indexed_add(result, e, {word}, 1)" for word in specials]
        for i, (test, add) in enumerate(zip(tests, adds, strict=True)):
            head = f"{'el' if i else ''}if {test}:" if test else "else:"
            with source.block(head):
                source.line(add)

    def _real(self, sums: Kept, term: Term) -> str:
        texts = [] if term.coefficient == 1 else [repr(float(term.coefficient))]
        for alias, count in sums.counts.items():
            factor = term.factor(alias)
            word = count if factor is None else sums.factors[alias, factor]
            texts.append(self._picked(alias, word))
        return " * ".join(["1.0", *texts])

    def _product(self, sums: Kept, term: Term) -> str:
        picked = []
        for alias, count in sums.counts.items():
            factor = term.factor(alias)
            word = count if factor is None else sums.factors[alias, factor]
            picked.append(self._picked(alias, word))
        first, *others = picked
        text = f"wide_product({first}, {others[0]})" if others else f"wide_of({first})"
        for other in others[1:]:
            text = f"wide_times({text}, {other})"
        return text if term.coefficient == 1 else f"wide_times({text}, {term.coefficient})"

    def _picked(self, alias: str, word: Word) -> str:
        made = self.layout.outer[alias]
        read = "ordered_picked_real" if word.is_real else "ordered_picked"
        return f"{read}({made.name}, {made.number(word)})"


def _said(test: Test) -> str:
    core = display_expression(test.core)
    if test.value is not None:
        each = test.value.correlations[0]
        over = f"{display_expression(each.inner)} {each.operator} {display_expression(each.outer)}"
        core = f"{display_expression(test.value.call)} over {over}"
    return f"{core} {test.operator} {display_expression(test.bound)}"
