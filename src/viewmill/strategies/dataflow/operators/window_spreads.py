"""STDDEV, VARIANCE, CORR, COVAR, REGR_* over a frame: mean and squares around it, row after row.

A frame that begins with the partition goes on from what is kept of the row before. One that slides
is walked through: what was added to squares around a mean cannot be taken away without a trace.
"""

from __future__ import annotations

from collections.abc import Callable

from viewmill.codegen.moments import FINITE, RESULTS, SPREADS
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.strategies.dataflow.operators.window_calls import Fold


class Spread(Fold):
    """Words: mean and squares of each argument, for two their products; not finite; how many."""

    @property
    def width(self) -> int:
        """Words."""
        return 4 if len(self.arguments) == 1 else 7

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
            tests = " and ".join(f"is_finite({each.value})" for each in operands)
            with source.block(f"if {tests} and {words[-2]} == 0:"):
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

    def finish(self, scalar: Scalar) -> Operand:
        """Write the value of the words of row q."""
        source, function = self.source, self.over.function
        stored = [self.stored("q", i) for i in range(self.width)]
        n, value, null = self.names("n", function, "none")
        source.line(f"{n} = {stored[-1]}")
        if function == "regr_count":
            return Operand(n)
        source.line(f"{null} = {n} < {2 if function.endswith('_samp') else 1}")
        source.line(f"{value} = 0.0")
        with source.block(f"if not {null}:"):
            with source.block(f"if {stored[-2]} != 0:"):
                is_null = function in FINITE
                source.line(f"{null} = True" if is_null else f"{value} = 1e400 - 1e400")
            with source.block("else:"):
                self._result(value, null, n, stored)
        return Operand(value, null)

    def _result(self, value: str, null: str, n: str, stored: list[str]) -> None:
        source, function = self.source, self.over.function
        read: Callable[[int], str] = lambda i: f"key_float({stored[i]})"  # noqa: E731
        if function in SPREADS:
            divisor = n if function.endswith("_pop") else f"({n} - 1)"
            source.line(f"{value} = max({read(1)}, 0.0) / {divisor}")
            if function.startswith("stddev"):
                source.line(f"{value} = {value} ** 0.5")
            return
        if function in ("regr_avgx", "regr_avgy"):
            source.line(f"{value} = {read(2 if function == 'regr_avgx' else 0)}")
            return
        # The first argument is y, the second x.
        sxx, syy, sxy = self.names("sxx", "syy", "sxy")
        for name, i in ((sxx, 3), (syy, 1), (sxy, 4)):
            source.line(f"{name} = {read(i)}")
        divisor, text = RESULTS[function]
        if divisor:
            source.line(f"{null} = {divisor.format(xx=sxx, yy=syy)} == 0.0")
        with source.block(f"if not {null}:"):
            filled = text.format(xx=sxx, yy=syy, xy=sxy, n=n, my=read(0), mx=read(2))
            source.line(f"{value} = {filled}")
