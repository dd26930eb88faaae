"""Outputs of pages that are tables: rows of Parquet and Arrow files stay rows, with all columns.

Such a file can be read only once its end is written. So while pages are judged, their refs go to a
file next to the table, eight bytes each, exactly once as all outputs. When the run ends, the table
is made of all rows that these name, and replaces the one before in one step: a reader finds a whole
table or none, whatever kill came between. Rows come in the order of their files.

Each run makes the table from the input files. These must still be there, and are compared with what
they said of themselves when they were judged. A table notes of which rows it was made, and is not
made again of the same ones.

Where the texts of kept pages are asked for, they are a field more of their lines, or a column. This
is the text that was compared (page_texts.py). What sites repeat is known only while a page is
signed, so texts are taken then. Of a table they go to a file next to it, as JSON strings in the
order of the file of refs, and become its column when the run ends.
"""

# A Parquet file cannot be cut, and its end is written last. Closed part files would end with each
# flush, which memory decides, and would read all columns twice as often as the judge needs them.

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import xxhash

from streamer.compression import is_parquet
from streamer.errors import InputError, SettingsError
from streamer.index.messages import Pages
from streamer.model import SEQUENCE_BITS, SEQUENCE_MASK
from streamer.pages import table_copy
from streamer.pages.chunk import PageBatch
from streamer.pages.files import Source
from streamer.pages.formats import ARROW, PARQUET
from streamer.pages.message import read_message
from streamer.pages.remote import RemoteObject, is_remote, look_up
from streamer.pages.table_copy import ChosenRows, NewColumn, Ordinals, Progress, TableFile
from streamer.pages.tables import arrow_errors, schema_of
from streamer.run.catalogue import Catalogue
from streamer.run.outputs import Claim, OutputSink, complete_output
from streamer.run.page_texts import TextReader
from streamer.run.stages import OneAThread
from streamer.sketch.site_signer import SignedRepeats

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
        columns = zip(batch.bodies, batch.flags, main, strict=True)
        return [
            encode(reader.read_signed(body, flags, repeats and repeats.of(i), is_main=is_main))
            for i, (body, flags, is_main) in enumerate(columns)
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


def text_column(name: str, refs: str) -> NewColumn:
    """Return the column of the texts in a file, one a line, by ascending refs.

    `refs` is the file of the refs of its lines.
    """
    data = np.memmap(name, np.uint8, "r") if Path(name).stat().st_size else np.empty(0, np.uint8)
    parts = (data[at : at + _STEP_BYTES] for at in range(0, len(data), _STEP_BYTES))
    found = [np.flatnonzero(part == _NEWLINE) + _STEP_BYTES * i for i, part in enumerate(parts)]
    ends = np.concatenate([np.array([-1]), *found])  # of lines, and of none before the first
    at = iter(np.argsort(np.fromfile(refs, "<u8"), kind="stable").tolist())

    def take(count: int) -> list[str]:
        places = itertools.islice(at, count)
        return [msgspec.json.decode(data[ends[n] + 1 : ends[n + 1]].tobytes()) for n in places]

    return NewColumn(FIELD, take)


REF_BYTES = 8
_MADE_OF = b"streamer.rows"  # in a table's metadata
_STEP_REFS = 1 << 20
_REMEDY = "Judge it in a run of its own, with other outputs and the same --index."
_GONE = (
    "Put it back, or give --moved OLD=NEW if it was moved. Or name another file for what is still "
    "to come."
)


def pack_refs(refs: Ordinals) -> bytes:
    """Return page refs as the file of a table's rows has them."""
    return refs.astype("<u8").tobytes()


def tables_of(what: str, sources: Sequence[Source], remedy: str = _REMEDY) -> list[TableFile]:
    """Return the tables that sources are; `what` is an output that has rows only.

    Raises:
        SettingsError: a source is no table.
        InputError: one cannot be read.
    """
    found = []
    for source in sources:
        kind = source.likely_format()
        if kind not in {PARQUET, ARROW}:
            raise SettingsError(
                f"{source.name} is not a Parquet or Arrow file, and {what} gets rows of such files "
                f"only. Name the output .jsonl for it. {remedy}"
            )
        found.append(TableFile(source.name, source.name, kind is ARROW, source.remote))
    return found


@dataclass
class KeptTable:
    """A table that is made of the rows whose refs are in the file `refs`.

    `_option` is the name of the output's option. `_texts` is a file of the texts of these rows,
    which become a column more.
    """

    _option: str
    name: str
    refs: str
    _catalogue: Catalogue
    _texts: str | None = None
    _sources: Sequence[Source] = ()

    @property
    def amount(self) -> int:
        """Return how many rows the table will have, of those that were judged."""
        refs = Path(self.refs)
        return refs.stat().st_size // REF_BYTES if refs.exists() else 0

    def check(self, sources: Sequence[Source], known: int) -> None:
        """Find out before long work whether the table can be made of its rows and those to come.

        All `sources` are in the catalogue; the first `known` bytes of the refs are of the index.

        Raises:
            SettingsError: a source is no table or has other columns, or a file of earlier rows is
                gone.
            InputError: one cannot be read, or has changed.
        """
        self._sources = sources
        new = tables_of(f"--{self._option} {self.name}", sources)
        given = {os.path.realpath(each.path) for each in new if each.remote is None}
        earlier = [each.file for each in self.chosen(known) if each.file.path not in given]
        if files := [*earlier, *new]:
            schema = table_copy.common_schema(self.name, files, _REMEDY)
            if self._texts and FIELD in schema.names:
                raise SettingsError(taken_name(files[0].name))

    def write(self, progress: Progress, claim: Claim) -> None:
        """Make the table, unless it is made of the same rows already, or no file has its columns.

        `claim` is as for `complete_output`.

        Raises:
            SettingsError, InputError: as `check`.
            StoreUnavailable: it cannot be written.
        """
        size = Path(self.refs).stat().st_size
        if not (digest := _digest(self.chosen(size))):
            files = tables_of(self.name, self._sources[:1])
            chosen = iter([ChosenRows(each, np.empty(0, np.uint64)) for each in files])
        else:
            chosen = self.chosen(size)
        if digest == _read_digest(self.name) if digest else not self._sources:
            return
        column = text_column(self._texts, self.refs) if self._texts else None
        with complete_output(self.name, claim) as file:
            made_of, out = {_MADE_OF: digest}, OutputSink(file)
            table_copy.copy_rows(chosen, self.name, out, _REMEDY, made_of, progress, column)

    def chosen(self, size: int) -> Iterator[ChosenRows]:
        """Yield the rows of each file, by the refs in the first `size` bytes of their file.

        Raises:
            SettingsError: a file is gone.
            InputError: one cannot be read, or has changed.
        """
        refs = _refs(self.refs, size)
        remote = {source.name: source.remote for source in self._sources if source.remote}
        starts = _source_starts(refs)
        numbers = [int(refs[start]) >> SEQUENCE_BITS for start in starts]
        paths = [self._catalogue.entries[number].path for number in numbers]
        looked_up = look_up([path for path in paths if is_remote(path) and path not in remote])
        remote |= {path: there.objects[0] for path, there in looked_up.items()}
        bounds = itertools.pairwise([*starts, len(refs)])
        for (start, end), number in zip(bounds, numbers, strict=True):
            file = self._file(number, remote)
            yield ChosenRows(file, refs[start:end] & np.uint64(SEQUENCE_MASK))

    def _file(self, number: int, remote: Mapping[str, RemoteObject]) -> TableFile:
        """Return the file that a source of rows is."""
        entry = self._catalogue.entries[number]
        there = remote.get(entry.path)
        if there is None and not Path(entry.path).is_file():
            raise SettingsError(
                f"--{self._option} {self.name} has rows of {entry.name}, which is not there any "
                f"more. {_GONE}"
            )
        source = Source(entry.path, is_regular=True, remote=there)
        # The digest of an Arrow file is of its layout only.
        if there is None and not self._catalogue.is_same(number, source):
            raise InputError(table_copy.has_changed(entry.name))
        [file] = tables_of(self.name, [source])
        return file._replace(name=entry.name, digest=entry.mark.digest)


def _refs(name: str, size: int) -> Ordinals:
    """Return the refs in the first `size` bytes of a file, ascending.

    They are in memory only where they are not ascending there, as where a file has grown.
    """
    if size < REF_BYTES:
        return np.empty(0, np.uint64)
    refs = np.memmap(name, np.dtype("<u8"), "r", shape=(size // REF_BYTES,))
    parts = (refs[at : at + _STEP_REFS + 1] for at in range(0, len(refs), _STEP_REFS))
    return refs if all((part[1:] > part[:-1]).all() for part in parts) else np.sort(refs)


def _source_starts(refs: Ordinals) -> list[int]:
    """Return the places of the first ref of each source among ascending refs."""
    starts, at = [], 0
    while at < len(refs):
        starts.append(at)
        after = ((int(refs[at]) >> SEQUENCE_BITS) + 1) << SEQUENCE_BITS
        at = int(np.searchsorted(refs, np.uint64(after)))
    return starts


def _digest(chosen: Iterator[ChosenRows]) -> bytes:
    """Return a digest of rows and of the files that they are from; b"" of none."""
    digest, rows = xxhash.xxh3_128(), 0
    for file, ordinals in chosen:
        rows += len(ordinals)
        digest.update(f"{file.path}\n{file.digest}\n{len(ordinals)}\n")
        digest.update(pack_refs(ordinals))
    return digest.hexdigest().encode() if rows else b""


def _read_digest(name: str) -> bytes:
    """Return the digest of the rows that a table was made of; b"" where it has none."""
    try:
        schema = schema_of(name, is_arrow=not is_parquet(name))
    except arrow_errors():
        return b""
    made: bytes = (schema.metadata or {}).get(_MADE_OF, b"")
    return made
