"""The texts of kept pages, where they are asked for: a field more of their lines, or a column.

It is the text that was compared (page_texts.py). What sites repeat is known only while a page is
signed, so texts are taken then. Of a table they go to a file next to it, as JSON strings in the
order of the file of refs (kept_tables.py), and become its column when the run ends.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import numpy as np

from streamer.errors import SettingsError
from streamer.index.messages import Pages
from streamer.pages.chunk import PageBatch
from streamer.pages.message import read_message
from streamer.pages.table_copy import NewColumn
from streamer.run.page_texts import TextReader
from streamer.run.stages import OneAThread
from streamer.sketch.site_signer import SignedRepeats
from streamer.text.scan import Bytes
from streamer.text.slices import Places

FIELD = "text"
TEXTS_SUFFIX = ".texts"  # of the texts that a table's column is made of
_STEP_BYTES = 1 << 24
_NEWLINE = 0x0A


def text_reader(*, knows_sites: bool) -> Callable[..., list[bytes]]:
    """Return what returns the texts of pages that are signed, as JSON strings; in any thread.

    It takes a batch, its pages, and what they were signed by where that depends on sites.
    """
    readers = OneAThread(lambda: TextReader(knows_sites=knows_sites))

    def read(batch: PageBatch, pages: Pages, repeats: SignedRepeats | None = None) -> list[bytes]:
        reader, encode = readers.get(), msgspec.json.encode
        main = [False] * len(pages) if pages.main is None else pages.main.tolist()
        return [
            encode(reader.read_signed(body, flags, repeats and repeats.of(i), is_main=is_main))
            for i, (body, flags, is_main) in enumerate(
                zip(batch.bodies, batch.flags, main, strict=True)
            )
        ]

    return read


def check_lines(lines: Iterable[bytes | memoryview], name: str) -> None:
    """Raise SettingsError if a line of the source `name` has a text of its own.

    All lines are those of pages: objects of JSON, perhaps once they are repaired.
    """
    for line in lines:
        if FIELD in read_message(bytes(line)):
            raise SettingsError(taken_name(name))


def taken_name(name: str) -> str:
    """Return the message about a source that has texts of its own."""
    return (
        f"{name} has a field or column {FIELD!r} already, which --with-text would replace. Leave "
        "it out, and take the texts with `streamer text`."
    )


def add_texts(lines: Iterable[bytes | memoryview], texts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines with their texts as a field more."""
    for line, text in zip(lines, texts, strict=True):
        yield b'%b,"%b":%b}\n' % (bytes(line).rstrip()[:-1], FIELD.encode(), text)


def text_column(name: str | None, refs: str) -> NewColumn | None:
    """Return the column of the texts in a file, one a line, by ascending refs; None of no file.

    `refs` is the file of the refs of its lines.
    """
    if name is None:
        return None
    data = np.memmap(name, np.uint8, "r") if Path(name).stat().st_size else np.empty(0, np.uint8)
    ends = _line_ends(data)
    at = iter(np.argsort(np.fromfile(refs, "<u8"), kind="stable").tolist())

    def take(count: int) -> list[str]:
        places = itertools.islice(at, count)
        return [msgspec.json.decode(data[ends[n] + 1 : ends[n + 1]].tobytes()) for n in places]

    return NewColumn(FIELD, take)


def _line_ends(data: Bytes) -> Places:
    """Return where each line of a file ends, after -1, where the one before the first would."""
    parts = (data[at : at + _STEP_BYTES] for at in range(0, len(data), _STEP_BYTES))
    found = [np.flatnonzero(part == _NEWLINE) + _STEP_BYTES * i for i, part in enumerate(parts)]
    return np.concatenate([np.array([-1]), *found])
