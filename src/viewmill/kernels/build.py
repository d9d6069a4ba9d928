"""Build a maintainer from a program whose body is trigger source.

takes  Program with a Triggers body, the Dictionary of the mill
gives  a Maintainer: the source compiled over `structures`, or run as it is over `plain`
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import thread_time_ns
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewmill import errors
from viewmill.algebra.schema import Schema
from viewmill.deltas.arrow import shown_row
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.gathered import gather
from viewmill.deltas.product import Factor, Product, Shape
from viewmill.errors import (
    EvaluationFailed,
    InvalidArgument,
    OutOfMemory,
    ViewmillError,
    nearest,
)
from viewmill.kernels import (
    column_reader,
    compiler,
    payloads,
    sorted_stores,
    stores,
    text_store,
    tree_stores,
)
from viewmill.kernels.compiler import WORD
from viewmill.kernels.enumerator import Enumerator
from viewmill.kernels.feed import Feed, Kernel
from viewmill.kernels.functions import functions_in, functions_of
from viewmill.kernels.lookups import Lookups, text_table
from viewmill.kernels.new_stores import Touching, new_failure, new_outlet, new_scratch, new_store
from viewmill.kernels.plain import sorted_stores as plain_sorted_stores
from viewmill.kernels.plain import stores as plain_stores
from viewmill.kernels.product_feed import ProductFeed
from viewmill.kernels.source import without_head
from viewmill.program.program import Maintainer, Message, ProductTrigger, Program, Triggers
from viewmill.program.states import Indexed, Listed, StateKind


def build(
    program: Program, dictionary: Dictionary, *, compiled: bool | None = None
) -> TriggerMaintainer:
    """A maintainer for the program; `compiled` None means as VIEWMILL_COMPILER says."""
    if not isinstance(program.body, Triggers):
        raise InvalidArgument(f"strategy {program.strategy} has no triggers to build")
    return TriggerMaintainer(program, program.body, dictionary, compiler.is_on(compiled))


class TriggerMaintainer(Maintainer):
    """A program of triggers at work."""

    def __init__(
        self, program: Program, body: Triggers, dictionary: Dictionary, compiled: bool
    ) -> None:
        self.program, self.compiled = program, compiled
        self._body, self._dictionary = body, dictionary
        if compiled:
            dictionary.speed_up(column_reader)
        self._stores = {each.name: new_store(each.kind, compiled) for each in program.states}
        self._all = tuple(self._stores.values())
        kinds = [each.kind for each in program.states]
        self._commits = [
            each.commit for each, kind in zip(self._all, kinds, strict=True) if _has_journal(kind)
        ]
        self._has_notes = any(slot.is_note for each in program.states for slot in each.kind.payload)
        self._is_undone = any(not _has_journal(each.kind) for each in program.states)
        self._undo: list[tuple[Feed | ProductFeed, Delta | Product, int]] = []
        # Lists whose numbers have little room; what they hold is taken back by the triggers.
        self._narrow = [
            each
            for each in self._all
            if isinstance(each, tree_stores.ListedStore) and each.kind.may_be_narrow
        ]
        self._outgrown = array("q", [0] * len(self._narrow))  # 1 where a number did
        for i, each in enumerate(self._narrow):
            each.note_in(self._outgrown, i)
        # How to learn what takes a product; set by who knows the plan.
        self.products: Callable[[str, Shape], ProductTrigger | None] | None = None
        self._product_feeds: dict[tuple[str, Shape], ProductFeed | None] = {}
        self._summed_feeds: dict[str, ProductFeed | None] = {}  # of them, by input
        self._outlet = new_outlet(program.output, compiled)
        self._failure = new_failure(compiled)
        self._noted = self._failure.words
        ids = [dictionary.intern(each) for each in body.texts]
        made = text_store.Texts if compiled else plain_stores.Texts
        self._texts = made(ids, len(body.lookups), _wides(dictionary, compiled))
        self._lookups = Lookups(program, body, self._texts, dictionary) if body.lookups else None

        for store in self._all:
            if isinstance(store, sorted_stores.SortedStore | plain_sorted_stores.SortedStore):
                texts: Any = self._texts.handle
                store.bind_texts(texts, text_table(body.lookups))
        handles = tuple(each.handle for each in self._all)
        end = (self._texts.handle, self._failure.handle)
        functions = functions_of(program, body, compiled)
        self._feeds = {
            each.input: Feed(
                _schema_of(program, each.input),
                each,
                functions,
                (*handles, *end),
                has_lookups=self._lookups is not None and self._lookups.reads(each.input),
            )
            for each in body.triggers
        }
        emitting = (WORD,) * (len(handles) + 4)
        self._end = (*handles, self._outlet.handle, *end)
        self._functions, self._emitting = functions, emitting
        self.enumerator: Enumerator | None = None
        self._flush: Kernel | None = None
        self._nothing = Delta.empty(program.output)
        if body.enumeration is None and (body.triggers or not body.replays):
            self._flush = functions("flush", emitting)
        elif body.enumeration is not None:
            self.enumerator = Enumerator(
                body.enumeration, functions, self._stores, self._outlet, self._end,
                self._raise_failure,
            )  # fmt: skip
        self._contents: Kernel | None = None
        self._is_incomplete = False  # states were loaded, `rebuild` was not called yet
        self._replays: dict[str, Feed] = {}
        self._is_replayed = False  # since the commit: derived states went from row to row
        self._is_loaded = False  # states were loaded, those derived from them are not computed
        self.is_lost = False  # a trigger ended in the middle: what the states hold means nothing

    def apply(self, input: str, delta: Delta | Product) -> None:
        """Feed the change of one input; nothing is emitted."""
        if self._is_loaded or self._is_incomplete:
            self._settle()
        feed = self._feeds.get(input) if type(delta) is Delta else None
        if feed is None:
            self._apply_otherwise(input, delta)
            return
        assert isinstance(delta, Delta)
        if self._lookups is not None:
            self._lookups.take_delta(input, delta)
        size, arguments = feed.at_once(delta)
        if arguments is None:
            if feed.repeats(delta, size) and self._apply_repeating(input, feed, delta):
                return
            arguments = feed.arguments(delta)
        if size:
            self._run(feed, delta, size, arguments)

    def _apply_otherwise(self, input: str, change: Delta | Product) -> None:
        """Apply a product, or check a change of an input that has no trigger."""
        if isinstance(change, Delta):
            self._check_input(input)
            return
        product = self._product_feed(input, change)
        if product is None:
            self.apply(input, change.delta())
        else:
            self._apply_product(product, change)

    def _run(self, feed: Feed, delta: Delta, size: int, arguments: list[Any]) -> None:
        kernel = feed.kernel
        try:
            done = kernel(0, size, *arguments)
            while done < size and not self._noted[0]:
                self._make_room()
                done = kernel(done, size, *arguments)
        except MemoryError:
            self.is_lost = True  # in the middle of a row
            raise
        if self._is_undone:
            self._undo.append((feed, stores.owned(delta), done))
            if 1 in self._outgrown:
                self._widen()
                return
        if self._noted[0]:
            raise self._failed(delta, feed.rows)

    def _widen(self) -> None:
        """A number outgrew its room in a list: all changes since the commit are taken back, the
        state is made wide, and they are applied again."""
        changes = [(feed, change) for feed, change, _ in self._undo]
        outgrown = [each for each in self._narrow if each.has_outgrown]
        if self._failure.noted():  # by what was computed from it
            self._failure.take()
        self._apply_opposite()
        for store in self._all:
            store.rollback()
        for store in outgrown:
            store.widen()
        for feed, change in changes:
            if isinstance(feed, ProductFeed):
                assert isinstance(change, Product)
                self._apply_product(feed, change)
            else:
                assert isinstance(change, Delta)
                self._run(feed, change, *feed.given(change))

    def _apply_repeating(self, input: str, feed: Feed, delta: Delta) -> bool:
        """Feed a batch whose keys repeat, summed first where that is quicker; False if nothing
        takes it so."""
        summing = feed.summing
        if not summing.is_tried:
            summing.note_summed()
            return self._apply_summed(input, delta)
        start = thread_time_ns()
        if summing.is_next:
            if not self._apply_summed(input, delta):
                return False
        else:
            self._run(feed, delta, *feed.given(delta))
        summing.note(thread_time_ns() - start, delta.size)
        return True

    def _apply_summed(self, input: str, delta: Delta) -> bool:
        """Feed a batch that is summed by key first, as a product of one factor.

        False if nothing takes it so, or if a row fails: row by row it is found out which.
        """
        # Of rows with multiplicities, and all that are lent have some, a product has a copy.
        whole = Product(delta.schema, (Factor(tuple(range(len(delta.schema))), delta),))
        if input not in self._summed_feeds:
            self._summed_feeds[input] = self._product_feed(input, whole)
        feed = self._summed_feeds[input]
        if feed is None:
            self._feeds[input].summing.end()
            return False
        try:
            self._apply_product(feed, whole)
        except ViewmillError:
            return False
        return True

    def _product_feed(self, input: str, product: Product) -> ProductFeed | None:
        """What takes products of this shape, compiled when the first one comes."""
        shape = product.shape
        if (input, shape) not in self._product_feeds:
            trigger = None if self.products is None else self.products(input, shape)
            made = None if trigger is None else self._new_product_feed(input, trigger)
            self._product_feeds[input, shape] = made
        return self._product_feeds[input, shape]

    def _new_product_feed(self, input: str, trigger: ProductTrigger) -> ProductFeed:
        states = [each.handle for each in self._all]
        functions = functions_in(self.program.strategy, without_head(trigger.source), self.compiled)
        scratch = [new_scratch(kind, self.compiled) for _, kind in trigger.scratch]
        made = text_store.Texts if self.compiled else plain_stores.Texts
        ids = [self._dictionary.intern(each) for each in trigger.texts]
        texts = made(ids, 0, _wides(self._dictionary, self.compiled))
        return ProductFeed(
            _schema_of(self.program, input), trigger, functions, states, scratch, texts,
            self._failure.handle,
        )  # fmt: skip

    def _apply_product(self, feed: ProductFeed, product: Product) -> None:
        self._settle()
        try:
            is_done = feed.run(product)
        except MemoryError:
            self.is_lost = True
            raise
        if is_done and self._is_undone:
            self._undo.append((feed, product, 1))
        if 1 in self._outgrown:
            self._widen()
        elif self._failure.noted():
            raise self._failed(messages=feed.trigger.messages)

    def can_replay(self, input: str) -> bool:
        """Whether `replay` takes this input."""
        return any(each.input == input for each in self._body.replays)

    def replay(self, input: str, delta: Delta) -> Delta:
        """Feed rows one at a time; what the view shows after each, applied but not committed.

        A view of one row gives one row for each, another one the changes, whose multiplicity is
        that of the change times the number of the row, counted from 1.
        """
        self._settle()
        self._is_replayed = True
        feed = self._replays.get(input) or self._replay_feed(input)
        if self._lookups is not None:
            self._lookups.take_delta(input, delta)
        arguments, size = feed.arguments(delta), delta.size
        done, parts = 0, []
        while done < size:
            before = done
            done = feed.kernel(done, size, *arguments)
            if self._failure.noted():
                raise self._failed(delta)
            if done == before:
                raise EvaluationFailed("the view has too many groups to be replayed")
            parts.append(self._outlet.take())
        return concat(self.program.output, parts)

    def _replay_feed(self, input: str) -> Feed:
        trigger = next(each for each in self._body.replays if each.input == input)
        schema = _schema_of(self.program, input)
        self._replays[input] = Feed(schema, trigger, self._functions, self._end)
        return self._replays[input]

    def apply_and_flush(self, input: str, delta: Delta, is_lent: bool) -> Delta:
        """Feed the change of one input, and give that of the output: apply and flush at once.

        Lent it is good until this maintainer is asked again.
        """
        self.apply(input, delta)
        if self._flush is None:
            return self._nothing
        stopped = self._flush(0, *self._end)
        if stopped >= 0 or self._noted[0]:
            return self._finish_flush(stopped)
        return self._outlet.lend() if is_lent else self._outlet.take()

    def flush(self) -> Delta:
        """The change of the output since the last commit."""
        if self._is_loaded or self._is_incomplete:
            self._settle()
        if self._flush is None:
            return self._nothing  # a factorized result does not list its changes
        stopped = self._flush(0, *self._end)
        return self._finish_flush(stopped)

    def _finish_flush(self, stopped: int) -> Delta:
        """The rest of what is emitted, if it stopped before the end."""
        if self._noted[0]:
            raise self._failed_in_flush()
        first = self._outlet.take()
        if stopped < 0 or self._flush is None:
            return first
        return self._rest(self._flush, stopped, first)

    def commit(self) -> None:
        """Keep what was applied, or what was loaded."""
        if self._is_loaded or self._is_incomplete:
            self._settle()
        self._is_replayed = False
        self._undo.clear()
        for commit in self._commits:
            commit()

    def rollback(self) -> None:
        """Go back to exactly the last commit; what was lost must be loaded again."""
        if self.is_lost:
            self._undo.clear()
            for store in self._all:
                store.clear()
            return
        self._is_loaded = self._is_loaded or self._is_replayed
        self._is_replayed = False
        if self._failure.noted():
            self._failure.take()
        self._outlet.clear()
        self._apply_opposite()
        for store in self._all:
            store.rollback()
        if self.enumerator is not None:
            self.enumerator.moves += 1
        if self._has_notes:  # they are in no journal
            self._is_loaded = self._is_incomplete = True

    def _apply_opposite(self) -> None:
        """Take back what states without a journal hold: the last change first, negated."""
        while self._undo:
            feed, delta, done = self._undo.pop()
            if isinstance(feed, ProductFeed):
                assert isinstance(delta, Product)
                feed.run(delta.negated())
            else:
                assert isinstance(delta, Delta)
                feed.kernel(0, done, *feed.given(delta.negated())[1])
        if self._failure.noted():  # by a row that had failed before
            self._failure.take()

    def contents(self) -> Delta:
        """The output as committed."""
        if self.is_lost:
            raise OutOfMemory(
                "there was no memory for the states of the view, which were dropped",
                hint="REFRESH MATERIALIZED VIEW ... FULL, or the next change, fills them again.",
            )
        self._settle()
        if self.enumerator is not None:
            rows = list(self.enumerator.deltas())
            return concat(self.program.output, rows) if rows else Delta.empty(self.program.output)
        if self._contents is None:
            self._contents = self._functions("contents", self._emitting)
        for store in self._all:
            store.show_committed(True)
        try:
            stopped = self._contents(0, *self._end)
            if self._failure.noted():
                raise self._failed()
            delta = self._outlet.take()
            return delta if stopped < 0 else self._rest(self._contents, stopped, delta)
        finally:
            for store in self._all:
                store.show_committed(False)

    def load(self, state: str, rows: Iterable[pa.RecordBatch]) -> None:
        """Replace a state by the rows of its definition."""
        keys, payload = payloads.from_batches(self._kind(state), rows, self._dictionary)
        self._load_words(state, keys, payload)

    def _load_words(
        self, state: str, keys: npt.NDArray[np.int64], payload: payloads.Payload
    ) -> None:
        if self.enumerator is not None:
            self.enumerator.moves += 1
        self._is_loaded = any(each.derived for each in self.program.states)
        self.is_lost = False
        if self._lookups is not None:
            self._lookups.take_keys(self._kind(state), keys)
        self._stores[state].load_payload(keys, payload)
        self._is_incomplete = self._body.rebuild

    def take_over(self, other: TriggerMaintainer) -> None:
        """Hold what another maintainer of this program and dictionary has committed."""
        self.products, self.is_lost = other.products, other.is_lost
        if other.is_lost:
            return
        self.load_all(other.export_all())

    def export_all(self) -> dict[str, tuple[npt.NDArray[np.int64], payloads.Payload]]:
        """The words of all states that are not derived, as committed."""
        self._settle()
        names = [each.name for each in self.program.states if not each.derived]
        return {name: self._stores[name].export_payload() for name in names}

    def load_all(
        self, states: Mapping[str, tuple[npt.NDArray[np.int64], payloads.Payload]]
    ) -> None:
        """Hold the words of states that are not derived; the inverse of `export_all`."""
        for name, (keys, payload) in states.items():
            self._load_words(name, keys, payload)
        self._settle()
        self.commit()

    def load_kernels(self) -> None:
        """Compile or load the kernels that would otherwise wait for their first call."""
        if self.enumerator is None and self._contents is None:
            self._contents = self._functions("contents", self._emitting)
        if self._body.rebuild:
            self._functions("rebuild", (WORD,) * (len(self._all) + 2))

    def _rebuild(self) -> None:
        """Complete what was loaded with what no definition says."""
        self._is_incomplete = False
        states = self._end[: len(self._all)]
        rebuild = self._functions("rebuild", (WORD,) * (len(states) + 2))
        rebuild(*states, self._texts.handle, self._failure.handle)
        if self._failure.noted():
            raise self._failed()
        for store in self._all:
            store.commit()

    def release(self, state: str) -> None:
        """Give the state's memory back."""
        self._stores[state].clear()

    def snapshot(self, state: str) -> Iterator[pa.RecordBatch]:
        """The rows of a state as committed; `load` is the inverse."""
        keys, payload = self._stores[state].export_payload()
        return payloads.to_batches(self._kind(state), keys, payload, self._dictionary)

    def state_bytes(self) -> Mapping[str, int]:
        """Bytes held, by state."""
        return {name: store.nbytes for name, store in self._stores.items()}

    def _settle(self) -> None:
        """After a load, compute the derived states as of now: that is no change."""
        if self._is_incomplete:
            self._rebuild()
        if self._is_loaded:
            self._is_loaded = False
            self.flush()
            for store in self._all:
                store.commit()

    def _check_input(self, name: str) -> None:
        """An input without a trigger changes nothing; one that does not exist is a mistake."""
        names = [each.name for each in self.program.inputs]
        if name not in names:
            raise InvalidArgument(f"no input {name}", hint=nearest(name, names))

    def _kind(self, state: str) -> StateKind:
        return next(each.kind for each in self.program.states if each.name == state)

    def _rest(self, kernel: Kernel, stopped: int, first: Delta) -> Delta:
        parts = [first]
        while stopped >= 0:
            stopped = kernel(stopped, *self._end)
            if self._failure.noted():
                raise self._failed_in_flush() if kernel is self._flush else self._failed()
            parts.append(self._outlet.take())
        return gather(self.program.output, parts)

    def _raise_failure(self) -> None:
        if self._failure.noted():
            raise self._failed()

    def _make_room(self) -> None:
        grown = [store.make_room() for store in self._all]
        if not any(grown):
            raise RuntimeError("a trigger stopped, but no state is full")

    def _failed(
        self, delta: Delta | None = None, rows: npt.NDArray[np.int64] | None = None,
        *, messages: tuple[Message, ...] | None = None,
    ) -> ViewmillError:  # fmt: skip
        """What failed, and in which row of a delta; `rows` are those that the trigger was given."""
        code, row = self._failure.take()
        row = row if rows is None else int(rows[row])
        self._outlet.clear()
        message = (self._body.messages if messages is None else messages)[code]
        detail = ""
        if delta is not None and 0 <= row < delta.size:
            # What an inner block gives is a row on the way, as that of a join.
            is_inner = all("#" in each.source for each in self.program.inputs)
            where = "the row" if is_inner else f"row {row} of the batch"
            detail = f"{where}: {shown_row(delta, row, self._dictionary)}"
        return _error_class(message)(message.text, detail=detail, span=message.span)

    def _failed_in_flush(self) -> ViewmillError:
        """What failed, and in which row of the result."""
        t = self._failure.row
        failed = self._failed()
        store = self._stores.get(self._body.result)
        if isinstance(store, Touching):
            key, kind = store.touched_key(t), self._kind(self._body.result)
            if key:
                words = np.array([key], np.int64)
                shown = shown_row(payloads.key_delta(kind, words), 0, self._dictionary)
                failed.detail = f"a row of the result: {shown}"
        return failed


class _CurrentWides:
    """The codes of wide numbers as the dictionary has them now; a compiled maintainer that comes
    later makes it keep them elsewhere."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary

    def code(self, number: int) -> int:
        """The word of a number, a new one if need be."""
        return self._dictionary.wide.code(number)

    def number(self, code: int) -> int:
        """What a word stands for."""
        return self._dictionary.wide.number(code)


def _wides(dictionary: Dictionary, compiled: bool) -> Any:
    return dictionary.wide if compiled else _CurrentWides(dictionary)


def _error_class(message: Message) -> type[ViewmillError]:
    found = getattr(errors, message.kind, EvaluationFailed)
    assert issubclass(found, ViewmillError)
    return found


def _has_journal(kind: StateKind) -> bool:
    return not isinstance(kind, Indexed | Listed) or kind.journal


def _schema_of(program: Program, name: str) -> Schema:
    return next(each.schema for each in program.inputs if each.name == name)
