"""An index of files under audit: what it has read, and whether a fold of that can be made again.

The fold begins with nothing, so it needs all that the index has judged, in the order in which it
was judged, and the settings that were in force. An index knows its settings now, its sources in the
order in which they were named first, and how far each was judged. Whatever it does not know is
refused, and never taken for a broken promise.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from streamer.assembly import page_parser, reader_of
from streamer.config import Settings
from streamer.errors import InputError, StoreMismatch
from streamer.index.codec import unpack_settings
from streamer.index.messages import CONFIG
from streamer.model import split_ref
from streamer.pages.chunk import Chunk
from streamer.pages.files import Source
from streamer.pages.parse import PageParser
from streamer.run.catalogue import ADDED, Catalogue, SourceEntry, describe_change, open_catalogue
from streamer.run.index_folder import check_identity
from streamer.run.output_checks import ROWS_SUFFIX, table_of
from streamer.run.read_index import ReadIndex
from streamer.run.reading import FileInput, SourceEnd, Step
from streamer.run.reference_indexes import ReferenceIndexes
from streamer.stored.rows import scan_rows

_ADVICE = "so its verdicts cannot be derived again. Verify an index that only `replay` has written"


@dataclass(frozen=True, slots=True)
class FileTarget:
    """An index of files, open for reading, and what is needed to make its fold again.

    `sources` are the files that it has read. `index_memory` bounds the key tables of the fold, in
    bytes.
    """

    index: ReadIndex
    catalogue: Catalogue
    sources: Mapping[int, Source]
    parser: PageParser
    references: ReferenceIndexes
    index_memory: int | None

    def steps(self) -> Iterator[Step]:
        """Yield all that the index has read of its sources, in their order.

        Raises:
            InputError: a file has records that the index has not judged.
            StoreMismatch: a file holds others than those that were judged.
        """
        for number, source in sorted(self.sources.items()):
            yield from self._steps_of(number, source)

    def _steps_of(self, number: int, source: Source) -> Iterator[Step]:
        entry, at = self.catalogue.entries[number], 0
        files = FileInput([source], complete=entry.finished)
        files.enter(Catalogue())
        for step in files.steps():
            if isinstance(step, Chunk):
                if step.end > entry.position:
                    raise InputError(
                        f"{source.name} has records that the index has not judged: it knows "
                        f"{entry.position:,}. Run the same replay again, then verify."
                    )
                if step.end == entry.position and step.mark != entry.mark:
                    raise StoreMismatch(
                        describe_change(source.name, "records that were judged are others")
                    )
                step.source, at = number, step.end
                yield step
                if at == entry.position and not entry.finished:
                    return
            elif isinstance(step, SourceEnd):
                yield replace(step, source=number)
        if at < entry.position:
            what = files.report.incomplete.get(source.name) or "it is shorter"
            raise StoreMismatch(describe_change(source.name, what))


@contextmanager
def open_target(folder: Path, pages: Sequence[str], settings: Settings) -> Iterator[FileTarget]:
    """Open the index in `folder` for its audit; `pages` name what it has read.

    Raises:
        InputError: not all that it has read is given, or more, or not as it was read.
        StoreMismatch: its verdicts cannot be derived again, or the key or a file is another one.
        StreamerError: the index cannot be read.
    """
    with ExitStack() as stack:
        index = stack.enter_context(
            closing(ReadIndex(folder, settings.input_topic, settings.key_file))
        )
        catalogue, known = (open_catalogue(index.store, folder) for _ in range(2))
        if why := _find_obstacle(index, catalogue):
            raise StoreMismatch(f"The index {folder} cannot be verified: {why}, {_ADVICE}.")
        check_identity(folder, index.identity, index.wanted)
        parser = _parser(settings, index)
        whole_rows = any(name == table_of(name, ROWS_SUFFIX) for name in catalogue.roles)
        given = reader_of(settings, parser).open(pages, whole_rows=whole_rows)
        sources = _sources(known, catalogue, given, parser.mapping.id)
        references = stack.enter_context(
            closing(ReferenceIndexes(settings.also, index.fingerprint, index.identity))
        )
        yield FileTarget(index, catalogue, sources, parser, references, settings.index_memory_bytes)


def _find_obstacle(index: ReadIndex, catalogue: Catalogue) -> str:
    """Return why the fold cannot be made again, or ""."""
    positions = index.state.positions
    if unpack_settings(index.state.settings) is not None and positions.get(CONFIG, 0) != 1:
        return "its settings were changed on the way, and it does not know where"
    if positions.get("commands"):
        return "pages of it were forgotten, and it does not know when"
    if why := next(filter(None, map(_find_missing, catalogue.entries)), ""):
        return why
    if catalogue.by_turns or _read_by_turns(index):
        return "its files were read by turns, and it does not know in which order"
    return ""


def _find_missing(entry: SourceEntry) -> str:
    """Return why the pages of a source cannot be read again; "" of a file."""
    if entry.topic_id:
        return f"it has read the topic {entry.name}"
    if entry.identity is not None or not entry.position:
        return ""
    known = {ADDED: "a program has added pages to it"}
    return known.get(entry.path, f"it has read {entry.name}, which is no file")


def _read_by_turns(index: ReadIndex) -> bool:
    """Return whether kept pages of a source come after those of a later one."""
    newest = 0
    for scanned in scan_rows(index.store):
        sources = [split_ref(ref)[0] for ref in scanned.rows.refs]
        if sources and (sources[0] < newest or sources != sorted(sources)):
            return True
        newest = sources[-1] if sources else newest
    return False


def _parser(settings: Settings, index: ReadIndex) -> PageParser:
    mapping, own, limit = page_parser(settings).mapping, index.signature, settings.page_bytes_max
    rules = index.settings.rules
    try:
        return PageParser(mapping, settings.carry, limit, rules, own.text, scope=own.scope)
    except ValueError as error:
        raise InputError(f"--carry cannot be used: {error}.") from error


def _sources(
    known: Catalogue, catalogue: Catalogue, given: Sequence[Source], mapping: str
) -> dict[int, Source]:
    """Return the files by their numbers in the index; `known` is a catalogue that may change."""
    count, found = len(catalogue.entries), dict[int, Source]()
    for source in given:
        number = known.enter(source) if source.is_regular else count
        if number >= count:
            raise InputError(
                f"The index has read no file {source.name}. Leave it out, or name the file as the "
                "replay named it."
            )
        if catalogue.entries[number].mapping not in {mapping, ""}:
            raise InputError(
                f"{source.name} was read under another field mapping. Give the --preset or "
                "--fields of the replay."
            )
        found[number] = source
    for number, entry in enumerate(catalogue.entries):
        if (entry.position or entry.finished) and entry.identity and number not in found:
            raise InputError(
                f"The index has read {entry.name} (then at {entry.path}), which is not among the "
                "PAGES. Give all that it has read."
            )
    return found
