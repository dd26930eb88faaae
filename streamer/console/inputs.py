"""What the console folds: lines of files of verdicts and of dead letters.

A file is read from a position on, as whole lines in batches of bounded size, and is never written.
It may grow meanwhile: a line or a compressed part without its end is read later. A witness of what
was read (a digest of the beginning and the end of it) distinguishes a file that has grown from
another one under the same name.
"""

import io
import os
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
import xxhash

from streamer.compression import is_parquet, unpack, zstd
from streamer.errors import InputError
from streamer.model import DeadLetter
from streamer.pages.stored_file import explaining_disk
from streamer.run.verdict_lines import ReadVerdict, VerdictCheck, check_regular

LINE_BYTES_MAX = 256 << 20  # a dead letter holds its record, which a run may have let be large
_BATCH_LINES, _BATCH_BYTES = 10_000, 4 << 20
WITNESS_BYTES = 4096
_WAITING = "the rest is read when it is there"

FoldedLine = ReadVerdict | DeadLetter

_verdicts, _letters = msgspec.json.Decoder(ReadVerdict), msgspec.json.Decoder(DeadLetter)
_WRONG = msgspec.DecodeError, UnicodeDecodeError, RecursionError


def decode_line(line: bytes | str) -> FoldedLine:
    """Return the verdict or the dead letter in a line.

    Raises:
        msgspec.DecodeError, UnicodeDecodeError, RecursionError: it has neither; why it has no
            verdict.
    """
    try:
        return _verdicts.decode(line)
    except _WRONG:
        with suppress(*_WRONG):
            return _letters.decode(line)
        raise


class CutOff(InputError):  # noqa: N818 - a state of the file, which may pass
    """Report a file that ends within a line or a compressed part: all before is read."""


class InputBatch(NamedTuple):
    """Lines of an input; `position` is where they end in its content."""

    lines: list[FoldedLine]
    position: int


def read_batches(
    path: Path, position: int, lines_before: int, lines_max: int = _BATCH_LINES
) -> Iterator[InputBatch]:
    """Yield what a file has after a position of its content, which so many lines are before.

    Raises:
        CutOff: the file has an end that is not whole, after all that was yielded.
        InputError: the file cannot be read, or a line is neither a verdict nor a dead letter, or
            a verdict that does not go with those before.
    """
    number, check = lines_before, VerdictCheck(path)
    check_regular(path)
    with explaining_disk(str(path), "check the path"):
        if position:
            _check_all(check, _decode_lines(path, [next(_read_lines(path, 0), b"")], 0), 1)
        for raw in _raw_batches(path, position, lines_max):
            lines = _decode_lines(path, raw, number)
            _check_all(check, lines, number + 1)
            number += len(raw)
            position += sum(map(len, raw))
            yield InputBatch(lines, position)


def _check_all(check: VerdictCheck, lines: Sequence[FoldedLine], first: int) -> None:
    for number, line in enumerate(lines, first):
        if isinstance(line, ReadVerdict):
            check.check(line, number)


def _raw_batches(path: Path, position: int, lines_max: int) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size, cut = 0, None
    try:
        for line in _read_lines(path, position):
            if batch and (len(batch) == lines_max or size + len(line) > _BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(line)
            size += len(line)
    except CutOff as error:
        cut = error
    if batch:
        yield batch
    if cut:
        raise cut


def _read_lines(path: Path, position: int) -> Iterator[bytes]:
    """Yield the whole lines after a position of a file's content.

    Raises:
        InputError: it is damaged, or ends within a line (`CutOff`).
    """
    if is_parquet(path.name):
        from streamer.run.verdict_files import lines_of_parquet  # noqa: PLC0415 - 100 MB

        for line in lines_of_parquet(path):
            if position <= 0:
                yield line
            position -= len(line)
        return
    with path.open("rb") as file:
        content = unpack(file, path.name)
        try:
            _skip(content, position)
            while line := content.readline(LINE_BYTES_MAX):
                if not line.endswith(b"\n"):
                    _check_last(path, line)
                yield line
        except (zlib.error, zstd.ZstdError) as error:
            raise InputError(f"{path}: is damaged ({error}); copy the file again") from error
        except EOFError as error:
            raise CutOff(f"{path}: ends within a compressed part; {_WAITING}") from error


def _check_last(path: Path, line: bytes) -> None:
    """Raise an error unless a line without its end is whole all the same."""
    if len(line) == LINE_BYTES_MAX:
        said = f"has a line of over {LINE_BYTES_MAX:,} bytes; give verdicts, or dead letters"
        raise InputError(f"{path}: {said}")
    try:
        decode_line(line)
    except _WRONG as error:
        raise CutOff(f"{path}: ends within a line; {_WAITING}") from error


def _skip(content: BinaryIO, position: int) -> None:
    if not isinstance(content, io.BufferedReader):
        while position and (part := content.read(min(position, 1 << 20))):
            position -= len(part)
    elif position:
        content.seek(position)


def _decode_lines(path: Path, raw: list[bytes], before: int) -> list[FoldedLine]:
    with suppress(*_WRONG):  # which of them it is, the loop finds
        return [*_verdicts.decode_lines(b"".join(raw))]
    lines = []
    for number, line in enumerate(raw, before + 1):
        try:
            if content := line.removeprefix(BOM_UTF8).strip():
                lines.append(decode_line(content))
        except _WRONG as error:
            raise InputError(
                f"{path}:{number}: neither a verdict nor a dead letter ({error}); give what "
                "`replay --verdicts` or `tail` has written"
            ) from error
    return lines


def witness_of(path: Path, length: int) -> str:
    """Return a digest of both ends of the first `length` stored bytes of a file.

    Raises:
        InputError: the file cannot be read.
    """
    digest = xxhash.xxh3_64()
    with explaining_disk(str(path), "check the path"), path.open("rb") as file:
        digest.update(file.read(min(length, WITNESS_BYTES)))
        file.seek(max(0, length - WITNESS_BYTES))
        digest.update(file.read(min(length, WITNESS_BYTES)))
        if os.fstat(file.fileno()).st_size < length:
            return "shorter"
    return digest.hexdigest()


def is_packed(path: Path) -> bool:
    """Return whether a position in a file's content is no position in the file."""
    return is_parquet(path.name) or path.name.lower().endswith((".gz", ".zst"))
