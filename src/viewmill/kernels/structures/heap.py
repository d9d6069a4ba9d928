"""Memory that a structure takes and gives back while a kernel runs.

A row that fans out may add any number of entries, so the structures of view trees grow where they
stand instead of asking to be called again. The memory is the C library's, but for tables that are
large: the system moves their pages to where there is more room, so that no byte is copied and none
but the new ones is touched for the first time, which is dear. Only what is huge comes in huge
pages: a guest of another system may wait milliseconds for one, however little of it is needed.
"""

from __future__ import annotations

import sys

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from viewmill.kernels.compiler import structure

_I8, _I32, _I64, _VOID = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.VoidType()
_POINTER = _I8.as_pointer()
_ALIGNED_BYTES = 4096  # from this size on memory begins at a cache line
MAPPED = 1 << 20  # from so many bytes on a table grows without being copied
HUGE = 8 << 20  # from so many bytes on memory comes in huge pages
HUGE_PAGE = 2 << 20
_MADV_HUGEPAGE = 14
_MOVES_PAGES = sys.platform == "linux"
_READ_AND_WRITE, _PRIVATE_AND_OF_NO_FILE = 3, 0x22
_STAY, _MOVE, _MOVE_TO_PLACE = 0, 1, 3


@intrinsic
def out_of_line(typing_context):
    """Keep the function that says so apart: it runs seldom, and copies take long to compile."""

    def generate(context, builder, signature, arguments):
        attributes = builder.function.attributes
        attributes.discard("alwaysinline")  # which Numba hands down to what an inlined one calls
        attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), generate


def _word(value):
    return ir.Constant(_I64, value)


def _library(builder, name, result, arguments):
    kind = ir.FunctionType(result, arguments)
    return cgutils.get_or_insert_function(builder.module, kind, name)


@intrinsic
def _malloc(typing_context, size):
    def generate(context, builder, signature, arguments):
        malloc = _library(builder, "malloc", _POINTER, [_I64])
        return builder.ptrtoint(builder.call(malloc, [arguments[0]]), _I64)

    return types.int64(types.int64), generate


@intrinsic
def _aligned_alloc(typing_context, line, size):
    def generate(context, builder, signature, arguments):
        aligned = _library(builder, "aligned_alloc", _POINTER, [_I64, _I64])
        return builder.ptrtoint(builder.call(aligned, arguments), _I64)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def _advise(typing_context, address, size, advice):
    def generate(context, builder, signature, arguments):
        advise = _library(builder, "madvise", _I32, [_POINTER, _I64, _I32])
        place = builder.inttoptr(arguments[0], _POINTER)
        builder.call(advise, [place, arguments[1], builder.trunc(arguments[2], _I32)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@structure
def allocate(size):
    """The address of `size` bytes, not cleared.

    A large place begins with a cache line, so that entries of a line's length do not straddle two,
    a huge one is made of huge pages: there are so few of them that the processor remembers them
    all, and each costs the system as much as a small one when it is first touched.
    """
    if size < _ALIGNED_BYTES:
        place = _malloc(size)
    elif size < HUGE:
        place = _aligned_alloc(64, (size + 63) & ~63)
    else:
        size = (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1)
        place = _aligned_alloc(HUGE_PAGE, size)
    if place == 0:
        # Who allocates does so before changing anything, so that what there is can be given back.
        raise MemoryError
    if size >= HUGE:
        _advise(place, size, _MADV_HUGEPAGE)
    return place


@intrinsic
def release(typing_context, address):
    """Give memory back; 0 is none."""

    def generate(context, builder, signature, arguments):
        free = _library(builder, "free", _VOID, [_POINTER])
        builder.call(free, [builder.inttoptr(arguments[0], _POINTER)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def _map(typing_context, size):
    """New pages; -1 if there are none."""

    def generate(context, builder, signature, arguments):
        given = [_POINTER, _I64, _I32, _I32, _I32, _I64]
        place, flags = ir.Constant(_POINTER, None), (_READ_AND_WRITE, _PRIVATE_AND_OF_NO_FILE, -1)
        flags = [ir.Constant(_I32, each) for each in flags]
        mapped = _library(builder, "mmap", _POINTER, given)
        found = builder.call(mapped, [place, arguments[0], *flags, _word(0)])
        return builder.ptrtoint(found, _I64)

    return types.int64(types.int64), generate


@intrinsic
def _remap(typing_context, address, old, new, flags, to):
    """Grow mapped pages, in place or moved to `to`; -1 if that fails."""

    def generate(context, builder, signature, arguments):
        place, old, new, flags, to = arguments
        place, to = builder.inttoptr(place, _POINTER), builder.inttoptr(to, _POINTER)
        given = [_POINTER, _I64, _I64, _I32, _POINTER]
        remap = _library(builder, "mremap", _POINTER, given)
        found = builder.call(remap, [place, old, new, builder.trunc(flags, _I32), to])
        return builder.ptrtoint(found, _I64)

    return types.int64(*[types.int64] * 5), generate


@intrinsic
def _unmap(typing_context, address, size):
    def generate(context, builder, signature, arguments):
        unmap = _library(builder, "munmap", _I32, [_POINTER, _I64])
        builder.call(unmap, [builder.inttoptr(arguments[0], _POINTER), arguments[1]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@structure
def _whole_pages(size):
    return (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1)


@structure
def _map_aligned(pages):
    """New pages that begin where a huge one may begin; -1 if there are none."""
    place = _map(pages + HUGE_PAGE)
    if place == -1:
        return place
    found = _whole_pages(place)
    if found > place:
        _unmap(place, found - place)
    if found < place + HUGE_PAGE:
        _unmap(found + pages, place + HUGE_PAGE - found)
    return found


if _MOVES_PAGES:

    @structure
    def allocate_table(size):
        """The address of `size` bytes that `grow_table` may make more, not cleared."""
        if size < MAPPED:
            return allocate(size)
        pages = _whole_pages(size)
        place = _map_aligned(pages) if size >= HUGE else _map(pages)
        if place == -1:
            raise MemoryError
        if size >= HUGE:
            _advise(place, pages, _MADV_HUGEPAGE)
        return place

    @structure
    def can_grow(size):
        """Whether a table of this size grows without being copied."""
        return size >= MAPPED

    @structure
    def grow_table(place, size, more):
        """Where a table is that takes `more` bytes now, holding what it held; -1 if nowhere.

        Huge pages move as they are only between places where huge pages may begin: anywhere else
        they would fall to pieces, and every look into the table take longer.
        """
        old, new = _whole_pages(size), _whole_pages(more)
        if more < HUGE:
            return _remap(place, old, new, _MOVE, 0)
        found = _remap(place, old, new, _STAY, 0) if size >= HUGE else -1
        if found == -1:
            to = _map_aligned(new)
            if to == -1:
                return to
            found = _remap(place, old, new, _MOVE_TO_PLACE, to)
            if found == -1:
                _unmap(to, new)
            elif size < HUGE:
                _advise(found, new, _MADV_HUGEPAGE)
        return found

    @structure
    def release_table(place, size):
        """Give the memory of a table back."""
        if size < MAPPED:
            release(place)
        else:
            _unmap(place, _whole_pages(size))

else:

    @structure
    def allocate_table(size):
        """The address of `size` bytes."""
        return allocate(size)

    @structure
    def can_grow(size):
        """No table grows here without being copied."""
        return False

    @structure
    def grow_table(place, size, more):
        """Never called."""
        return place

    @structure
    def release_table(place, size):
        """Give the memory of a table back."""
        release(place)


@intrinsic
def copy_bytes(typing_context, to, source, size):
    """Copy bytes; the places do not overlap."""

    def generate(context, builder, signature, arguments):
        to, source = (builder.inttoptr(each, _POINTER) for each in arguments[:2])
        cgutils.raw_memcpy(builder, to, source, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def move_bytes(typing_context, to, source, size):
    """Copy bytes; the places may overlap."""

    def generate(context, builder, signature, arguments):
        to, source = (builder.inttoptr(each, _POINTER) for each in arguments[:2])
        cgutils.raw_memmove(builder, to, source, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def clear_bytes(typing_context, address, size):
    """Set bytes to 0."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], _POINTER)
        cgutils.memset(builder, pointer, arguments[1], 0)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@structure
def allocate_cleared(size):
    """The address of `size` bytes that `grow_table` may make more; they and those are 0."""
    place = allocate_table(size)
    if not can_grow(size):  # new pages are clear before they are touched
        clear_bytes(place, size)
    return place


@intrinsic
def prefetch(typing_context, address):
    """Prefetch the cache line at `address`, which will be written."""

    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(_VOID, [_POINTER, _I32, _I32, _I32])
        name = "llvm.prefetch.p0i8" if "i8*" in str(_POINTER) else "llvm.prefetch.p0"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        pointer = builder.inttoptr(arguments[0], _POINTER)
        builder.call(function, [pointer, *(ir.Constant(_I32, x) for x in (1, 3, 1))])
        return context.get_dummy_value()

    return types.void(types.int64), generate
