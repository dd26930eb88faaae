"""Cells of a table to JSON lines: a row becomes an object.

Text is most of what a table of pages holds, and Arrow has a column of it as one block of bytes. So
text goes from there to the lines in kernels, without an object for each cell. Cells of other types
are made objects of Python, and these JSON, a column at once. The bytes are those that msgspec makes
of a dictionary for each row.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamer.kernel import kernel
from streamer.pages.extras import pa
from streamer.text.json_fields import CLOSE_OBJECT, COMMA, OPEN_OBJECT, QUOTE
from streamer.text.scan import VECTOR_BYTES, Bytes, copy_lanes, escaping_lanes, string_lane
from streamer.text.slices import Places, Slices
from streamer.text.tokens import SLACK

NULL, ABSENT = -1, -2  # as the start of a cell of text, or of any cell
_NEWLINE = 0x0A
_NULL_JSON = np.frombuffer(b"null", np.uint8)
# How each byte of UTF-8 is written in a JSON string: as msgspec does it.
_WRITTEN = [msgspec.json.encode(chr(byte))[1:-1] if byte < 0x80 else b"." for byte in range(256)]  # noqa: PLR2004 - ASCII
_SIZES = np.array([*map(len, _WRITTEN)])
_ESCAPES = np.array([[*form.ljust(6)] for form in _WRITTEN], np.uint8)
_encode_lines = msgspec.json.Encoder(enc_hook=str, decimal_format="number").encode_lines


class Cells(NamedTuple):
    """A column: the cells data[starts[i]:ends[i]], text in UTF-8 or else JSON as it is.

    `data` is read-only. A start may be `NULL`, in a column of text, or `ABSENT`: the row's object
    has no such member.
    """

    name: str
    data: Bytes
    starts: Places
    ends: Places
    is_text: bool


def json_objects(columns: Sequence[Cells], rows: int) -> Slices:
    """Return the rows of these columns as JSON objects, a line each."""
    names = [np.frombuffer(msgspec.json.encode(each.name) + b":", np.uint8) for each in columns]
    sizes = np.full(rows, len("{\n"), np.int64)  # the last comma becomes the closing bracket
    for (_, data, begins, stops, is_text), name in zip(columns, names, strict=True):
        _add_sizes(data, begins, stops, is_text, len(name) + len(","), sizes)
    sizes[sizes == len("{\n")] += len("}")
    starts = np.cumsum(sizes) - sizes
    out = np.empty(int(sizes.sum()) + SLACK, np.uint8)
    out[starts] = OPEN_OBJECT
    places = starts + 1
    for (_, data, begins, stops, is_text), name in zip(columns, names, strict=True):
        _write_cells(data, begins, stops, is_text, name, out, places)
    ends = starts + sizes
    out[ends - 2] = CLOSE_OBJECT
    out[ends - 1] = _NEWLINE
    return Slices(out, starts, ends)


@kernel
def _add_sizes(
    data: Bytes, starts: Places, ends: Places, is_text: int, around: int, sizes: Places
) -> None:
    """Add to the size of each row what the member takes; `around` is what its name and comma do."""
    for i in range(starts.shape[0]):
        if starts[i] == ABSENT:
            continue
        size = ends[i] - starts[i]
        if starts[i] == NULL:
            size = _NULL_JSON.shape[0]
        elif is_text:
            size += 2 + _escaping_bytes(data, starts[i], ends[i])
        sizes[i] += around + size


@kernel
def _escaping_bytes(data: Bytes, at: int, end: int) -> int:
    """Return how many bytes escapes add to data[at:end] in a JSON string."""
    added = 0
    while at + VECTOR_BYTES <= end:
        added += escaping_lanes(data, at)
        at += VECTOR_BYTES
    for i in range(at, end):
        added += _SIZES[data[i]] - 1
    return added


@kernel
def _write_cells(
    data: Bytes, starts: Places, ends: Places, is_text: int, name: Bytes, out: Bytes, places: Places
) -> None:
    """Write a member of each row to out[places[i]:], with a comma after it; move the places."""
    for i in range(starts.shape[0]):
        if starts[i] == ABSENT:
            continue
        place = _copy(name, 0, name.shape[0], out, places[i])
        if starts[i] == NULL:
            place = _copy(_NULL_JSON, 0, _NULL_JSON.shape[0], out, place)
        elif is_text:
            place = _write_string(data, starts[i], ends[i], out, place)
        else:
            place = _copy(data, starts[i], ends[i], out, place)
        out[place] = COMMA
        places[i] = place + 1


@kernel
def _copy(data: Bytes, at: int, end: int, out: Bytes, place: int) -> int:
    """Copy data[at:end] to out[place:]; return the place after it."""
    for i in range(end - at):
        out[place + i] = data[at + i]
    return place + end - at


@kernel
def _write_string(data: Bytes, at: int, end: int, out: Bytes, place: int) -> int:
    """Write data[at:end] to out[place:] as a JSON string; return the place after it.

    A vector is copied where as many bytes of the cell are left, so nothing after it is touched.
    """
    out[place] = QUOTE
    place += 1
    while at < end:
        lane = 0
        if at + VECTOR_BYTES <= end:
            copy_lanes(data, at, out, place)
            lane = string_lane(data, at)
            at += lane
            place += lane
        if lane < VECTOR_BYTES:
            place = _write_byte(data[at], out, place)
            at += 1
    out[place] = QUOTE
    return place + 1


@kernel
def _write_byte(byte: int, out: Bytes, place: int) -> int:
    """Write a byte of a string, as an escape where it must be; return the place after it."""
    if _SIZES[byte] == 1:
        out[place] = byte
        return place + 1
    return _copy(_ESCAPES[byte], 0, _SIZES[byte], out, place)


def batch_lines(batch: Any) -> Slices:  # noqa: ANN401 - a pyarrow.RecordBatch
    """Return the rows of a batch as JSON objects, a line each.

    A cell of bytes is text where it is UTF-8; else it is base64 under its column's name with
    `_base64` appended, and comes last. A column of text may hold other bytes, which nobody has
    checked: then U+FFFD replaces these. Any other cell that Python cannot hold is null.

    Raises:
        pyarrow.ArrowInvalid: a column leads out of its memory, as damage may have it.
    """
    first: list[Cells] = []
    last: list[Cells] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        cells, *others = _cells(name, column)
        first.append(cells)
        last += others
    return json_objects(first + last, batch.num_rows)


def _cells(name: str, column: Any) -> list[Cells]:  # noqa: ANN401 - a pyarrow.Array
    """Return the cells of a column; after them those that are bytes, where there are some."""
    kind = column.type
    is_large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    is_text = is_bytes or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if is_bytes:
        column = column.view(pa.large_string() if is_large else pa.string())
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error):
            raise
        if not is_text:  # but within others
            return _write_objects(name, _objects(column))
        cells = column.view(pa.large_binary() if is_large else pa.binary()).to_pylist()
        return _write_objects(name, [_decode(cell, is_text=not is_bytes) for cell in cells])
    if is_text:
        return [_text(name, column, is_large=is_large)]
    return _write_objects(name, _objects(column))


def _text(name: str, column: Any, *, is_large: bool) -> Cells:  # noqa: ANN401 - as _cells
    """Return the cells of a column of text, where they are in memory."""
    _, offsets, data = column.buffers()
    begin, end = column.offset, column.offset + len(column)
    places = np.frombuffer(offsets, np.int64 if is_large else np.int32)[begin : end + 1]
    starts, ends = places[:-1].astype(np.int64), places[1:].astype(np.int64)
    if column.null_count:
        starts[column.is_null().to_numpy(zero_copy_only=False)] = NULL
    block = np.frombuffer(data or b"", np.uint8)
    block.flags.writeable = False  # the kernels would be compiled again for others
    return Cells(name, block, starts, ends, is_text=True)


def _write_objects(name: str, cells: Sequence[Any]) -> list[Cells]:
    """Return cells as JSON: first those that are no bytes, then those that are, if there are."""
    data = np.frombuffer(_encode_lines(cells), np.uint8)
    ends = np.flatnonzero(data == _NEWLINE)
    starts = np.concatenate((np.zeros(1, np.int64), ends + 1))[:-1]
    is_bytes = np.fromiter((isinstance(cell, bytes) for cell in cells), np.bool_, len(cells))
    if not is_bytes.any():
        return [Cells(name, data, starts, ends, is_text=False)]
    others, packed = np.where(is_bytes, ABSENT, starts), np.where(is_bytes, starts, ABSENT)
    columns = (name, others), (f"{name}_base64", packed)
    return [Cells(own, data, begins, ends, is_text=False) for own, begins in columns]


def _objects(column: Any) -> list[Any]:  # noqa: ANN401 - as _cells
    """Return cells as Python has them."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":  # which no type of Python has
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError, LookupError):  # no UTF-8, a year 10,000, an unknown zone
        return [_or_null(cell) for cell in column]


def _decode(cell: bytes | None, *, is_text: bool) -> str | bytes | None:
    """Return what should be UTF-8: text whatever it is, bytes as they are where they are not."""
    try:
        return cell if cell is None else cell.decode(errors="replace" if is_text else "strict")
    except UnicodeDecodeError:
        return cell


def _or_null(cell: Any) -> Any:  # noqa: ANN401 - a pyarrow.Scalar
    try:
        return cell.as_py()
    except (ValueError, OverflowError, LookupError):
        return None
