"""What kernels compute with: integers of a width, and instructions for which Python has no word.

Memory that is given as an address (`word_at`, `put_word`) has no length to check against.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from streamer.kernel import CHECKED

_do_boundscheck: Any = cgutils.do_boundscheck


def bytes_at(context: Any, builder: Any, kind: Any, array: Any, index: Any, count: int) -> Any:  # noqa: ANN401 - numba's untyped extension API
    """Return the address of `count` bytes of a uint8 array from `index` on, for an intrinsic."""
    structure = context.make_array(kind)(context, builder, array)
    if CHECKED:
        for each in (index, builder.add(index, index.type(count - 1))):
            _do_boundscheck(context, builder, each, structure.nitems)
    return builder.gep(structure.data, [index])


if TYPE_CHECKING:
    # For the type checker a kernel computes with plain integers; what follows gives them their
    # width.
    def int64(value: int) -> int: ...
    def uint8(value: int) -> int: ...
    def uint32(value: int) -> int: ...
    def uint64(value: int) -> int: ...
    def popcount(value: int) -> int: ...
    def trailing_zeros(value: int) -> int: ...
    def load_u64(array: npt.NDArray[np.uint8], index: int) -> int: ...
    def store_u64(array: npt.NDArray[np.uint8], index: int, word: int) -> None: ...
    def word_at(address: int, index: int) -> int: ...
    def put_word(address: int, index: int, word: int) -> None: ...
    def prefetch(address: int, index: int) -> None: ...

else:
    from numba import int64, uint8, uint32, uint64  # noqa: F401 - kernels import them from here

    @intrinsic
    def popcount(_context: Any, value: Any) -> Any:  # noqa: ANN401 - numba's untyped extension API
        """Count the one bits of an unsigned 64-bit integer (one machine instruction)."""

        def generate(_ctx: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401
            return builder.ctpop(arguments[0])

        return types.uint64(types.uint64), generate

    @intrinsic
    def trailing_zeros(_context: Any, value: Any) -> Any:  # noqa: ANN401 - as popcount
        """Count the zero bits below the lowest one bit of an unsigned 64-bit integer; 64 for 0."""

        def generate(_ctx: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401
            return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

        return types.uint64(types.uint64), generate

    @intrinsic
    def load_u64(_context: Any, array: Any, index: Any) -> Any:  # noqa: ANN401 - as popcount
        """Read eight bytes of a uint8 array, little-endian, at any byte offset."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
            place = bytes_at(context, builder, signature.args[0], *arguments, 8)
            return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)

        return types.uint64(array, types.intp), generate

    @intrinsic
    def store_u64(_context: Any, array: Any, index: Any, word: Any) -> Any:  # noqa: ANN401 - as popcount
        """Write eight bytes of a uint8 array, little-endian, at any byte offset."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
            place = bytes_at(context, builder, signature.args[0], *arguments[:2], 8)
            words = builder.bitcast(place, ir.IntType(64).as_pointer())
            builder.store(arguments[2], words, align=1)
            return context.get_dummy_value()

        return types.void(array, types.intp, types.uint64), generate

    def _pointer(builder: Any, address: Any, index: Any) -> Any:  # noqa: ANN401 - as popcount
        words = builder.inttoptr(address, ir.IntType(64).as_pointer())
        return builder.gep(words, [index])

    @intrinsic
    def word_at(_context: Any, address: Any, index: Any) -> Any:  # noqa: ANN401 - as popcount
        """Read word `index` of the 64-bit words at an address."""

        def generate(_ctx: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401
            return builder.load(_pointer(builder, *arguments), align=8)

        return types.uint64(types.int64, types.int64), generate

    @intrinsic
    def put_word(_context: Any, address: Any, index: Any, word: Any) -> Any:  # noqa: ANN401 - as popcount
        """Write word `index` of the 64-bit words at an address."""

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401
            builder.store(arguments[2], _pointer(builder, *arguments[:2]), align=8)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.uint64), generate

    @intrinsic
    def prefetch(_context: Any, address: Any, index: Any) -> Any:  # noqa: ANN401 - as popcount
        """Have the processor fetch word `index` of the words at an address, without waiting."""

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401
            place = builder.bitcast(_pointer(builder, *arguments), ir.IntType(8).as_pointer())
            flag = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [place.type, flag, flag, flag])
            hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            builder.call(hint, [place, flag(0), flag(3), flag(1)])  # to read, keep, data
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate
