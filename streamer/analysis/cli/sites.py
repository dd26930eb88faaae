"""The command `sites`: what an index has learned of sites, and which text one of them repeats.

The index has hashes of blocks, and no text. So it can only say how full its table is; the blocks
of a host are found in page files, and looked up. A hash cannot be turned around: what is in no page
of the files is not listed.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from streamer.analysis.comparison import visible
from streamer.analysis.documents import read_bodies
from streamer.cli.options import AsJson, command
from streamer.cli.progress import amount_bar, compile_with_bar
from streamer.cli.terminal import Terminal, figures, listing, show
from streamer.config import Settings
from streamer.errors import InputError, SettingsError
from streamer.hosts import host_of, plain_host
from streamer.run.explanation import KeptIndex
from streamer.run.page_reader import PageReader
from streamer.sketch.site_memory import TableFigures
from streamer.text.visible import TextPart

BLOCKS_MAX = 100_000  # different blocks of a host that are counted
TEXT_CHARACTERS_MAX = 1000  # of a block that are kept
SHOWN_CHARACTERS_MAX = 160
_REPEATS_FROM = (1, 2, 4, 8, 16, 32, 64, 128, 255)


@command
def sites(
    host: str | None = None,
    *,
    index: Path,
    texts: list[str] | None = None,
    limit: Annotated[int, typer.Option(min=1)] = 40,
    as_json: AsJson = False,
    reader: PageReader,
    settings: Annotated[Settings, "key_file", "input_topic"],
) -> None:
    """Show which text a host repeats on its pages, as an index with --site-memory has learned it.

    The index stores hashes of blocks, and no text. So the blocks come from the pages of the host in
    the files of --texts; a block that is on none of these pages is not listed. Without a host, the
    command shows how many blocks the index knows, of all hosts. It is read as of its last flush.

    Example: streamer sites www.example.org --index my-index --texts crawl.jsonl.gz

    Example: streamer sites --index my-index

    Args:
        host (HOST): A host, such as www.example.org; needs --texts.
        index (DIR): Folder of the index.
        texts: Page files with pages of the host. Repeatable.
        limit: Blocks to show, those on most pages first.
    """
    if (host is None) != (not texts):
        raise SettingsError(
            "A host and page files belong together: the index has hashes of blocks, and no text. "
            "Give HOST and --texts, or neither of them to see how many blocks the index knows."
        )
    compile_with_bar(main_text=True)
    with closing(KeptIndex(index, settings.key_file, settings.input_topic)) as kept:
        if host is None:
            report, as_text = _table_report(kept.site_figures()), _print_table
        else:
            report = _host_report(_list(kept, host, reader, texts or []), limit)
            as_text = _print_host
    show(report, as_text, as_json=as_json)


@dataclass(slots=True)
class RepeatedBlock:
    """A block that other pages of its host have as well.

    Attributes:
        repeats: on how many other pages the index has seen it, up to 255.
        pages: on how many pages of the files it is.
        dropped: on how many of those it is left out because of what the site repeats.
        compared: on how many of those it is compared all the same.
    """

    text: str
    words: int
    repeats: int
    pages: int = 0
    dropped: int = 0
    compared: int = 0


@dataclass(slots=True)
class HostBlocks:
    """The blocks of a host that repeat; `untold` counts places of those beyond BLOCKS_MAX."""

    host: str
    pages: int = 0
    untold: int = 0
    blocks: dict[str, RepeatedBlock] = field(default_factory=dict)

    def add(self, parts: Iterable[TextPart]) -> None:
        """Count the parts of one page."""
        self.pages += 1
        seen = set[str]()
        for part in parts:
            text = " ".join(part.text.split())
            if not part.repeats or text in seen:
                continue
            seen.add(text)
            key = text[:TEXT_CHARACTERS_MAX]
            block = self.blocks.get(key)
            if block is None and len(self.blocks) == BLOCKS_MAX:
                self.untold += 1
                continue
            if block is None:
                block = self.blocks[key] = RepeatedBlock(key, len(text.split()), part.repeats)
            block.pages += 1
            block.dropped += part.dropped
            block.compared += part.counts


def _list(kept: KeptIndex, host: str, reader: PageReader, texts: list[str]) -> HostBlocks:
    """Return the blocks of a host that repeat, of the pages in some files.

    Raises:
        InputError: no page of the files is of the host.
        SettingsError: `host` is none.
    """
    found = HostBlocks(plain_host(host))
    if not found.host or host_of(host):
        raise SettingsError(f"{host} is no host. Give its name alone, such as www.example.org.")
    sources = reader.open(texts)
    with amount_bar("reading", sum(source.total_bytes or 0 for source in sources)) as report:
        for body in read_bodies(reader, sources, lambda read, _pages: report(read)):
            if host_of(body.name) == found.host:
                found.add(kept.known_parts(body.utf8, body.flags, body.name))
    if not found.pages:
        raise InputError(
            f"No page in the files is of the host {found.host}. Check the name, which has no port "
            "and is another one with and without www; or give more files."
        )
    return found


def _host_report(found: HostBlocks, limit: int) -> dict[str, Any]:
    """Return the blocks of a host as JSON values, those on most pages first."""
    order = sorted(found.blocks.values(), key=lambda each: (-each.repeats, -each.pages, each.text))
    return {
        "host": found.host,
        "pages": found.pages,
        "blocks_total": len(order),
        "untold": found.untold,
        "blocks": order[:limit],
    }


def _table_report(found: TableFigures) -> dict[str, Any]:
    """Return what an index knows of all sites as JSON values."""
    counts = found.by_repeats
    return {
        "pages": found.pages,
        "room": found.room,
        "blocks": sum(counts),
        "repeating": {str(least): sum(counts[least:]) for least in _REPEATS_FROM},
    }


def _print_host(report: dict[str, Any]) -> None:
    console = Terminal()
    rows = [
        (Text(visible(each.text[:SHOWN_CHARACTERS_MAX])),
         each.repeats, each.pages, each.dropped, each.compared, each.words)
        for each in report["blocks"]
    ]  # fmt: skip
    if rows:
        heads = ("block", "other pages", "in the files", "left out", "compared", "words")
        console.print(listing(heads, rows))
    more = report["blocks_total"] - len(report["blocks"])
    console.say(
        f"{report['host']}: {report['pages']:,} pages in the files have {report['blocks_total']:,} "
        f"blocks that the index has seen on other pages of the host"
        + (f"; {more:,} are not shown, --limit shows more." if more else ".")
    )
    if report["untold"]:
        console.say(f"Blocks beyond {BLOCKS_MAX:,} were not counted.")


def _print_table(report: dict[str, Any]) -> None:
    console = Terminal()
    share = report["blocks"] / report["room"]
    console.print(figures([
        ("pages learned from", report["pages"]),
        ("blocks known", f"{report['blocks']:,} ({share:.1%} of the table)"),
        *((f"  on {least} other pages or more", count)
          for least, count in report["repeating"].items() if count),
    ]))  # fmt: skip
