"""`streamer uniqueness`: how much of a text is found nowhere else, and where the rest is from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamer.cli.options import command
from streamer.cli.progress import amount_bar, compile_with_bar
from streamer.config import Settings
from streamer.errors import InputError, SettingsError
from streamer.lab.cli.compare import AsJson, Canonical, Width
from streamer.lab.comparison import visible
from streamer.lab.documents import Document, files_of, read_body, read_documents
from streamer.lab.exact import Uniqueness
from streamer.lab.explanation import NearestKept, nearest_kept
from streamer.sketch.scheme import read_options, split_options
from streamer.sketch.settings import SignatureSettings
from streamer.text.words import CanonicalOptions

NO_TEXTS = (
    "An index has signatures, not texts: shares of shingles need --against. What it can tell are "
    "estimates, of the pages that share a key with the text."
)


@command
def uniqueness(
    text: Annotated[Path, typer.Argument(help="A text, an HTML file or a page file.")],
    *,
    against: Annotated[
        list[Path] | None,
        typer.Option(help="A file or folder of the collection; give it as often as needed."),
    ] = None,
    index: Annotated[
        Path | None, typer.Option(help="An index instead: the kept pages nearest to the text.")
    ] = None,
    canonical: Canonical = None,
    shingle_width: Width = 5,
    sources: Annotated[int, typer.Option(min=1, help="Sources to show, most first.")] = 20,
    as_json: AsJson = False,
    settings: Annotated[Settings, "key_file"],
) -> None:
    """Tell which share of a text's shingles is found nowhere in a collection.

    The sources of the others are listed. The text's own file does not count as a source.

    Example: streamer uniqueness essay.txt --against library/ --against pages.jsonl
    """
    if (against is None) == (index is None):
        raise SettingsError("Say what to look through: either --against or --index, not both.")
    form = read_options(CanonicalOptions, split_options(canonical or []), "the canonical form")
    body = read_body(text)
    compile_with_bar(main_text=form.text == "main")
    document = body.document(form)
    if not document.page.words:
        raise InputError(f"{text}: has no words; name a text with some")
    if against is not None:
        result = _look_through(document, text, against, form, shingle_width)
        report, table = _report(document, result, sources), _source_table(result, sources)
    else:
        assert index is not None
        if form != CanonicalOptions():
            raise SettingsError("An index has its own canonical form; leave --canonical out.")
        near = nearest_kept(index, body.utf8, body.flags, settings.key_file, _compile_for)
        report, table = _near_report(document, near, sources), _near_table(near, sources)
    if as_json:
        typer.echo(msgspec.json.encode(report).decode())
        return
    console = Console()
    for line in report["summary"]:
        console.print(visible(line), markup=False, highlight=False)
    if table.row_count:
        console.print(table)


def _compile_for(signature: SignatureSettings) -> None:
    compile_with_bar(main_text=signature.takes_main_text)


def _look_through(
    document: Document, text: Path, against: Sequence[Path], form: CanonicalOptions, width: int
) -> Uniqueness:
    """Return how unique a text is in the files but its own."""
    result = Uniqueness(document.page.words, width)
    files = [path for path in files_of(against) if not path.samefile(text)]
    if not files:
        raise SettingsError("There is nothing to look through but the text itself; name others.")
    with amount_bar("reading", len(files)) as report:
        for done, path in enumerate(files, 1):
            for other in read_documents([path], form):
                result.add(other.name, other.page.words)
            report(done)
    return result


def _report(document: Document, result: Uniqueness, limit: int) -> dict[str, Any]:
    """Return a text's uniqueness as JSON values, with the sentences that say it."""
    found = len(result.by_source)
    summary = (
        f"{result.percentage:.2f} % unique: {result.unique:,} of {result.shingles:,} shingles of "
        f"{result.width} words are found nowhere else; sources of the others: {found:,}."
    )
    return {
        "text": document.name,
        "words": len(document.page.words),
        "shingle_width": result.width,
        "shingles": result.shingles,
        "unique": result.unique,
        "percentage": result.percentage,
        "sources": [
            {"source": name, "shingles": count} for name, count in _most(result.by_source, limit)
        ],
        "sources_total": found,
        "summary": [summary],
    }


def _most(by_source: dict[str, int], limit: int) -> list[tuple[str, int]]:
    return sorted(by_source.items(), key=lambda item: (-item[1], item[0]))[:limit]


def _source_table(result: Uniqueness, limit: int) -> Table:
    table = Table(box=SIMPLE_HEAD)
    table.add_column("source", overflow="fold")
    table.add_column("shingles", justify="right")
    table.add_column("of the text", justify="right")
    for name, count in _most(result.by_source, limit):
        table.add_row(Text(visible(name)), f"{count:,}", f"{count / result.shingles:.2%}")
    return table


def _near_report(document: Document, near: NearestKept, limit: int) -> dict[str, Any]:
    """Return what an index tells of a text as JSON values, with the sentences that say it."""
    nearest = f"{near.pages[0].similarity:.4f}" if near.pages else "none"
    summary = (
        f"Kept pages that share a key with the text: {len(near.pages):,}; "
        f"estimated similarity of the nearest: {nearest}."
    )
    return {
        "text": document.name,
        "words": len(document.page.words),
        "method": near.signature.method,
        "nearest": [page._asdict() for page in near.pages[:limit]],
        "pages_total": len(near.pages),
        "summary": [summary, NO_TEXTS],
    }


def _near_table(near: NearestKept, limit: int) -> Table:
    table = Table(box=SIMPLE_HEAD)
    table.add_column("kept page", overflow="fold")
    table.add_column("similarity", justify="right")
    table.add_column("shared keys", justify="right")
    for page in near.pages[:limit]:
        table.add_row(Text(visible(page.url)), f"{page.similarity:.4f}", f"{page.shared_keys}")
    return table
