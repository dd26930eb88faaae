"""Sorted files: how entries come into RocksDB, in whole files that it never rewrites.

A file is written beside the database, in the folder for incoming ones, and is added in one atomic
step. This module and store.py are the only ones that know RocksDB.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    IngestExternalFileOptions,
    Options,
    ReadOptions,
    SstFileWriter,
)

from streamer.index.codec import Entries

CACHE_BYTES = 4 << 20  # hardly anything is read twice
FILES_OPEN_MAX = 512  # of the 1,024 that a process may have open; more of them are opened anew
ADVICE_BYTES = 128 << 10  # the system takes no more at a time, of what it is asked to read ahead
BLOCK_BYTES = 1 << 10  # less than any value of ours: one is read without its neighbours


def database_options() -> Options:
    """Return options for a database of files that are added whole."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    table = BlockBasedOptions()
    table.set_block_cache(Cache(CACHE_BYTES))
    table.set_block_size(BLOCK_BYTES)
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.none())  # sketches and hashes do not compress
    options.set_max_background_jobs(2)
    options.set_max_open_files(FILES_OPEN_MAX)
    options.set_keep_log_file_num(2)
    return options


def reading_once() -> ReadOptions:
    """Return options for reading much, once: not by way of the cache."""
    options = ReadOptions()
    options.fill_cache(False)  # type: ignore[call-arg]  # the stub lacks its argument
    return options


def write_file(path: Path, entries: Entries) -> str:
    """Write a sorted file of `entries`, which come in order of their keys; return its path."""
    writer = SstFileWriter(options=database_options())
    writer.open(str(path))
    for key, value in entries:
        writer[key] = value
    writer.finish()
    return str(path)


def add_file(database: Any, file: str) -> None:  # noqa: ANN401 - rocksdict has no types
    """Add a sorted file to the database in one atomic step; it is moved, not copied."""
    how = IngestExternalFileOptions()
    how.set_move_files(True)
    with _read_into_cache(file):
        database.ingest_external_file([file], how)


@contextlib.contextmanager
def _read_into_cache(file: str) -> Iterator[None]:
    """Have the system read a file into its cache afterwards: the store drops what it wrote."""
    with Path(file).open("rb") as opened:
        yield
        for start in range(0, os.fstat(opened.fileno()).st_size, ADVICE_BYTES):
            os.posix_fadvise(opened.fileno(), start, ADVICE_BYTES, os.POSIX_FADV_WILLNEED)
