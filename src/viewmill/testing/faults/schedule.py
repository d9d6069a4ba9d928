"""A reproducible schedule of disk faults, power losses and signals.

takes  a seed
gives  for each disk operation whether it fails, and how; when the power is lost and when a signal
       arrives; the same for the same seed
"""

from __future__ import annotations

import errno
import random
import signal
from dataclasses import dataclass

OPERATIONS = ("read", "write", "sync", "replace", "remove", "open", "make")
_KINDS = (
    ("write", errno.ENOSPC), ("write", errno.EIO), ("write", 0), ("sync", errno.EIO),
    ("sync", errno.ENOSPC), ("read", errno.EIO), ("replace", errno.EIO), ("remove", errno.EIO),
    ("open", errno.EIO), ("open", errno.ENOSPC), ("make", errno.ENOSPC),
)  # fmt: skip
_FAILURE_RATE = 0.2  # of operations that fail sometimes


class PowerLoss(BaseException):
    """The power is lost: nothing that the program does has any effect from now on."""


@dataclass(frozen=True)
class Fault:
    """A failure of one kind of operation; error 0 is a short write."""

    operation: str
    error: int
    how: str  # once, sometimes, always
    begins: int  # at which operation of any kind

    def __str__(self) -> str:
        name = errno.errorcode.get(self.error, "short")
        return f"{self.operation} {name} {self.how} from {self.begins} on"


class Schedule:
    """The faults of one seed. `begin` makes them count from here; before it nothing fails."""

    def __init__(self, seed: int) -> None:
        self.seed, self.chance = seed, random.Random(seed)
        chance = self.chance
        self.span = chance.choice((20, 60, 150, 400))  # operations
        self.faults = [self._draw() for _ in range(chance.choice((0, 1, 1, 2)))]
        self.power_at = chance.randrange(self.span) if chance.random() < 0.5 else None
        self.signal_at = chance.randrange(self.span) if chance.random() < 0.3 else None
        self.is_off = self.lost_power = False
        self.count, self._is_on, self.struck = 0, False, 0

    def _draw(self) -> Fault:
        operation, error = self.chance.choice(_KINDS)
        how = self.chance.choice(("once", "sometimes", "always"))
        return Fault(operation, error, how, self.chance.randrange(self.span))

    def begin(self) -> None:
        """From now on."""
        self._is_on = True

    def heal(self) -> None:
        """Nothing fails any more; the power stays as it is."""
        self._is_on = False

    def strike(self, operation: str) -> int | None:
        """The error of this operation, None if it succeeds. Raises PowerLoss when that is so."""
        if self.is_off:
            raise PowerLoss
        if not self._is_on:
            return None
        self.count += 1
        if self.count == self.power_at:
            self.is_off = True
            raise PowerLoss
        if self.signal_at is not None and self.count >= self.signal_at:
            self._signal()
        return next((each.error for each in self.faults if self._fails(each, operation)), None)

    def _fails(self, fault: Fault, operation: str) -> bool:
        if fault.operation != operation or self.count < fault.begins:
            return False
        if fault.how == "sometimes" and self.chance.random() > _FAILURE_RATE:
            return False
        if fault.how == "once":
            self.faults.remove(fault)
        self.struck += 1
        return True

    def _signal(self) -> None:
        """Ctrl-C, where it is put off: elsewhere it would go to the test."""
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            self.signal_at = None
            signal.raise_signal(signal.SIGINT)

    def __str__(self) -> str:
        said = [str(each) for each in self.faults]
        said += [] if self.power_at is None else [f"power at {self.power_at}"]
        said += [] if self.signal_at is None else [f"signal at {self.signal_at}"]
        return f"seed {self.seed}: {'; '.join(said) or 'no fault'}"
