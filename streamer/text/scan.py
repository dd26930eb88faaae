"""Looking at many bytes at once: the inner loops of the text kernels.

The kernels spend their time in runs without any special byte: text between tags, values between
quotes, JSON without escapes. A run is passed VECTOR_BYTES at a step: one vector comparison says
where the first special byte is. The last bytes before `end` are looked at one at a time, so nothing
outside [start, end) is ever read. A copy writes whole vectors: what is after the place that it
returns is scratch, but never more bytes than it has input left.

One code point as UTF-8: written to an array, packed into a word, or read.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from streamer.kernel import inline_kernel, kernel
from streamer.machine import bytes_at, int64, uint8, uint32, uint64

VECTOR_BYTES = 32

Bytes = npt.NDArray[np.uint8]

_tuple: Any = types.UniTuple
_LANES = ir.VectorType(ir.IntType(8), VECTOR_BYTES)


def _pointer(context: Any, builder: Any, array: Any, value: Any, index: Any) -> Any:  # noqa: ANN401 - numba's untyped extension API
    """Return the address of the vector at `index` of an array."""
    place = bytes_at(context, builder, array, value, index, VECTOR_BYTES)
    return builder.bitcast(place, _LANES.as_pointer())


def _vector(context: Any, builder: Any, array: Any, value: Any, index: Any) -> Any:  # noqa: ANN401 - as _pointer
    """Return the vector at `index` of an array."""
    return builder.load(_pointer(context, builder, array, value, index), align=1)


def in_all_lanes(builder: Any, value: Any, lanes: int) -> Any:  # noqa: ANN401 - as _pointer
    """Return a vector that has a value in each of its lanes."""
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(undefined, value, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    return builder.shuffle_vector(first, undefined, zeros)


def _lanes_equal(builder: Any, vector: Any, byte: Any) -> Any:  # noqa: ANN401 - as _pointer
    """Return a vector of bits: the lanes that hold `byte`."""
    return builder.icmp_unsigned("==", vector, in_all_lanes(builder, byte, VECTOR_BYTES))


def _lanes_in(builder: Any, vector: Any, *spans: bytes) -> Any:  # noqa: ANN401 - as _pointer
    """Return a vector of bits: the lanes that hold a byte of a span; of each its first and last."""
    found = []
    for first, last in spans:
        low, size = (ir.Constant(_LANES, [n] * VECTOR_BYTES) for n in (first, last - first))
        found.append(builder.icmp_unsigned("<=", builder.sub(vector, low), size))
    return reduce(builder.or_, found)


def _bits(builder: Any, lanes: Any) -> Any:  # noqa: ANN401 - as _pointer
    """Return a vector of bits as an integer of 64."""
    return builder.zext(builder.bitcast(lanes, ir.IntType(VECTOR_BYTES)), ir.IntType(64))


def _first_bit(builder: Any, lanes: Any) -> Any:  # noqa: ANN401 - as _pointer
    """Return the place of the first one in a vector of bits; VECTOR_BYTES if there is none."""
    stop = builder.or_(_bits(builder, lanes), ir.IntType(64)(1 << VECTOR_BYTES))
    return builder.cttz(stop, ir.IntType(1)(1))


def _first_lane(_context: Any, array: Any, _index: Any, _one: Any, _other: Any) -> Any:  # noqa: ANN401 - as _pointer
    """Return the first byte of a vector that is one or another; VECTOR_BYTES if none is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        vector = _vector(context, builder, signature.args[0], *arguments[:2])
        bytes_ = [builder.trunc(value, ir.IntType(8)) for value in arguments[2:]]
        equal = builder.or_(*(_lanes_equal(builder, vector, byte) for byte in bytes_))
        return _first_bit(builder, equal)

    return types.int64(array, types.intp, types.int64, types.int64), generate


first_lane = cast("Callable[[Bytes, int, int, int], int]", intrinsic(_first_lane))


def _string_lane(_context: Any, array: Any, _index: Any) -> Any:  # noqa: ANN401 - as _pointer
    r"""Return the first byte of a vector that is `"`, `\` or a control; VECTOR_BYTES if none is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        vector = _vector(context, builder, signature.args[0], *arguments)
        return _first_bit(builder, _lanes_in(builder, vector, b'""', b"\\\\", b"\x00\x1f"))

    return types.int64(array, types.intp), generate


string_lane = cast("Callable[[Bytes, int], int]", intrinsic(_string_lane))


def _escaping_lanes(_context: Any, array: Any, _index: Any) -> Any:  # noqa: ANN401 - as _pointer
    r"""Return how many bytes escapes add to a vector in a JSON string: five or one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        vector = _vector(context, builder, signature.args[0], *arguments)
        escaped, long = (b'""', b"\\\\", b"\x00\x1f"), (b"\x00\x07", b"\x0b\x0b", b"\x0e\x1f")
        count, more = (
            builder.ctpop(_bits(builder, _lanes_in(builder, vector, *each)))
            for each in (escaped, long)
        )
        return builder.add(count, builder.shl(more, ir.IntType(64)(2)))

    return types.int64(array, types.intp), generate


escaping_lanes = cast("Callable[[Bytes, int], int]", intrinsic(_escaping_lanes))


def _ascii_lanes(_context: Any, array: Any, _index: Any) -> Any:  # noqa: ANN401 - as _pointer
    """Return which bytes of a vector are letters of words, points, capitals, digits, not ASCII."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        vector = _vector(context, builder, signature.args[0], *arguments)
        points = (b"!!", b",,", b"..", b":;", b"??")
        kinds = ((b"az", b"AZ", b"09", b"__"), points, (b"AZ",), (b"09",), (b"\x80\xff",))
        bits = [_bits(builder, _lanes_in(builder, vector, *spans)) for spans in kinds]
        return context.make_tuple(builder, signature.return_type, bits)

    return _tuple(types.uint64, 5)(array, types.intp), generate


ascii_lanes = cast(
    "Callable[[Bytes, int], tuple[int, int, int, int, int]]", intrinsic(_ascii_lanes)
)


def _copy_lanes(_context: Any, source: Any, _index: Any, out: Any, _place: Any) -> Any:  # noqa: ANN401 - as _pointer
    """Copy a vector of an array at an index to a place in another."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        vector = _vector(context, builder, signature.args[0], *arguments[:2])
        target = _pointer(context, builder, signature.args[2], *arguments[2:])
        builder.store(vector, target, align=1)
        return context.get_dummy_value()

    return types.void(source, types.intp, out, types.intp), generate


copy_lanes = cast("Callable[[Bytes, int, Bytes, int], None]", intrinsic(_copy_lanes))


@kernel
def find_byte(source: Bytes, start: int, end: int, byte: int) -> int:
    """Return the first position of `byte` in source[start:end], or `end`."""
    at = start
    while at + VECTOR_BYTES <= end:
        lane = first_lane(source, at, byte, byte)
        if lane < VECTOR_BYTES:
            return at + lane
        at += VECTOR_BYTES
    while at < end and source[at] != byte:
        at += 1
    return at


@kernel
def copy_until(
    source: Bytes, start: int, end: int, out: Bytes, place: int, stops: tuple[int, int]
) -> int:
    """Copy source[start:end] to out[place:] up to the first of two bytes; return where that is.

    `place` has moved by as much as the position. `source` and `out` must not overlap.
    """
    at = start
    while at + VECTOR_BYTES <= end:
        copy_lanes(source, at, out, place)
        lane = first_lane(source, at, stops[0], stops[1])
        if lane < VECTOR_BYTES:
            return at + lane
        at += VECTOR_BYTES
        place += VECTOR_BYTES
    while at < end and source[at] != stops[0] and source[at] != stops[1]:
        out[place] = source[at]
        at += 1
        place += 1
    return at


REPLACEMENT = 0xFFFD  # in place of what is no character
LARGEST = 0x10FFFF
INVALID = 0x110000
SURROGATES = 0xD800  # the first code point that is half of a UTF-16 pair
LOW_SURROGATES = 0xDC00
SURROGATES_END = 0xE000


@inline_kernel
def pack_code_point(code: int) -> tuple[int, int]:
    """Return (UTF-8 bytes in a little-endian word, their number) of a code point."""
    c = uint64(code)
    low = uint64(0x80) | (c & uint64(0x3F))
    if c < 0x80:
        return c, uint64(1)
    if c < 0x800:
        return uint64(0xC0) | (c >> uint64(6)) | (low << uint64(8)), uint64(2)
    middle = uint64(0x80) | ((c >> uint64(6)) & uint64(0x3F))
    if c < 0x10000:
        return uint64(0xE0) | (c >> uint64(12)) | (middle << uint64(8)) | (
            low << uint64(16)
        ), uint64(3)
    upper = uint64(0x80) | ((c >> uint64(12)) & uint64(0x3F))
    head = uint64(0xF0) | (c >> uint64(18))
    return head | (upper << uint64(8)) | (middle << uint64(16)) | (low << uint64(24)), uint64(4)


@kernel
def put_code_point(code: int, out: Bytes, place: int) -> int:
    """Write a code point in [0, 0x10FFFF] as UTF-8 to out[place:]; return the place after it."""
    packed, size = pack_code_point(code)
    for i in range(int64(size)):
        out[place + i] = uint8(packed >> uint64(8 * i))
    return place + int64(size)


@inline_kernel
def _continuation(text: Bytes, place: int, end: int) -> int:
    """Return the six bits of a continuation byte, 0xFF if there is none at `place`."""
    if place < end and text[place] & uint8(0xC0) == uint8(0x80):
        return uint32(text[place]) & uint32(0x3F)
    return uint32(0xFF)


@kernel
def decode(text: Bytes, place: int, end: int) -> tuple[int, int]:
    """Return (code point, bytes) of the two to four bytes at `place`, else (INVALID, 1).

    Strict as the standard is: no overlong forms, no surrogates, nothing above U+10FFFF.
    """
    lead = uint32(text[place])
    second = _continuation(text, place + 1, end)
    if lead < 0xC2 or lead > 0xF4 or second == 0xFF:
        return uint32(INVALID), 1
    if lead < 0xE0:
        return ((lead & uint32(0x1F)) << uint32(6)) | second, 2
    third = _continuation(text, place + 2, end)
    if third == 0xFF:
        return uint32(INVALID), 1
    if lead < 0xF0:
        code = ((lead & uint32(0x0F)) << uint32(12)) | (second << uint32(6)) | third
        bad = code < 0x800 or (code >= 0xD800 and code < 0xE000)
        return (uint32(INVALID), 1) if bad else (code, 3)
    fourth = _continuation(text, place + 3, end)
    code = (
        ((lead & uint32(7)) << uint32(18)) | (second << uint32(12)) | (third << uint32(6)) | fourth
    )
    if fourth == 0xFF or code < 0x10000 or code > 0x10FFFF:
        return uint32(INVALID), 1
    return code, 4
