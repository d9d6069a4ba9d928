"""What a program keeps between batches, and the functions a trigger may use on it.

A state is declared here and lives in `kernels`: compiled structures, or plain ones that share no
code with them. Each has a definition, so it can be built in bulk, dropped, and built again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar
from typing import Literal as OneOf

from viewmill.algebra.relations import Relation
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import (
    BIGINT,
    DOUBLE,
    Boolean,
    Date,
    Decimal,
    Integer,
    Nested,
    String,
    Type,
)


@dataclass(frozen=True)
class Slot:
    """One component of a payload.

    int   a 64-bit integer (counts)
    wide  a 128-bit integer in two words: sums of integers and decimals never overflow inside
    sum   the exact sum of floats in three words, or the way to as many as it takes (see
          kernels.structures.exact_sums); NaN and infinities are counted in int slots
    floats  `size` floats of which only their ring knows what they are. Nobody asks whether they
          are zero: a bag in an int slot says whether there are rows behind them. `lows` more are
          for what rounding takes: they lie behind all slots, and no snapshot has them

    A note is computed from other states: an entry in which all else is zero is dropped, whatever
    its notes say. No journal has it; after a load or a rollback `rebuild` writes it again.
    """

    name: str
    kind: OneOf["int", "wide", "sum", "floats"]
    is_note: bool = field(default=False, repr=False)
    size: int = 1
    lows: int = 0

    @property
    def words(self) -> int:
        """How many 8-byte words it takes."""
        return {"int": 1, "wide": 2, "sum": 3, "floats": self.size}[self.kind]

    @property
    def is_exact(self) -> bool:
        """Whether adding and taking away leaves exactly what was there."""
        return self.kind in ("int", "wide")

    @property
    def type(self) -> Type:
        """The type of its column in definitions and snapshots."""
        types: dict[str, Type] = {
            "int": BIGINT, "wide": Decimal(38, 0), "sum": DOUBLE, "floats": Nested("ARRAY<DOUBLE>"),
        }  # fmt: skip
        return types[self.kind]


class KeysAndPayloads:
    """What all states have in common: words of a key, and words of the payload that it leads to.

    Each kind names the functions of trigger source that are its own. `adds` only add to a state,
    or prefetch from it: a trigger that calls no others does not need what is in the state.
    """

    adds: ClassVar[str] = ""
    reads: ClassVar[str] = ""

    if TYPE_CHECKING:  # a dataclass would take a property for the default of its field

        @property
        def key(self) -> tuple[Field, ...]: ...

        @property
        def payload(self) -> tuple[Slot, ...]: ...

    @property
    def parts(self) -> tuple[tuple[Field, ...], ...]:
        """The parts of a key that have a word of null bits of their own."""
        return (self.key,)

    @property
    def has_null_word(self) -> bool:
        """Whether keys end with a word of null bits."""
        return any(field.nullable for field in self.key)

    @property
    def key_words(self) -> int:
        """Words in a key, as definitions and snapshots have it."""
        return len(self.key) + self.has_null_word

    @property
    def payload_words(self) -> int:
        """Words in a payload."""
        return sum(slot.words for slot in self.payload)

    def word(self, name: str) -> int:
        """The number of the first word of slot `name`."""
        at = 0
        for slot in self.payload:
            if slot.name == name:
                return at
            at += slot.words
        raise KeyError(name)

    @property
    def schema(self) -> Schema:
        """The columns of its definition and of its snapshots: key, then one for each slot."""
        slots = tuple(Field(slot.name, slot.type, nullable=False) for slot in self.payload)
        return Schema(self.key + slots)


@dataclass(frozen=True)
class Keyed(KeysAndPayloads):
    """A map from key to payload, with every key touched since the last commit noted.

    Functions, with `s` the state, `e` an entry, `k` the number of the payload's first word:

    keyed_full(s)                    no room for one more touch: return the row, be called again
    keyed_touch(s, (w0, w1, ...))    the entry of a key (made if absent); its old payload is noted
    keyed_add(s, e, k, x)            int slot += x
    keyed_add_wide(s, e, k, x, m)    wide slot += x * m
    keyed_add_value(s, e, k, w, m)   wide slot += w * m, of a wide value, which fits
    keyed_add_carried(s, e, k, c, w, m)   the same; int slot c counts how often it left 128 bits
    exact_add(s, e, k, x, m)         sum slot += x * m
    keyed_touched(s)                 how many keys were touched since the last commit
    keyed_before(s, t), keyed_now(s, t)   touched key t as it was at the last commit, and as it is
    keyed_capacity(s), keyed_at(s, i)     every position, and its entry or -1 where there is none
    key_word(s, e, i)                word i of the key of entry e
    int_at(s, e, k)  wide_fits(s, e, k)  wide_int(s, e, k)  wide_float(s, e, k)  sum_at(s, e, k)
    exact_part(s, e, k, i)           part i of a sum: three floats whose exact sum it is
    moment_add(s, e, k, x, m)  moment_cross(s, e, c, x, y, m)
    moment_mean(s, e, k, n)  moment_central(s, e, k, j, c, n)    of sum slots, see `moments`
    wide_ratio_fits(s, e, k, scale, n)  wide_ratio(s, e, k, scale, n)    wide * scale / n, half up

    A key is one word per column (`float_key(x)` makes the word of a float) and, where any column is
    nullable, one last word with a bit for each column that is NULL, whose own word is then 0.
    """

    adds: ClassVar[str] = """
        keyed_add keyed_add_carried keyed_add_value keyed_add_wide keyed_full keyed_touch
    """
    reads: ClassVar[str] = """
        keyed_at keyed_before keyed_capacity keyed_now keyed_touched
    """

    key: tuple[Field, ...]
    payload: tuple[Slot, ...]


@dataclass(frozen=True)
class Indexed(KeysAndPayloads):
    """A map from key to payload that grows while a trigger runs: a row may add many entries.

    Functions besides those that read payloads (`int_at`, `sum_at` and the like):

    indexed_find(s, (w0, ...))       the entry of a key, or 0
    indexed_touch(s, (w0, ...))      the entry, made if absent; it holds until the next touch of `s`
    indexed_is_zero(s, e, k, n)      whether n words of the payload from word k are zero
    indexed_settle(s, e)             the change of e is done: without journal it is dropped if zero
    indexed_add(s, e, k, x)  indexed_add_wide(s, e, k, w)  exact_add(s, e, k, x, m)
    indexed_word(s, e, i)            word i of the key of entry e
    indexed_fetch(s, (w0, ...))  indexed_fetch_entry(s, (w0, ...))
                                     ask the memory for where the entry of a key is, and then for
                                     the entry: it will be needed soon
    exceeds_cache(s)                 whether the state is so large that prefetching pays
    wide_at(s, e, k)                 a wide slot as a value

    Only with a journal, which notes each key touched since the last commit:

    indexed_touched(s)  indexed_before(s, t)  indexed_now(s, t)
    indexed_old(s, e)                entry e as it was at the last commit
    indexed_count(s)  indexed_at(s, i)    every position, and its entry or 0 where there is none

    Without one a rollback runs the triggers again, with the opposite multiplicities. Low parts of
    floats get room when the first addition needs them, which sums of whole numbers never do; or,
    `roomy`, from the start.
    """

    adds: ClassVar[str] = """
        indexed_add indexed_add_wide indexed_fetch indexed_fetch_entry indexed_settle
        indexed_touch
    """
    reads: ClassVar[str] = """
        indexed_at indexed_before indexed_commit indexed_count indexed_find indexed_is_zero
        indexed_now indexed_old indexed_touched indexed_word
    """

    key: tuple[Field, ...]
    payload: tuple[Slot, ...]
    journal: bool = False
    roomy: bool = False

    @property
    def low_words(self) -> int:
        """Words for the low parts of floats."""
        return sum(slot.lows for slot in self.payload)

    def low_word(self, name: str) -> int:
        """The number of the first low word of slot `name`, counted from the payload's first."""
        names = [slot.name for slot in self.payload]
        before = self.payload[: names.index(name)]
        return self.payload_words + sum(slot.lows for slot in before)


@dataclass(frozen=True)
class Listed(KeysAndPayloads):
    """A map whose entries are visited by the first columns of their key; it grows like `Indexed`.

    list_of(s, (w0, ...))            the list of the entries whose first columns are these, or 0
    list_size(s, l)  list_at(s, l, j)    its entries
    list_find(s, (first ...), (rest ...))     the entry of a whole key, or 0
    list_touch(s, (first ...), (rest ...))    the entry, made if absent
    list_is_zero(s, e, k, n)         as indexed_is_zero
    list_settle(s, (first ...), e)   the change of e is done: it is dropped if zero
    list_word(s, e, i)               word i of the rest of the key
    list_fetch(s, (first ...))  list_fetch_head(s, (first ...))  list_fetch_entries(s, (first ...))
                                     ask the memory for a list, in three steps; list_fetch_end is
                                     the third for one that is not visited but added to
    linked_find(t, (w0, ...), s, e, k)  linked_touch(t, (w0, ...), s, e, k)
                                     as indexed_find and indexed_touch of state t; a link, word k of
                                     entry e, remembers where that was
    list_fetch_linked(s, (first ...), k, t)  list_fetch_next(s, l, j, k, t)
                                     ask the memory for what the links of a list lead to in state t
    and indexed_add, int_at and the like; with `may_be_narrow`, for slots of ints and wide numbers
    that have less room while they are small and no journal, in their stead list_int(s, e, k)
    list_wide(s, e, k)  list_add(s, e, k, x)  list_add_wide(s, e, k, w)

    First columns and rest each end with a word of null bits if one of them is nullable. With a
    journal every touched entry is noted as it was, and a rollback puts it back. Links are words
    behind the payload, no part of it: they are neither noted nor snapshotted.
    """

    adds: ClassVar[str] = """
        linked_touch list_add list_add_wide list_fetch list_fetch_end list_fetch_entries
        list_fetch_head list_fetch_linked list_fetch_next list_settle list_touch
    """
    reads: ClassVar[str] = """
        linked_find list_at list_find list_int list_is_zero list_of list_size list_wide
        list_word
    """

    first: tuple[Field, ...]
    rest: tuple[Field, ...]
    payload: tuple[Slot, ...]
    journal: bool = False
    links: int = 0
    may_be_narrow: bool = False

    @property
    def key(self) -> tuple[Field, ...]:
        """All columns of the key."""
        return self.first + self.rest

    @property
    def parts(self) -> tuple[tuple[Field, ...], ...]:
        """The parts of a key that have a word of null bits of their own."""
        return (self.first, self.rest)

    @property
    def first_words(self) -> int:
        """Words in the first part of a key."""
        return len(self.first) + any(field.nullable for field in self.first)

    @property
    def rest_words(self) -> int:
        """Words in the rest of a key."""
        return len(self.rest) + any(field.nullable for field in self.rest)

    @property
    def key_words(self) -> int:
        """Words in a key."""
        return self.first_words + self.rest_words


@dataclass(frozen=True)
class Passing(KeysAndPayloads):
    """Rows on their way to the next block, with their multiplicity; empty after every commit.

    It is touched and visited like `Indexed`: indexed_touch, indexed_add, indexed_count, indexed_at.
    """

    key: tuple[Field, ...]

    @property
    def payload(self) -> tuple[Slot, ...]:
        """The multiplicity."""
        return (Slot("count", "int"),)


@dataclass(frozen=True)
class Ordered(KeysAndPayloads):
    """Levels in the order of their key, each with one word for each slot; rows with a NULL key are
    a level apart. It grows like `Indexed`; a rollback takes every noted change back.

    With `first` columns there are such levels for each group of them. A key is then the words of
    `first`, a word of null bits (bit 0: the level is NULL) if any column is nullable, the level. If
    `first` is one narrow column, its word and the bits are one: (word << 1 + len(first)) | bits.

    ordered_add(s, (k0, ...), (w0, ...))    a level += words: made if absent, dropped when zero
    ordered_add_null(s, (w0, ...))          the same for the level of NULL
    ordered_total(s, j)  ordered_null(s, j)   word j of all levels, of the level of NULL
    ordered_from(s, (k0, ...))  ordered_after(s, (k0, ...))   the first position with a key >=, >
    ordered_before(s, p, j)                 the sum of word j over the levels before a position
    ordered_end(s)  ordered_next(s, p)  ordered_key(s, p, j)  ordered_word(s, p, j)
    ordered_reach(s, j, x)                  the first position up to which word j sums to x
    ordered_pick(s, side, j, c, low, high, bounded, outside, empty)
                     picks levels by the sum of word j over the levels <=, <, >=, > (side 0 to 3);
                     while no level is negative in the watched word: one range, else one by one
    ordered_pick_run(s, p, q, side, ...)    the same by sums over the levels from p to q alone
    ordered_pick_keys(s, low, high, bounded, outside)  ordered_pick_all(s)  ordered_pick_none(s)
    ordered_picked(s, j)                    word j of the levels that were picked last
    ordered_strained(s)                     whether some sum of levels could leave 64 bits, or
                                            floats have lost digits to larger ones that left

    ordered_aim(s, side, j, c, low, high, bounded, outside, empty)
                     what `ordered_pick` would pick, noted in terms of keys for another state's sake
    ordered_gather_keys(s, p, q, low, high, bounded, outside)
                     picks among positions p to q, which are one group, by the level
    ordered_regroup(s)                      whether all groups have to be gathered anew
    ordered_groups(s)  ordered_group_key(s, t, j)    how many groups there are, and their keys
    ordered_regather(s, by, t)              picks in group t of `s` as aimed in `by`; whether that
                                            is something else than the last time
    ordered_regather_keys(s, t, low, high, bounded, outside, is_none)
    ordered_moved(s)                        whether something else is picked than the last time

    Picked are words `results` and after. Sums are modulo 2^64; `wide` slots hold what fits a word.

    A `sum` slot is a float: three words, of which a change gives the bits of what is added and two
    zeros; the slot behind it counts what is not finite: infinity 1, minus infinity 2^32, NaN both.
    Bounds on it, and levels that are floats, are `sort_word(float_key(x))`.
    ordered_total_real(s, j)  ordered_picked_real(s, j)  ordered_picked_finite(s, j)
    first_whole(x, scale, strict)           the first whole q for which q / scale >= x, or > x
    no_whole(x, scale, strict)              whether there is none
    """

    adds: ClassVar[str] = """
        ordered_add ordered_add_null
    """
    reads: ClassVar[str] = """
        ordered_after ordered_aim ordered_before ordered_end ordered_from ordered_gather_keys
        ordered_group_key ordered_groups ordered_key ordered_moved ordered_negative ordered_next
        ordered_null ordered_pick ordered_pick_all ordered_pick_keys ordered_pick_none
        ordered_pick_run ordered_picked ordered_picked_finite ordered_picked_real ordered_reach
        ordered_regather ordered_regather_keys ordered_regroup ordered_size ordered_strained
        ordered_total ordered_total_real ordered_word
    """

    level: Field
    payload: tuple[Slot, ...]
    results: int = 0
    watched: int | None = None  # the word whose negative levels are counted
    first: tuple[Field, ...] = ()
    counted: int | None = (
        None  # a word of row counts: negative while deletes wait for their inserts
    )

    @property
    def key(self) -> tuple[Field, ...]:
        """The columns of groups and levels."""
        return (*self.first, self.level)

    @property
    def has_bits(self) -> bool:
        """Whether keys have null bits."""
        return bool(self.first) and any(field.nullable for field in self.key)

    @property
    def is_narrow(self) -> bool:
        """Whether null bits fit the word of the only first column."""
        narrow = (Boolean, Date, String)
        return len(self.first) == 1 and (
            isinstance(self.first[0].type, narrow)
            or (isinstance(self.first[0].type, Integer) and self.first[0].type.bits <= 32)
        )

    @property
    def level_words(self) -> int:
        """Words in a key inside the state."""
        return len(self.key) + (self.has_bits and not self.is_narrow)

    @property
    def payload_words(self) -> int:
        """Words in a level."""
        return sum(slot.words if slot.kind == "sum" else 1 for slot in self.payload)

    def word(self, name: str) -> int:
        """The number of the first word of slot `name`."""
        before = [slot.name for slot in self.payload].index(name)
        return sum(s.words if s.kind == "sum" else 1 for s in self.payload[:before])


SortWord = OneOf[
    "number", "text", "text_down", "number_down", "float", "float_down", "wide", "wide_down"
]


@dataclass(frozen=True)
class Sorted(KeysAndPayloads):
    """Rows in an order, each with payload words (int slots), walked from neighbour to neighbour.

    A key is as many words as `words` says, each a number or the id of a string that is compared as
    text, up or down; whoever writes keys sees to it that numbers are in order (`sort_word`).

    sorted_insert(s, (w0, ...))  sorted_remove(s, (w0, ...))    a row comes or goes
    sorted_from(s, (w0, ...))  sorted_after(s, (w0, ...))   the first position whose first words are
                                     at least these, more than these
    sorted_end(s)  sorted_next(s, p)  sorted_prev(s, p)
    sorted_step(s, p, k, begin, end)     k positions further, but not out of begin to end
    sorted_offset(s, p, k, begin, end)   the same, or -1 if that is no row within begin to end
    sorted_key(s, p, i)  sorted_word(s, p, j)  sorted_put(s, p, (w0, ...))
    sorted_same(s, p, q, n)          whether two rows have their first n words in common

    It is never loaded: `rebuild` fills it from other states. With `passing` it is empty after every
    commit.

    With `nulls_first`, for each column whether its NULL comes before its values, keys are those of
    `Indexed`, and `words` says how the word of each column compares. Such a state counts equal rows
    in word 0 and is loaded; word 1 is a mark:

    sorted_count(s, (w0, ...), m)    a row is there m times more. One that comes gets mark 1 behind
                                     a row that has it, else 0; gives the mark of one that goes
    """

    reads: ClassVar[str] = """
        sorted_after sorted_count sorted_end sorted_from sorted_insert sorted_key sorted_next
        sorted_offset sorted_prev sorted_put sorted_remove sorted_same sorted_step sorted_word
    """

    key: tuple[Field, ...]
    words: tuple[SortWord, ...]
    payload: tuple[Slot, ...] = ()
    passing: bool = False
    nulls_first: tuple[bool, ...] | None = None


# All kinds; each has a store in `kernels.new_stores`, compiled and plain.
StateKind = Keyed | Indexed | Listed | Passing | Ordered | Sorted

# Wide values, modulo 2^128: wide_of(x)  wide_product(x, y)  wide_times(w, x)  wide_mul(w, v)
# wide_plus(w, v)  wide_is_zero(w)  wide_value_fits(w)  wide_low(w)  wide_to_real(w); as two words:
# wide_high(w)  wide_from(low, high). Besides wide_minus(w, v)  wide_negate(w)  wide_absolute(w) and
# -1, 0 or 1 from wide_compare(w, v) and, for a sum out of 128 bits, from wide_carry(w, v).
# Checked, with (errors, code, row) first: wide_within(..., w, limit)
# wide_narrow(..., w, low, high), an int; wide_ratio_of(..., a, b, c, rounding) is a * b / c, cut
# off (0), half up (1), down (2) or up (3); wide_sum_of(..., a, b, c, d) is (a * b + c) / d, half
# up, and wide_rest_of(..., a, b, c, d) what dividing a * b by c * d leaves.
# The word of a wide decimal in a column: wide_word(texts, w)  wide_number(texts, word), its value,
# and wide_less(texts, word, other).
# A compensated float is two words as well: pair_add(high, low, x) gives both.


# Exact sums of floats. exact_at(s, e, k) is the one in a slot; one under way needs the room of
# EXACT_WORDS words: exact_of(p, x, m)  exact_wide(p, w)  exact_none(p)  exact_times(p, a, n)
# exact_times_wide(p, a, w)  exact_mul(p, a, b)  exact_scaled(p, a, x, y, z), that is
# a (x + y + z)  exact_less(p, x, a), that is x - a. exact_is_zero(a) and exact_float(a), which is
# rounded once, ask; exact_clear(s, e, k) makes a slot zero, exact_add_number(s, e, k, a) adds.
EXACT_WORDS = 75
EXACT_ROOM = f"scratch({EXACT_WORDS})"

# Payloads of rings that are more than numbers. scratch(n) is room for n floats under way,
# floats_at(s, e, k) are those kept in an entry, floats_clear(s, e, k, n) makes them zero, and
# floats_clear_low(s, e, k, n) low parts, if they have room.
# A block under way has its low parts elsewhere; where there are none, they are at 0, as
# floats_low(s, e, k, low, n, is_listed) says of kept ones. cofactor_lift(p, low, m, (x, ...)) and
# cofactor_join(p, low, (a, ...), (lows, ...), (columns, ...)) write both and give where low ones
# are; cofactor_none(p, n) makes zeros, cofactor_needs_low((lows, ...)) asks.
# And cofactor_gather(p, own, (a, ...), (columns, ...), change), which adds the product to p, once
# cofactor_gathered(p, own, (columns, ...), change) has put in its place what is in `own`;
# cofactor_add(s, e, k, low, p, lows, n), cofactor_add_total for results, cofactor_add_whole, which
# gives the entry, for it may have moved; cofactor_show(p, s, e, k, low, order, columns, pad), and
# cofactor_turn(p, a, order, columns), which puts columns in another order, cofactor_pad(p, a,
# columns, pad), which pads rows.
# cofactor_has_lost(s, e, k, low, n, columns, pad, gathered) says after an addition whether two
# floats do not carry what is left of what was there, cofactor_has_lost_whole where low parts may
# have no room. Then exact blocks take over, whose numbers are sum slots side by side:
# exact_block_lift(p, m, (x, ...))  exact_block_none(p, n)  exact_block_at(s, e, k, n)
# exact_block_join(p, (a, ...), (steps, ...), (columns, ...))  exact_block_add(s, e, k, p, step, n)
# exact_block_add_floats(s, e, k, p, n)  exact_block_turn(p, a, step, order, columns)
# exact_block_show(p, s, e, k, order, columns); steps are the bytes between two numbers.
# bag_row((w, ...))  bag_times(a, b)  bag_plus(a, b)  bag_add(s, e, k, x)   say whether rows are
# behind a payload.

# The rows a trigger hands out. emit_word(out, c, x) and emit_float(out, c, x) set column c of the
# row under way, emit_packed(out, c, p) does so with a value of several words, emit_null(out, c)
# makes it NULL, emit(out, m) completes it; emit_full(out) says that there is no room for two more;
# emit_cancel(out) drops the last two if they are the same row.

# fail(errors, code, row) notes the first failure, failed(errors) asks; the code is a message's.
# failed_at(errors, row) says afterwards which row it was.
# text(texts, i) is the dictionary id of Triggers.texts[i].
# out_of_line() keeps the function that says so apart: it takes less time to compile.


@dataclass(frozen=True)
class Replay:
    """The definition of a state that no SQL states: the inputs fed again, one after another."""


@dataclass(frozen=True)
class State:
    """Something kept between batches."""

    name: str
    kind: StateKind
    definition: Relation | Replay
    derived: bool = False  # computed from the other states by `flush`, never loaded
    passing: bool = False  # needed only until the tables that never change are fed
