"""The judged pages themselves: the kept ones in one output, all others in another.

Of WARC records there may be a third, with what a collection needs of duplicates (revisits.py).

A page is written as its record came: a line of JSON stays that line, a WARC or ARC record that
record. What is between records is always the same: a newline after each line, two line ends
after each WARC record, one after each ARC record. Where the output is compressed, a WARC or ARC
record is a gzip member or zstd frame of its own, since readers of WARC files seek to records.

A row of a table stays a row where the output is a table too (kept_tables.py). Otherwise it becomes
the line of JSON that it was read as, and an HTML or text file a line with its URL, type and body. A
message of a topic becomes a line. JSON allows newlines between its tokens only, so these become
spaces. Of a message whose value is a body, the line has key, headers and body. A dead letter that
is judged again has no line end of its own any more, and gets a newline.

An output has records of one kind. The files of a run are looked at before anything is judged; what
a pipe holds is known with its first page.

These outputs are complete or refused. An index remembers which of them it has (`Catalogue.roles`).
It takes one only if no page of an input was judged before, and goes on only with all that it has.
"""

import base64
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import msgspec
import numpy as np
import numpy.typing as npt

from streamer.errors import SettingsError
from streamer.index.messages import Verdicts
from streamer.model import SEQUENCE_MASK
from streamer.pages.bytestream import first_bytes
from streamer.pages.chunk import Chunk, WarcPage
from streamer.pages.files import Source
from streamer.pages.formats import JSON_LINES, format_by_name
from streamer.pages.message import raw_fields
from streamer.pages.warc import begins_record
from streamer.run.catalogue import ADDED, Catalogue
from streamer.run.kept_tables import add_texts, check_lines, pack_refs
from streamer.run.output_checks import ROWS_SUFFIX, STANDARD_OUTPUT, output_key, table_of
from streamer.run.outputs import OutputFile, pack
from streamer.run.revisits import Original, Originals

KEPT, DUPLICATES, REVISITS = "kept", "duplicates", "revisits"
TEXTS = "with-text"  # of a table's rows
PAGE_OUTPUTS = (KEPT, TEXTS, DUPLICATES, REVISITS)
_KEPT_WITH_TEXT = "kept, with text"  # what the index calls such an output
_RECORDS = {"WARC": "WARC records", "ARC": "ARC records", "": "JSON lines"}
_ENDS = {"WARC": b"\r\n\r\n", "ARC": b"\n"}
_WRITTEN_AS = {"WACZ": "WARC", "CDX": "WARC"}
_NEWLINE = 0x0A
_HEAD_BYTES = 16 << 10  # hold the longest header line of an ARC record
_OTHER_RUN = (
    "Judge them in a run of their own, with other outputs; the same --index compares them with all "
    "pages before."
)


@dataclass
class PageOutputs:
    """The outputs of pages that a run has, by the names of their options.

    `remedy` is the sentence for pages of another kind than an output has. `originals` are those of
    the index, where revisits are written. `tables` are the options whose output is a file of refs.
    `with_text`: kept pages have their text.
    """

    files: Mapping[str, OutputFile]
    remedy: str = _OTHER_RUN
    originals: Originals | None = None
    tables: Collection[str] = ()
    with_text: bool = False

    def __post_init__(self) -> None:
        made = {*self.tables, TEXTS}
        others = {option: file for option, file in self.files.items() if option not in made}
        self._kinds = {option: _kind_of_output(file) for option, file in others.items()}
        if REVISITS in self.files:
            if self._kinds[REVISITS] not in {None, "WARC"}:
                raise SettingsError(
                    f"--revisits writes WARC records, and {self.files[REVISITS].name} is named "
                    "for others. Name it as revisits.warc.gz."
                )
            self._kinds[REVISITS] = "WARC"

    def check_sources(self, sources: Sequence[Source]) -> None:
        """Raise SettingsError unless the files among `sources` have records of the outputs' kind.

        Raises:
            InputError: one of them cannot be read.
        """
        for source in sources:
            if (found := source.likely_format()) is not None:
                kind = _WRITTEN_AS.get(found.name, found.name)
                self._check(kind if kind in _ENDS else "", source.name)

    def check(self, chunk: Chunk, name: str) -> None:
        """Raise SettingsError unless the pages of a chunk are of the outputs' kind.

        `name` is that of their source.
        """
        self._check(_kind_of_chunk(chunk), name)

    def check_texts(self, chunk: Chunk, refs: npt.NDArray[np.uint64], name: str) -> None:
        """Raise SettingsError where texts would replace those that pages of a chunk have.

        `name` is that of their source.
        """
        if KEPT not in self.tables and not _kind_of_chunk(chunk):
            check_lines(records_of(chunk, refs), name)

    def _check(self, kind: str, name: str) -> None:
        for option, own in self._kinds.items():
            if own not in {None, kind}:
                raise SettingsError(
                    f"{name} holds {_RECORDS[kind]}, but --{option} {self.files[option].name} is "
                    f"for {_RECORDS[own or '']}. {self.remedy}"
                )
            if kind and self.with_text and option == KEPT:
                raise SettingsError(
                    f"{name} holds {_RECORDS[kind]}, which have no field for a text. Leave out "
                    "--with-text, and take the texts with `streamer text`."
                )
            self._kinds[option] = kind

    def note_kept(self, made: Mapping[int, Original], blocks: Sequence[Verdicts]) -> None:
        """Note what revisits need of the pages that were kept of a chunk, of which `made` is."""
        if self.originals is None:
            return
        for block in blocks:
            for ref in block.pages.refs[block.similarities < 0].tolist():
                self.originals.add(ref, made[ref & SEQUENCE_MASK])

    def pack(
        self, chunk: Chunk, block: Verdicts, revisits: Sequence[bytes], texts: Mapping[int, bytes]
    ) -> list[tuple[OutputFile, bytes]]:
        """Return what the outputs get of the pages of a block of verdicts on a chunk.

        It may be called in any thread: to compress pages takes longer than to judge them. `texts`
        are those of the chunk's pages, where kept ones have theirs.
        """
        is_kept = block.similarities < 0
        found = []
        for option, file in self.files.items():
            if option == REVISITS:
                found.append((file, pack(file.name, revisits, alone=True)))
                continue
            refs = block.pages.refs[~is_kept if option == DUPLICATES else is_kept]
            if option == TEXTS:
                found.append((file, b"".join(b"%b\n" % texts[ref] for ref in refs.tolist())))
            elif option in self.tables:
                found.append((file, pack_refs(refs)))
            elif option == KEPT and self.with_text:
                own = map(texts.__getitem__, refs.tolist())
                records = add_texts(records_of(chunk, refs), own)
                found.append((file, pack(file.name, records)))
            elif len(refs):
                found.append((file, pack_records(file.name, chunk, refs)))
        return found


def pack_records(name: str, chunk: Chunk, refs: npt.NDArray[np.uint64]) -> bytes:
    """Return the records of pages of a chunk as an output of this name stores them."""
    return pack(name, records_of(chunk, refs), alone=bool(_kind_of_chunk(chunk)))


def role_of(option: str, *, with_text: bool) -> str:
    """Return what the index calls the output of an option."""
    return _KEPT_WITH_TEXT if with_text and option == KEPT else option


def check_complete(
    catalogue: Catalogue, names: Mapping[str, str], *, with_text: bool = False
) -> None:
    """Raise SettingsError if an output of pages would lack some, or is an output of another kind.

    `names` are those of all outputs of the run, by option; `with_text`: kept pages get their text.
    """
    is_begun = any(entry.position for entry in catalogue.entries if entry.path != ADDED)
    if other := {role_of(KEPT, with_text=not with_text)} & {*catalogue.roles.values()}:
        has, remedy = ("no text", "leave out") if KEPT in other else ("their text", "give")
        raise SettingsError(
            f"The kept pages of the index have {has}: {remedy} --with-text, or start over with a "
            "new --index and other outputs."
        )
    for option in PAGE_OUTPUTS:
        own_role = role_of(option, with_text=with_text)
        before = [name for name, own in catalogue.roles.items() if own == own_role]
        if before and option not in names:
            raise SettingsError(
                f"The index writes --{option} {table_of(before[-1], ROWS_SUFFIX)}, which would "
                "lack pages of this run. "
                f"Give --{option} with this file, or with another one for what is still to come."
            )
        if is_begun and option in names and not before:
            raise SettingsError(
                f"The index has judged pages without --{option}, and the file would lack them. "
                f"Leave out --{option}, or start over with a new --index and other outputs."
            )
    for option, name in names.items():
        role = role_of(option, with_text=with_text) if option in PAGE_OUTPUTS else ""
        key = output_key(name)
        if name != STANDARD_OUTPUT and catalogue.roles.get(key, "") != role:
            if role and key not in catalogue.outputs:
                continue  # a new one
            raise SettingsError(
                f"{table_of(name, ROWS_SUFFIX)} is another output of the index than --{option}. "
                "Name another file."
            )


def records_of(chunk: Chunk, refs: npt.NDArray[np.uint64]) -> Iterator[bytes | memoryview]:
    """Yield the records of pages of a chunk, in the order of their refs."""
    ordinals = (refs & np.uint64(SEQUENCE_MASK)).astype(np.int64)
    if chunk.pages:
        pages = {page.sequence: page for page in chunk.pages}
        own = (_places(chunk, refs) if chunk.parts else ordinals).tolist()
        if kind := _kind_of_chunk(chunk):
            wanted = (pages[each] for each in own)
            yield from (b"".join((page.head, page.block, _ENDS[kind])) for page in wanted)
        else:
            yield from (_make_message(pages[each]) for each in own)
    elif chunk.is_raw:
        asked = {*ordinals.tolist()}
        for (ordinal, key, value), headers in zip(chunk.messages, chunk.headers, strict=True):
            if ordinal in asked:
                fields = raw_fields(key, headers) | _body_fields(value or b"")
                yield msgspec.json.encode(fields) + b"\n"
    elif chunk.messages:
        values = {ordinal: value or b"" for ordinal, _, value in chunk.messages}
        lines = (values[each].strip(b"\n") for each in ordinals.tolist())
        yield from (line.replace(b"\n", b" ") + b"\n" for line in lines)
    else:
        yield from _lines(chunk, refs, ordinals)


def _places(chunk: Chunk, refs: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Return which records of a chunk of small files have these refs."""
    known = chunk.refs()
    order = np.argsort(known)
    return order[np.searchsorted(known, refs, sorter=order)]


def _lines(
    chunk: Chunk, refs: npt.NDArray[np.uint64], ordinals: npt.NDArray[np.int64]
) -> Iterator[memoryview | bytes]:
    """Yield lines, and the newline that the last one of a file may lack."""
    places = _places(chunk, refs) if chunk.parts else ordinals - chunk.start
    data = chunk.lines.data.data
    starts, ends = chunk.lines.starts[places], chunk.lines.ends[places]
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        whole = data[end - 1] == _NEWLINE
        yield data[start:end] if whole else bytes(data[start:end]) + b"\n"


def _make_message(page: WarcPage) -> bytes:
    """Return a file that is one page as a line of JSON."""
    headers = page.headers
    message = {"url": headers["warc-target-uri"], "content_type": headers["content-type"]}
    return msgspec.json.encode(message | _body_fields(page.block)) + b"\n"


def _body_fields(body: bytes) -> dict[str, str]:
    """Return the field that holds a body in JSON."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def _kind_of_chunk(chunk: Chunk) -> str:
    """Return WARC or ARC; "" for what is written as lines."""
    return _kind_of_records(chunk.pages[0].head) if chunk.pages else ""


def _kind_of_records(head: bytes) -> str:
    """Return of what kind records are that begin so."""
    return next((kind for kind in _ENDS if begins_record(kind, head)), "")


def _kind_of_output(file: OutputFile) -> str | None:
    """Return the kind of records that an output holds or is named for; None if neither says."""
    if file.length and file.name != STANDARD_OUTPUT:
        return _kind_of_records(first_bytes(file.name, _HEAD_BYTES))
    plain = file.name.lower().removesuffix(".gz").removesuffix(".zst")
    kind = format_by_name(file.name) or format_by_name(plain)  # some formats are not compressed
    if kind is JSON_LINES:
        return ""
    if kind is None and not PurePath(plain).suffix:
        return None
    if kind is None or kind.name not in _ENDS:
        named = f"named as {kind.name}" if kind else f"named {PurePath(plain).suffix}"
        raise SettingsError(
            f"{file.name} is {named}, but pages are written as JSON lines, as the "
            "WARC or ARC records that they were, or as the rows of Parquet and Arrow files. Name "
            "the file so, as pages.jsonl.zst."
        )
    return kind.name
