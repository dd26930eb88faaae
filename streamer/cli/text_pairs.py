"""Pairs of texts from a file: two columns parted by a tab, or one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from streamer.errors import InputError
from streamer.sketch.method import PageText
from streamer.stream.documents import Document
from streamer.text.words import CanonicalOptions

TAB = "\t"


class _Pair(msgspec.Struct):
    a: str
    b: str


def read_pairs(path: Path, canonical: CanonicalOptions) -> Iterator[tuple[Document, Document]]:
    """Yield the pairs of a file, named by their lines; blank lines are passed over.

    Raises:
        InputError: the file cannot be read, or a line is no pair.
    """
    try:
        with path.open(encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    name = f"line {number}"
                    texts = _texts(line.rstrip("\r\n"), f"{path}, {name}")
                    one, other = (PageText(text, "", canonical) for text in texts)
                    yield Document(name, one), Document(name, other)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; check the file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is no UTF-8 text ({error}); check it") from error


def _texts(line: str, where: str) -> tuple[str, str]:
    if line.startswith("{"):
        try:
            pair = msgspec.json.decode(line, type=_Pair)
        except msgspec.DecodeError as error:
            raise InputError(f"{where}: {error}; give an object with the texts a and b") from error
        return pair.a, pair.b
    one, tab, other = line.partition(TAB)
    if not tab or TAB in other:
        raise InputError(f"{where}: has not two columns; part the two texts by one tab")
    return one, other
