"""Verdict files: reading what a replay has written."""

import os
import shutil
import tempfile
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from streamer.compression import is_parquet, unpack, zstd
from streamer.errors import InputError
from streamer.model import Verdict
from streamer.pages.stored_file import explaining_disk
from streamer.run.output_checks import is_table
from streamer.run.parquet_verdicts import lines_of_parquet
from streamer.run.verdict_lines import VerdictCheck, check_regular


def read_verdicts(path: str | os.PathLike[str]) -> Iterator[Verdict]:
    """Yield the verdicts of a file of JSON lines (also .gz, .zst) or Parquet, in its order.

    Raises:
        InputError: the file cannot be read, or a line is not a verdict; the message has its number.
    """
    with explaining_disk(str(path), "check the path"), open_verdicts(Path(path)) as file:
        yield from verdicts_in(file, path)


def verdicts_in(file: BinaryIO, path: str | os.PathLike[str]) -> Iterator[Verdict]:
    """Yield the verdicts of a file that `open_verdicts` has opened, from where it is.

    Raises:
        InputError: a line is not a verdict, or does not go with those before.
    """
    decode, check = msgspec.json.Decoder(Verdict).decode, VerdictCheck(path)
    for number, line in enumerate(file, 1):
        if line.isspace():  # as commands of analysis read them
            continue
        try:
            verdict = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"{path}:{number}: not a verdict ({error})") from error
        check.check(verdict, number)
        yield verdict


@contextmanager
def open_verdicts(path: Path) -> Iterator[BinaryIO]:
    """Open a verdict file as JSON lines; others than plain ones become a temporary file first.

    Raises:
        InputError: the file is damaged or cut off, or is CSV or a pipe.
    """
    if is_table(path.name):
        why = f"{path}: verdicts as CSV are not read; give a file of JSON lines or Parquet"
        raise InputError(why)
    check_regular(path)
    with path.open("rb") as file, tempfile.TemporaryFile() as plain:
        content, opened = unpack(file, path.name), cast("BinaryIO", plain)
        if is_parquet(path.name):
            plain.writelines(lines_of_parquet(path))
        elif content is file:
            opened = file
        elif not path.stat().st_size:
            raise InputError(f"{path}: is empty, which no compressed file is; copy it again")
        else:
            try:
                shutil.copyfileobj(content, plain)
            except (EOFError, zlib.error, zstd.ZstdError) as error:
                raise InputError(f"{path}: is damaged ({error}); copy the file again") from error
        opened.seek(0)
        opened.seek(len(BOM_UTF8) if opened.read(len(BOM_UTF8)) == BOM_UTF8 else 0)
        yield opened
