"""How a file is packed, and whether it is a table, by its name.

Zstandard is part of Python from 3.14 on, and before that a package.
"""

import gzip
import sys
from typing import IO, Any, BinaryIO

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = [
    "ARROW_ENDINGS", "PARQUET_ENDINGS", "is_parquet", "is_table_name", "unpack", "zstd",
]  # fmt: skip

PARQUET_ENDINGS, ARROW_ENDINGS = (".parquet",), (".arrow", ".feather")


def is_parquet(name: str) -> bool:
    """Return whether a file is Parquet by its name: such a file never grows, it is replaced."""
    return name.lower().endswith(PARQUET_ENDINGS)


def is_table_name(name: str) -> bool:
    """Return by its name whether a file has rows with columns and types: Parquet or Arrow."""
    return name.lower().endswith(PARQUET_ENDINGS + ARROW_ENDINGS)


def unpack(file: IO[bytes], name: str) -> BinaryIO:
    """Return the stream of a file's content: `file` itself, unless its name says compressed."""
    packed: Any = file
    if name.lower().endswith(".gz"):
        packed = gzip.GzipFile(fileobj=packed)
    elif name.lower().endswith(".zst"):
        packed = zstd.ZstdFile(packed)
    opened: BinaryIO = packed
    return opened
