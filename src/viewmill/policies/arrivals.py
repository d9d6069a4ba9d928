"""Predict the next delta of each table.

takes  past deltas (rows and time), hints from upstream, declared models
gives  `Expectation`: rows and time of the next delta, whether the table is complete
next   planner.select_states, which reads an `Expectation` and never a clock

Times are UTC microseconds and come in as arguments; nothing here reads a clock.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Literal as OneOf

from viewmill.policies.seasons import HOUR, Seasons

# Assumed for an incomplete table without history, hint or model.
TYPICAL_ROWS = 1000.0
TYPICAL_DELTAS = 100.0
_TYPICAL_SHARE = 0.01  # of a table's rows, if that is less

_REMEMBERED = 64  # deltas
_MIN_HISTORY = 3  # deltas after the first load, before predictions are made from them
_TAIL = 0.99
_PATIENCE = 10.0  # a table is silent after a gap of so many times the tail of its gaps
_QUIET = 20  # and after so many commits of other tables without a delta of its own
_JUDGED_EVERY = 100_000  # microseconds between checks of a prediction from history

Basis = OneOf["nothing known", "history", "season", "model", "hint", "static"]

_HISTORY: Basis = "history"
_SEASON: Basis = "season"


@dataclass(frozen=True)
class Expectation:
    """The next delta of a table. `deltas` is how many are still expected, including this one."""

    rows: float = TYPICAL_ROWS
    at: int | None = None
    complete: bool = False
    deltas: float = TYPICAL_DELTAS
    deletes: float = 0.0  # the share of its rows that are deletes
    basis: Basis = "nothing known"

    @property
    def is_quiet(self) -> bool:
        """Whether no rows are expected."""
        return self.complete or self.rows <= 0

    def is_like(self, other: Expectation) -> bool:
        """Whether a plan for one also suits the other: they agree within a factor of two."""
        if self.is_quiet or other.is_quiet:
            return self.is_quiet == other.is_quiet
        return 0.5 <= self.rows / other.rows <= 2 and 0.5 <= self.deltas / other.deltas <= 2


COMPLETE = Expectation(0.0, None, True, 0.0)


class ArrivalTimes:
    """An empirical distribution of times between deltas."""

    def __init__(self, gaps: Sequence[float]) -> None:
        self._gaps = sorted(gaps)

    def cdf(self, gap: float) -> float:
        """The share of gaps that are at most this long."""
        return bisect_right(self._gaps, gap) / len(self._gaps)

    def quantile(self, share: float) -> float:
        """The gap that a share of all gaps does not exceed."""
        return self._gaps[min(len(self._gaps) - 1, math.ceil(share * len(self._gaps)) - 1)]

    def next_after(self, waited: float) -> float:
        """The expected gap, given that it has lasted for `waited`: the median of longer gaps.

        If no longer gap was seen, the distribution is assumed to have a long tail: twice `waited`.
        """
        longer = [each for each in self._gaps if each > waited]
        return median(longer) if longer else 2 * waited

    def deltas_within(self, waited: float, span: float) -> float:
        """How many deltas arrive in the next `span`, if none came for `waited`.

        The first comes after one of the gaps that are longer, the others at the mean rate.
        """
        rests = [each - waited for each in self._gaps if each > waited] or [waited]
        mean = max(sum(self._gaps) / len(self._gaps), 1.0)
        counts = [1.0 + (span - rest) / mean for rest in rests if rest <= span]
        return sum(counts) / len(rests)


@dataclass(frozen=True)
class Late:
    """Late rows by a geometric law: in each period a share `p` of the missing rows arrives."""

    total: float  # rows of the complete table
    p: float
    period: int  # microseconds

    def expect(self, rows: int, now: int) -> Expectation:
        """The next delta of a table that has this many rows."""
        missing = max(0.0, self.total - rows)
        if missing < 0.5:
            return Expectation(0.0, None, True, 0.0, basis="model")
        deltas = 1.0 if self.p >= 1 else max(1.0, math.log(0.5 / missing) / math.log(1 - self.p))
        coming = max(1.0, missing * self.p)
        return Expectation(coming, now + self.period, False, deltas, basis="model")

    def within(self, rows: int, span: float) -> float:
        """Rows that arrive in the next `span`: of each the chance is that of all its periods."""
        missing = max(0.0, self.total - rows)
        return missing * (1.0 - math.pow(1.0 - min(self.p, 1.0), span / self.period))


@dataclass(frozen=True)
class Periodic:
    """A fixed number of rows per period, forever or until the table has `total` rows."""

    rows: float
    period: int  # microseconds
    total: float | None = None

    def expect(self, rows: int, now: int) -> Expectation:
        """The next delta of a table that has this many rows."""
        if self.total is None:
            return Expectation(self.rows, now + self.period, basis="model")
        missing = self.total - rows
        if missing <= 0:
            return Expectation(0.0, None, True, 0.0, basis="model")
        deltas = math.ceil(missing / self.rows) if self.rows else TYPICAL_DELTAS
        coming = min(self.rows, missing)
        return Expectation(coming, now + self.period, False, deltas, basis="model")

    def within(self, rows: int, span: float) -> float:
        """Rows that arrive in the next `span`."""
        coming = self.rows * (span / self.period)
        return coming if self.total is None else min(coming, max(0.0, self.total - rows))


Model = Late | Periodic


def model_of(fields: Mapping[str, float]) -> Model:
    """A model from its fields, as the catalog stores them."""
    return Late(**fields) if "p" in fields else Periodic(**fields)  # type: ignore[arg-type]


@dataclass
class Accuracy:
    """The accuracy of past predictions."""

    deltas: int = 0
    errors: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    surprises: int = 0  # deltas on a table that was predicted complete

    def note(self, expected: Expectation, rows: int) -> None:
        """Compare a delta with its prediction."""
        self.deltas += 1
        self.surprises += expected.complete
        if expected.basis != "nothing known":
            self.errors.append(abs(expected.rows - rows) / max(rows, expected.rows, 1.0))

    @property
    def of_rows(self) -> float | None:
        """1 if all predictions were exact, 0 if all were wrong; None before the first one."""
        return 1.0 - sum(self.errors) / len(self.errors) if self.errors else None


@dataclass
class Commits:
    """The number of commits of a mill, shared by all its tables."""

    count: int = 0


class Arrivals:
    """The arrival history of one table, with its hints and model."""

    def __init__(self, *, static: bool = False, commits: Commits | None = None) -> None:
        self._static = static
        self.commits = commits or Commits()
        self._at = self.commits.count  # the commit of its last delta, or of its creation
        self._deltas: deque[tuple[int, int, int]] = deque(maxlen=_REMEMBERED)  # at, rows, deletes
        self._count = 0
        self._judged = 0  # when a prediction was last checked
        self._is_judged_always = True
        self.model: Model | None = None
        self.hint: Expectation | None = None
        self._hinted = 0  # deltas for which the hint is still valid
        self._until: int | None = None  # when it ends, if it is for a time
        self._seasons = Seasons()
        self.accuracy = Accuracy()
        self.version = 0  # changes with every hint, model and delta

    def note(self, rows: int, deletes: int, held: int, now: int) -> None:
        """Record a committed delta of the table, which had `held` rows before."""
        if now - self._judged >= _JUDGED_EVERY or self._is_judged_always:
            self._judge(rows, held, now)
        self._deltas.append((now, rows, deletes))
        if self._count:  # the first one is the load
            self._seasons.note(now, rows)
        self._count += 1
        self._at = self.commits.count
        self.version += 1
        if self._is_judged_always:
            self._use_hint()
            self._see_what_is_said()

    def _use_hint(self) -> None:
        """Count down the deltas of the hint; drop a hint "complete", which was wrong."""
        if self.hint is None or self._until is not None:
            return
        self._hinted -= 1
        if self._hinted < 1 or self.hint.complete:
            self.hint = None
        else:
            self.hint = replace(self.hint, deltas=float(self._hinted))

    def _judge(self, rows: int, held: int, now: int) -> None:
        """Check the prediction of a delta, except for the first one, which is the initial load."""
        if self._count:
            self.accuracy.note(self.expect(held, now), rows)
            self._judged = now

    def _see_what_is_said(self) -> None:
        """Decide whether every prediction is checked: hints and models are, predictions from a
        longer history only now and then, because they cost more than a small batch."""
        said = self.hint is not None or self.model is not None or self._static
        self._is_judged_always = said or self._count <= _MIN_HISTORY

    @property
    def _others(self) -> int:
        """Commits of other tables since its last delta."""
        return self.commits.count - self._at

    def say(self, hint: Expectation | None, *, deltas: int = 1, until: int | None = None) -> None:
        """Set a hint for the next `deltas` deltas, or for all until a moment; None removes it."""
        self.hint, self._hinted, self._until = hint, deltas, until
        self.version += 1
        self._see_what_is_said()

    def declare(self, model: Model | None) -> None:
        """Set the arrival model of the table; None removes it."""
        self.model = model
        self.version += 1
        self._see_what_is_said()

    def expect(self, rows: int, now: int) -> Expectation:
        """Predict the next delta of the table, which has this many rows now."""
        if self._until is not None and now >= self._until:
            self.hint = self._until = None
        if self.hint is not None:
            return self.hint
        if self.model is not None:
            return self.model.expect(rows, now)
        if self._static:
            return Expectation(0.0, None, True, 0.0, basis="static")
        if self._count <= _MIN_HISTORY:
            if self._others >= _QUIET:
                return Expectation(0.0, None, basis="history")
            return Expectation(min(TYPICAL_ROWS, max(1.0, rows * _TYPICAL_SHARE)))
        return self._from_history(now)

    def expect_within(self, rows: int, now: int, span: int) -> Expectation:
        """Predict what comes to the table in the next `span`, as one delta of at least the next."""
        following = self.expect(rows, now)
        if following.is_quiet or self.hint is not None:
            return following
        if following.at is not None and following.at > now + span:
            return following
        if self.model is not None:
            coming = self.model.within(rows, span)
        elif self._count > _MIN_HISTORY:
            known = self._known()
            waited = float(now - known[-1][0])
            coming = following.rows * _times(known).deltas_within(waited, float(span))
        else:
            return following
        times = max(1.0, coming / following.rows)
        deltas = max(1.0, following.deltas / times)
        return replace(following, rows=following.rows * times, deltas=deltas)

    def _known(self) -> list[tuple[int, int, int]]:
        """The remembered deltas, without the load."""
        known = list(self._deltas)
        return known[1:] if self._count == len(known) else known

    def _from_history(self, now: int) -> Expectation:
        known = self._known()
        rows = median(each[1] for each in known)
        times = _times(known)
        waited = float(now - known[-1][0])
        # A long gap alone may mean that the whole mill is idle; others' commits show it is not.
        is_silent = waited > _PATIENCE * max(times.quantile(_TAIL), 1.0)
        if is_silent and self._others >= _QUIET:
            return Expectation(0.0, None, basis="history")
        deletes = sum(each[2] for each in known) / max(1, sum(each[1] for each in known))
        last = known[-1][0]
        at, basis = last + int(times.next_after(waited)), _HISTORY
        usual = self._seasons.gap_after(last)
        # Within an hour the last gaps say more than other days do.
        if usual is not None and usual >= HOUR and last + usual > now:
            at, basis = last + int(usual), _SEASON
        if at // HOUR != last // HOUR:
            seasonal = self._seasons.rows_at(at)
            rows, basis = (rows, basis) if seasonal is None else (seasonal, _SEASON)
        return Expectation(float(rows), at, False, TYPICAL_DELTAS, deletes, basis)


def _times(deltas: Sequence[tuple[int, int, int]]) -> ArrivalTimes:
    return ArrivalTimes([float(b[0] - a[0]) for a, b in pairwise(deltas)])
