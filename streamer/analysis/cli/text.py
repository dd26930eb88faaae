"""The command `text`: the text of pages that is compared, a record each."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import msgspec

from streamer.cli.options import Overwrite, command
from streamer.cli.terminal import Terminal, compile_with_bar, figures, progress_bar, sum_rows
from streamer.compression import is_parquet
from streamer.config import Settings
from streamer.errors import needs_extra
from streamer.model import Location
from streamer.pages.files import Source
from streamer.rules import MAIN
from streamer.run.output_checks import STANDARD_OUTPUT, check_ending, check_new
from streamer.run.outputs import OutputFile, OutputSink, complete_output, pack
from streamer.run.page_texts import Kind, TextBlock, TextReader
from streamer.run.reading import PageReader

_GROUP_BYTES = 32 << 20  # of texts in a row group of Parquet


class PageLine(msgspec.Struct, frozen=True):
    """A page's text in an output: where its record is, and what `ExtractedText` has."""

    page: Location
    url: str
    title: str
    kind: Kind
    text: str
    blocks: list[TextBlock] | msgspec.UnsetType = msgspec.UNSET


@command
def text(
    pages: list[str],
    *,
    out: str,
    blocks: bool = False,
    overwrite: Overwrite = False,
    reader: PageReader,
    settings: Annotated[Settings, "preset", "text", "site_memory"],
) -> None:
    """Write the text of pages that is compared: main text, unless --text visible asks for all.

    A record has the page's place, URL and title, its text with a line for each block, and its kind:
    main, visible (it has no main text, or all was asked for) or plain (it is no HTML). With
    --site-memory, and the presets balanced and broad, it depends on the pages of the site before.
    The output comes to be once it is complete.

    Example: streamer text crawl.warc.gz --out texts.jsonl.gz

    Example: streamer text pages/ --out texts.parquet --preset balanced

    Example: streamer text page.jsonl --out - --blocks

    Args:
        pages (PAGES): Files of pages, directories of these, or - for standard input.
        out: Where the texts go: JSON lines, by the name compressed (.gz, .zst) or Parquet
            (.parquet); - for standard output.
        blocks: Write all blocks of a page too, with the likelihood of being main text, and why a
            block was left out: links (a few words in links), unlikely, or site (it repeats there).
    """
    check_ending("out", out, ".jsonl", ".parquet")
    is_given = "text" in settings.model_fields_set
    texts = TextReader(settings.text if is_given else MAIN, settings.site_memory)
    sources = reader.open(pages)
    check_new([out], [each.name for each in sources if each.is_regular], overwrite=overwrite)
    compile_with_bar(main_text=True)
    counts, dead, began = Counter[str](), Counter[str](), time.monotonic()
    with complete_output(out) as file, _writer(file, blocks=blocks) as write:
        for lines, codes in _read(reader, sources, texts, blocks=blocks):
            counts.update(line.kind for line in lines)
            dead.update(codes)
            write(lines)
    rows = [*sum_rows("pages", counts), ("seconds", f"{time.monotonic() - began:,.1f}")]
    Terminal(stderr=out == STANDARD_OUTPUT).print(figures(rows))
    if dead:
        each = ", ".join(f"{count:,} {code}" for code, count in sorted(dead.items()))
        Terminal(stderr=True).warn(
            f"{dead.total():,} records have no text ({each}). The dead letters of `streamer "
            "replay` say what is wrong with each."
        )


def _read(
    reader: PageReader, sources: Sequence[Source], texts: TextReader, *, blocks: bool
) -> Iterator[tuple[list[PageLine], list[str]]]:
    """Yield the texts of each chunk, and the codes of records that are no pages.

    Raises:
        StreamerError: as `PageReader.read`.
    """
    with progress_bar(sources) as report:
        for name, _, batch in reader.read(sources, report):
            columns = zip(batch.sequences, batch.urls, batch.bodies, batch.flags, strict=True)
            lines = []
            for number, url, body, flags in columns:
                own = texts.read(body, flags, url, blocks=blocks)
                place = Location(name, 0, number)
                lines.append(
                    PageLine(place, url.decode(), own.title, own.kind, own.text, own.blocks)
                )
            yield lines, [letter.code for letter in batch.dead]


Write = Callable[[Sequence[PageLine]], None]


@contextlib.contextmanager
def _writer(file: OutputFile, *, blocks: bool) -> Iterator[Write]:
    """Give what writes lines to an output, as JSON or as rows of Parquet."""
    if not is_parquet(file.name):
        encode = msgspec.json.Encoder().encode_lines
        yield lambda lines: file.write_packed(pack(file.name, [encode(lines)]))
        return
    with needs_extra("parquet", "Texts as Parquet"):
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415 - an extra
    schema = _schema(pa, blocks=blocks)
    with parquet.ParquetWriter(OutputSink(file), schema, compression="zstd") as writer:
        group = _TextGroup(lambda rows: writer.write_table(pa.Table.from_pylist(rows, schema)))
        yield group.add
        group.end()


class _TextGroup:
    """Rows that are written together, once their texts have _GROUP_BYTES."""

    def __init__(self, write: Callable[[list[dict[str, Any]]], None]) -> None:
        self._write = write
        self._rows: list[dict[str, Any]] = []
        self._size = 0

    def add(self, lines: Sequence[PageLine]) -> None:
        """Add the rows of lines."""
        self._rows += map(_row, lines)
        self._size += sum(len(line.text) for line in lines)
        if self._size >= _GROUP_BYTES:
            self.end()

    def end(self) -> None:
        """Write the rows that are left."""
        self._write(self._rows)
        self._rows, self._size = [], 0


def _row(line: PageLine) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(line)
    place = row.pop("page")
    return {**{f"page_{name}": value for name, value in place.items()}, **row}


def _schema(pa: Any, *, blocks: bool) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return the columns of a table of texts."""
    own = [("page_topic", pa.string()), ("page_partition", pa.int32()), ("page_offset", pa.int64())]
    own += [(name, pa.string()) for name in ("url", "title", "kind", "text")]
    if blocks:
        block = [("text", pa.string()), ("likelihood", pa.float64()), ("left_out", pa.string()),
                 ("other_pages", pa.int32())]  # fmt: skip
        own.append(("blocks", pa.list_(pa.struct(block))))
    return pa.schema(own)
