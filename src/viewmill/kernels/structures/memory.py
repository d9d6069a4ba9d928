"""Words at addresses. A kernel sees a state as one address and reads it with these."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_I8, _I32, _I64, _F64 = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.DoubleType()


def _loader(kind, result):
    def load(typing_context, address):
        def generate(context, builder, signature, arguments):
            return builder.load(builder.inttoptr(arguments[0], kind.as_pointer()))

        return result(types.int64), generate

    return load


def _half_loader(extend):
    def load(typing_context, address):
        def generate(context, builder, signature, arguments):
            half = builder.load(builder.inttoptr(arguments[0], _I32.as_pointer()))
            return extend(builder, half, _I64)

        return types.int64(types.int64), generate

    return load


def _half_storer(typing_context, address, value):
    def generate(context, builder, signature, arguments):
        half = builder.trunc(arguments[1], _I32)
        builder.store(half, builder.inttoptr(arguments[0], _I32.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


def _storer(kind, value_type):
    def store(typing_context, address, value):
        def generate(context, builder, signature, arguments):
            builder.store(arguments[1], builder.inttoptr(arguments[0], kind.as_pointer()))
            return context.get_dummy_value()

        return types.void(types.int64, value_type), generate

    return store


load_word = intrinsic(_loader(_I64, types.int64))
load_float = intrinsic(_loader(_F64, types.float64))
load_half = intrinsic(_half_loader(ir.IRBuilder.sext))  # four bytes
load_number = intrinsic(_half_loader(ir.IRBuilder.zext))  # the same, never negative
load_byte = intrinsic(_loader(_I8, types.uint8))
store_word = intrinsic(_storer(_I64, types.int64))
store_float = intrinsic(_storer(_F64, types.float64))
store_number = intrinsic(_half_storer)
store_byte = intrinsic(_storer(_I8, types.uint8))


@intrinsic
def call_with(typing_context, function, argument):
    """Call the C function at an address with one address, for what it does."""

    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.VoidType(), [_I64])
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), [arguments[1]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def address(typing_context, array):
    """Where an array's data lies."""

    def generate(context, builder, signature, arguments):
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.ptrtoint(made.data, _I64)

    return types.int64(array), generate


@intrinsic
def float_bits(typing_context, x):
    """The 64 bits of a float."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], _I64)

    return types.int64(types.float64), generate


@intrinsic
def bits_float(typing_context, bits):
    """The float that has these 64 bits."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], _F64)

    return types.float64(types.int64), generate


@intrinsic
def trailing_zeros(typing_context, bits):
    """How many lower bits are zero; not all of them are."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


def _spiller(kind, value_type):
    def spill(typing_context, key):
        if not isinstance(key, types.BaseTuple):
            return None

        def generate(context, builder, signature, arguments):
            memory = cgutils.alloca_once(builder, kind, size=max(len(key), 1))
            for i, each in enumerate(key):
                word = builder.extract_value(arguments[0], i)
                word = context.cast(builder, word, each, value_type)
                builder.store(word, builder.gep(memory, [ir.Constant(_I64, i)]))
            return builder.ptrtoint(memory, _I64)

        return types.int64(key), generate

    return spill


# The address of a tuple's words or floats on the stack, good until the caller returns.
spill = intrinsic(_spiller(_I64, types.int64))
spill_floats = intrinsic(_spiller(_F64, types.float64))
