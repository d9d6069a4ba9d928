"""Tiers: views start with interpreted kernels and switch to compiled ones.

takes  programs of triggers
gives  maintainers: compiled ones if the cache has the kernels, else interpreted ones, which are
       replaced between two commits once a helper process has compiled their kernels

`compile="now"` waits for the compiler instead, `compile="off"` interprets for good.
"""

from __future__ import annotations

import pkgutil
import time
import weakref
from typing import TYPE_CHECKING, Any

from viewmill.program.program import Maintainer, Program

if TYPE_CHECKING:
    from viewmill.deltas.dictionary import Dictionary
    from viewmill.mill.catalog import ViewEntry
    from viewmill.mill.core import Core

_BUILD = "viewmill.kernels.build:build"
_QUEUE = "viewmill.kernels.background.queue:compile_queue"
_FASTER = "viewmill.kernels.column_reader"
_IS_WARM = "viewmill.kernels.background.warm:is_warm"

# Beyond so many rows at once, waiting for the compiler is quicker than interpreting.
_MAX_INTERPRETED_ROWS = 50_000


class Tiers:
    """The interpreted maintainers of a mill, and the compilations in progress."""

    def __init__(self, core: Core, mode: str) -> None:
        self._core, self.mode = weakref.ref(core), mode
        # The interpreted maintainers and their compilations, by the id of the maintainer.
        self.compiling: dict[int, tuple[weakref.ref[Any], Any]] = {}
        self._errors: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def build(self, program: Program, rows: int = 0) -> Any:
        """A maintainer for a program whose sources have so many rows."""
        core = self._core()
        assert core is not None
        build, dictionary = pkgutil.resolve_name(_BUILD), core.dictionary
        if self.mode == "off":
            return build(program, dictionary, compiled=False)
        is_now = self.mode == "now" or rows > _MAX_INTERPRETED_ROWS
        if is_now or pkgutil.resolve_name(_IS_WARM)(program):
            return build(program, dictionary, compiled=True)
        made = build(program, dictionary, compiled=False)
        self._start(made)
        return made

    @staticmethod
    def speed_up(dictionary: Dictionary) -> None:
        """Have compiled code keep the strings, which many of them are worth."""
        dictionary.speed_up(pkgutil.resolve_name(_FASTER))

    def _start(self, maintainer: Any) -> None:
        """Start compiling the kernels of an interpreted maintainer."""
        reference, key = weakref.ref(maintainer), id(maintainer)
        weakref.finalize(maintainer, self.compiling.pop, key, None)
        queue = pkgutil.resolve_name(_QUEUE)()
        compilation = queue.put(maintainer.program, lambda: self._replace(key))
        self.compiling[key] = reference, compilation

    def _replace(self, key: int) -> None:
        """Switch to a compiled maintainer, between two commits."""
        core = self._core()
        if core is None:
            return
        with core.lock:
            found = self.compiling.pop(key, None)
            old = None if found is None else found[0]()
            if old is None or core.closed:
                return
            assert found is not None
            if found[1].error:
                self._errors[old] = found[1].error
            else:
                self.switch_to_compiled(core, old)

    @staticmethod
    def switch_to_compiled(core: Core, old: Any) -> None:
        """Replace an interpreted maintainer by a compiled one with the same states."""
        blocks = [
            block
            for entry in core.catalog.views()
            for block in entry.blocks
            if block.maintainer.triggered is old
        ]
        if blocks:
            new = pkgutil.resolve_name(_BUILD)(old.program, core.dictionary, compiled=True)
            new.take_over(old)
            for block in blocks:
                if block.maintainer is old:
                    block.maintainer = new
                else:
                    recursion: Any = block.maintainer
                    recursion.step = new

    def of_view(self, entry: ViewEntry) -> str:
        """The lowest tier of a view's blocks: `interpreted`, `compiling` or `compiled`."""
        tiers = {self._tier(each.maintainer) for each in entry.blocks}
        return next(each for each in ("interpreted", "compiling", "compiled") if each in tiers)

    def _tier(self, maintainer: Maintainer) -> str:
        maintainer = maintainer.triggered
        if maintainer.compiled:
            return "compiled"
        return "compiling" if id(maintainer) in self.compiling else "interpreted"

    def why(self, entry: ViewEntry) -> str:
        """Why a view is not compiled; empty if it is, or if compilation is off."""
        tier = self.of_view(entry)
        if tier == "compiling":
            return "a helper process compiles its kernels; until then they are interpreted"
        errors = (self._errors.get(each.maintainer.triggered) for each in entry.blocks)
        return next((each for each in errors if each), "")

    def before_batch(self, rows: int) -> None:
        """Wait for the compiler before a batch that would take longer interpreted."""
        if rows > _MAX_INTERPRETED_ROWS:
            self.wait(None)

    def wait(self, timeout: float | None) -> bool:
        """Wait until nothing is being compiled; False if that takes longer."""
        end = None if timeout is None else time.monotonic() + timeout
        for key, (_, compilation) in list(self.compiling.items()):
            if not compilation.wait(None if end is None else max(0.0, end - time.monotonic())):
                return False
            self._replace(key)
        return True
