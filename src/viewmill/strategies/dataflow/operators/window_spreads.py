"""STDDEV, SKEWNESS, CORR, REGR_*, ... over a frame: mean and squares around it, row after row.

A frame that begins with the partition goes on from what is kept of the row before. One that slides
is walked through: what was added to squares around a mean cannot be taken away without a trace.
"""

from __future__ import annotations

from viewmill.algebra.aggregates import Moments, moments_of
from viewmill.algebra.aggregates.moments import LARGEST_SHAPED
from viewmill.codegen.moments import show_moments, shown_moments
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.strategies.dataflow.operators.window_calls import Fold


class Spread(Fold):
    """Words: mean and squares of each argument; third and fourth powers, or the products of two;
    not finite; how many."""

    @property
    def width(self) -> int:
        """Words."""
        if self._made.has_shape:
            return 6
        return 4 if len(self.arguments) == 1 else 7

    @property
    def _made(self) -> Moments:
        made = moments_of(self.over.function)
        assert made is not None
        return made

    def _slide(self, words: list[str], at: str, to: str) -> None:
        self._walk(words, at, to)

    def _walk(self, words: list[str], at: str, to: str, *, also: str = "") -> None:
        with self.source.block(f"while {at} < {to}{also}:"):
            self._count(words, at)
            self.source.line(f"{at} = sorted_next({self.state}, {at})")

    def _count(self, words: list[str], at: str) -> None:
        """Write what adds the row at a position."""
        source = self.source
        operands = [self.argument(at, i) for i in range(len(self.arguments))]
        known = [f"not {each.null}" for each in operands if each.null is not None]
        with source.block(f"if {' and '.join(known) or 'True'}:"):
            source.line(f"{words[-1]} += 1")
            shaped = self._made.has_shape
            test = f"abs({{}}) < {LARGEST_SHAPED!r}" if shaped else "is_finite({})"
            tests = " and ".join(test.format(each.value) for each in operands)
            with source.block(f"if {tests} and {words[-2]} == 0:"):
                if shaped:
                    self._add_powers(words, operands[0].value)
                self._add(words, [each.value for each in operands])
            with source.block("else:"):
                source.line(f"{words[-2]} += 1")

    def _add(self, words: list[str], values: list[str]) -> None:
        """Write what moves the means, and adds what lies around them (Welford)."""
        source, away, near = self.source, [], []
        for i, value in enumerate(values):
            before, after, mean = self.names("away", "near", "mean")
            away.append(before)
            near.append(after)
            source.line(f"{before} = {value} - key_float({words[2 * i]})")
            source.line(f"{mean} = key_float({words[2 * i]}) + {before} / {words[-1]}")
            source.line(f"{after} = {value} - {mean}")
            source.line(f"{words[2 * i]} = float_key({mean})")
            squares = f"key_float({words[2 * i + 1]}) + {before} * {after}"
            source.line(f"{words[2 * i + 1]} = float_key({squares})")
        if len(values) == 2:
            product = f"key_float({words[4]}) + {away[0]} * {near[1]}"
            source.line(f"{words[4]} = float_key({product})")

    def _add_powers(self, words: list[str], value: str) -> None:
        """Write what adds third and fourth powers, before mean and squares move (Pébay)."""
        source, n = self.source, words[-1]
        away, step, more = self.names("away", "step", "more")
        squares, cubes, fourths = (f"key_float({words[i]})" for i in (1, 2, 3))
        source.line(f"{away} = {value} - key_float({words[0]})")
        source.line(f"{step} = {away} / {n}")
        source.line(f"{more} = {away} * {step} * ({n} - 1)")
        grown = f"{more} * {step} * {step} * ({n} * {n} - 3 * {n} + 3)"
        moved = f"6.0 * {step} * {step} * {squares} - 4.0 * {step} * {cubes}"
        source.line(f"{words[3]} = float_key({fourths} + {grown} + {moved})")
        grown = f"{more} * {step} * ({n} - 2) - 3.0 * {step} * {squares}"
        source.line(f"{words[2]} = float_key({cubes} + {grown})")

    def finish(self, scalar: Scalar) -> Operand:
        """Write the value of the words of row q."""
        source, made = self.source, self._made
        stored = [self.stored("q", i) for i in range(self.width)]
        n, value, null = self.names("n", self.over.function, "none")
        source.line(f"{n} = {stored[-1]}")
        if made.least == 0:
            return Operand(n)
        # The first argument is y, the second x.
        order = ("my", "yy", "yyy", "yyyy") if made.has_shape else ("my", "yy", "mx", "xx", "xy")
        texts = {name: f"key_float({word})" for name, word in zip(order, stored, strict=False)}
        texts["yy"] = f"max({texts['yy']}, 0.0)"
        with shown_moments(source, made, n, value, null, f"{stored[-2]} != 0"):
            show_moments(source, made, texts, value, null, n)
        return Operand(value, null)
