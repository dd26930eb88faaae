"""`streamer compare`, `uniqueness` and `collection`: a text compared with one or many."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.color import Color
from rich.style import Style
from rich.table import Table
from rich.text import Text

from streamer.analysis import comparison, documents
from streamer.analysis.exact import Uniqueness
from streamer.cli import terminal
from streamer.cli.main import Command, Group
from streamer.cli.options import AsJson, Overwrite, command
from streamer.config import Settings
from streamer.errors import InputError, SettingsError
from streamer.run.explanation import KeptIndex, with_bounds
from streamer.run.output_checks import check_new
from streamer.run.outputs import write_whole
from streamer.run.page_texts import TextReader
from streamer.run.reading import PageReader
from streamer.sketch.collection import Collection, count_words, load_collection
from streamer.sketch.scheme import canonical_options, split_options
from streamer.sketch.settings import MAIN_TEXT, SignatureSettings

SHOWN_CHARACTERS_MAX = 20_000  # of both texts on a terminal; longer ones go into --html
SCREEN_CHARACTERS = 1000  # of both texts below the figures
COLOURS = ("green", "yellow", "cyan", "magenta", "blue", "red")

Width = Annotated[int, typer.Option("--shingle-width", min=1, max=32, help="Words per shingle.")]


@dataclass(frozen=True)
class Methods:
    """The options that say which methods compare two texts, and how.

    Attributes:
        method: Method or preset to ask, or two as KEYS+ACCEPT, instead of what a replay would ask.
        method_option (METHOD.NAME=VALUE): A parameter of a method.
        show_all: Show what all methods say, and longer texts.
    """

    method: list[str] | None = None
    method_option: list[str] | None = None
    show_all: Annotated[bool, typer.Option("--all")] = False


@dataclass(frozen=True)
class SideBySide:
    """The options of a page that shows both texts.

    Attributes:
        html: Write both texts side by side as a page.
    """

    html: Annotated[Path | None, typer.Option(dir_okay=False)] = None
    overwrite: Overwrite = False


@command
def compare(  # noqa: PLR0913 - the options of the command
    a: str | None = None,
    b: str | None = None,
    *,
    pairs: Path | None = None,
    methods: Methods,
    shingle_width: Width = 5,
    index: Path | None = None,
    page: SideBySide,
    as_json: AsJson = False,
    reader: PageReader,
    settings: Annotated[Settings, "preset", "threshold", "text", "exact", "canonical", "key_file"],
) -> None:
    """Compare two texts: what a replay would decide, their exact shares, the shared fragments.

    Shares are of shingles; a text shorter than one is one shingle. With --all, --html and --json,
    all other methods are asked too; they have their default parameters unless --method-option sets
    others.

    With --text main, text that does not count is shown too, in grey. With --index, also what is
    left out because the page's site repeats it, and on how many of its pages.

    Example: streamer compare old.html new.html --html difference.html

    Example: streamer compare a.html b.html --preset balanced

    Example: streamer compare old.html https://example.org/new.html --all

    Example: streamer compare one.warc.gz other.warc.gz --index my-index --html difference.html

    Args:
        a: A text, an HTML file or a page file, or its URL.
        b: Another one.
        pairs: File with one pair of texts per line, separated by a tab, or JSON with "a" and "b".
        index: Compare what this index compares of each page, by its URL and site, as it decides.
    """
    steps = [*settings.canonical, *(MAIN_TEXT if settings.text == "main" else ())]
    asks_all = methods.show_all or as_json or page.html is not None
    names = methods.method or (["all"] if asks_all else [])
    given = _method_options(methods.method_option or [])
    panel = comparison.Panel(names, given, steps, exact=settings.exact)
    terminal.compile_with_bar(main_text=settings.text == "main")
    if pairs is not None:
        if a or b or page.html or index:
            raise SettingsError("--pairs goes without A, B, --index and --html; leave those out.")
        panel = (
            panel if names else comparison.Panel.of(with_bounds(settings.signature, settings.index))
        )
        both = documents.read_pairs(pairs, canonical_options(steps))
        reports = (
            comparison.compare_documents(one, other, shingle_width, panel) for one, other in both
        )
        _print_pairs(reports, as_json=as_json)
        return
    if a is None or b is None or a == b == "-":
        raise SettingsError("Two texts are compared; name both files, or give --pairs.")
    if page.html is not None:
        check_new([str(page.html)], overwrite=page.overwrite)
    bodies = [documents.read_body(path, reader) for path in (a, b)]
    (one, other), in_force = _read(bodies, settings, steps, index)
    report = comparison.compare_documents(one, other, shingle_width, panel)
    if not (methods.method or as_json):
        terminal.Terminal().say(
            _decision(comparison.Panel.of(in_force).ask(one.page, other.page)[0])
        )
    _print(report, (one, other), methods, page.html, as_json=as_json)


def _read(
    bodies: Sequence[documents.Body], settings: Settings, steps: Sequence[str], index: Path | None
) -> tuple[list[documents.Document], SignatureSettings]:
    """Return what is compared of bodies, and by what a replay would judge the last one.

    Raises:
        SettingsError: an index is given, and what it has itself.
    """
    if index is None:
        found = [body.document(canonical_options(steps)) for body in bodies]
        signature, own = settings.signature, settings.index
    elif steps or "threshold" in settings.model_fields_set:
        raise SettingsError(
            "An index has its own canonical form and text, and a threshold; leave --canonical, "
            "--text, --threshold and --preset out."
        )
    else:
        with closing(KeptIndex(index, settings.key_file)) as kept:
            signature, own = kept.signature, kept.settings
            terminal.compile_with_bar(main_text=signature.takes_main_text)
            found = [body.document_of(kept) for body in bodies]
    last = bodies[-1]
    main = not signature.takes_main_text or TextReader().read(last.utf8, last.flags).kind == "main"
    return found, with_bounds(signature, own.for_url(last.name, main=main))


def _decision(result: comparison.MethodResult) -> str:
    """Return what a replay would decide, in a sentence."""
    verdict = "a duplicate of A" if result.duplicate else "unique"
    why = result.unavailable or (
        f"{result.name}, similarity {result.similarity:.4f}{' exact' * result.exact}, threshold "
        f"{result.threshold:.4f}, {result.shared_keys} of {result.keys} keys shared."
    )
    return f"A replay would call B {verdict}: {why}"


def _method_options(given: Sequence[str]) -> comparison.MethodOptions:
    """Return `method.name=value` texts by method.

    Raises:
        SettingsError: one has another form.
    """
    result: dict[str, dict[str, str]] = {}
    for name, value in split_options(given).items():
        method, dot, option = name.partition(".")
        if not dot:
            raise SettingsError(f"The option {name} names no method; write METHOD.{name}=VALUE.")
        result.setdefault(method, {})[option] = value
    return result


def _print_pairs(reports: Iterator[comparison.Report], *, as_json: bool) -> None:
    """Print a line a pair as soon as it is compared, and how many there were."""
    console, count, duplicates = terminal.Terminal(), 0, 0
    for report in reports:
        count += 1
        said = sorted(one.name for one in report.methods if one.duplicate)
        duplicates += bool(said)
        if as_json:
            typer.echo(msgspec.json.encode(report).decode())
            continue
        rows = dict(report.exact_rows())
        console.say(
            f"{report.a}  Jaccard {rows['Jaccard similarity']}  Dice {rows['Dice']}"
            f"  duplicates for: {', '.join(said) or 'none'}"
        )
    if not as_json:
        console.print(f"{count:,} pairs; duplicates for at least one method: {duplicates:,}")


def _print(
    report: comparison.Report,
    both: tuple[documents.Document, documents.Document],
    methods: Methods,
    html: Path | None,
    *,
    as_json: bool,
) -> None:
    """Print the figures, what methods say, and the texts if they are not too long to read here."""
    pieces = comparison.highlight(both[0].page.text, both[1].page.text, report.fragments)
    shown = [comparison.in_place(own, each.parts) for own, each in zip(pieces, both, strict=True)]
    if html is not None:
        write_whole(html, comparison.side_by_side(report, shown[0], shown[1]).encode())
    if as_json:
        typer.echo(msgspec.json.encode(report).decode())
        return
    console = terminal.Terminal()
    console.print(terminal.figures(report.exact_rows()))
    if methods.method or methods.show_all:
        heads = ("method", "similarity", "threshold", "shared keys", "says")
        console.print(terminal.listing(heads, report.method_rows(), text=5))
    length = sum(len(piece.text) for pieces in shown for piece in pieces)
    if length > (SHOWN_CHARACTERS_MAX if methods.show_all else SCREEN_CHARACTERS):
        more = "--all shows them, " * (length <= SHOWN_CHARACTERS_MAX)
        console.print(f"The texts are too long to show here: {more}--html OUT writes a page.")
    else:
        texts = Table(box=SIMPLE_HEAD, expand=True)
        for name in (report.a, report.b):
            texts.add_column(Text(comparison.visible(name)), ratio=1)
        texts.add_row(*map(_colour, shown))
        console.print(texts)
    if html is not None:
        console.say(f"wrote {html}")


def _colour(pieces: Sequence[comparison.Piece]) -> Text:
    result = Text()
    for piece in pieces:
        if not piece.counts:
            note = f" ({piece.note})" if piece.note else ""
            result.append(f"{comparison.visible(piece.text)}{note}", "dim")
            continue
        colour = None if piece.group is None else COLOURS[piece.group % len(COLOURS)]
        style = Style(color=Color.parse("black"), bgcolor=Color.parse(colour)) if colour else None
        result.append(comparison.visible(piece.text), style)
    return result


@command
def uniqueness(
    text: str,
    *,
    against: list[str],
    canonical: list[str] | None = None,
    shingle_width: Width = 5,
    sources: Annotated[int, typer.Option(min=1)] = 20,
    as_json: AsJson = False,
    reader: PageReader,
) -> None:
    """Show the share of a text's shingles that a collection does not contain.

    The sources of the others are listed. The text's own file does not count as a source.

    Example: streamer uniqueness essay.txt --against library/ --against pages.jsonl

    Args:
        text: A text, an HTML file or a page file, or its URL.
        against: File or folder of the collection, or its URL. Repeatable.
        canonical (NAME=VALUE): Option of the canonical form, for example stem=english.
        sources: Sources to show, largest first.
    """
    form = canonical_options(canonical or [])
    body = documents.read_body(text, reader)
    terminal.compile_with_bar(main_text=form.text == "main")
    document = body.document(form)
    if not document.page.words:
        raise InputError(f"{document.name}: has no words; name a text with some")
    result = Uniqueness(document.page.words, shingle_width)
    files = documents.collect(against, reader, aside=text)
    if not any(files):
        raise SettingsError("There is nothing to look through but the text itself; name others.")
    with terminal.amount_bar("reading", files.size) as progress:
        for other in documents.read_documents(files, form, reader, progress):
            result.add(other.name, other.page.words)
    report = {"text": document.name, "words": len(document.page.words), **_report(result, sources)}
    terminal.show(report, _print_uniqueness, as_json=as_json)


def _print_uniqueness(report: dict[str, Any]) -> None:
    """Print what a text shares, and the sources that have it."""
    console = terminal.Terminal()
    for line in report["summary"]:
        console.print(comparison.visible(line))
    rows = [
        (
            comparison.visible(each["source"]),
            each["shingles"],
            f"{each['shingles'] / report['shingles']:.2%}",
        )
        for each in report["sources"]
    ]
    if rows:
        console.print(terminal.listing(("source", "shingles", "of the text"), rows))


def _report(result: Uniqueness, limit: int) -> dict[str, Any]:
    """Return a text's uniqueness as JSON values, with the sentences that say it."""
    found = result.by_source
    most = sorted(found.items(), key=lambda item: (-item[1], item[0]))[:limit]
    summary = (
        f"{result.percentage:.2f} % unique: {result.unique:,} of {result.shingles:,} shingles of "
        f"{result.width} words are found nowhere else; sources of the others: {len(found):,}."
    )
    return {
        "shingle_width": result.width,
        "shingles": result.shingles,
        "unique": result.unique,
        "percentage": result.percentage,
        "sources": [{"source": name, "shingles": count} for name, count in most],
        "sources_total": len(found),
        "summary": [summary],
    }


collection = typer.Typer(
    cls=Group,
    help="Count on how many pages each word occurs, for methods that weigh words.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@collection.command(cls=Command)
@command
def build(
    pages: list[str],
    *,
    out: Annotated[Path, typer.Option(dir_okay=False)],
    min_pages: Annotated[int, typer.Option(min=1)] = 1,
    overwrite: Overwrite = False,
    reader: PageReader,
    settings: Annotated[Settings, "canonical"],
) -> None:
    """Count on how many pages each word occurs, and write the counts to a file.

    Methods that weigh words take it as --method-option collection=FILE, with the same --canonical.
    The same pages give the same file in any order.

    Example: streamer collection build crawl/ --out words.json

    Args:
        pages (PAGES): JSONL (.jsonl, .gz, .zst), WARC/WET or ARC files, directories of these, their
            URLs (s3://, gs://, az://, https://), or - for standard input.
        out: File to write.
        min_pages: Minimum number of pages of a word; rarer words count as unseen.
    """
    options = canonical_options(settings.canonical)
    sources = reader.open(pages)
    regular = [source.name for source in sources if source.is_regular]
    check_new([str(out)], regular, overwrite=overwrite)
    terminal.compile_with_bar(main_text=options.text == "main")
    started = time.perf_counter()
    with terminal.progress_bar(sources) as report:
        texts = documents.page_texts(reader, sources, options, report)
        result = count_words((page.words for page in texts), options, min_pages)
    if not result.documents:
        names = ", ".join(source.name for source in sources)
        raise InputError(f"{names}: no pages with words; give page files")
    write_whole(out, result.to_bytes())
    print_collection(out, result, time.perf_counter() - started)


@collection.command("show", cls=Command)
@command
def show_collection(file: Path) -> None:
    """Show what a collection file contains.

    Example: streamer collection show words.json

    Args:
        file: File that `collection build` wrote.
    """
    print_collection(file, load_collection(file))


def print_collection(file: Path, result: Collection, seconds: float | None = None) -> None:
    """Print the figures of a collection as a table."""
    rows: list[tuple[str, str | int]] = [
        ("file", str(file)), ("pages", result.documents), ("words", result.words),
        ("fingerprint", result.fingerprint),
    ]  # fmt: skip
    if seconds is not None:
        rows.append(("seconds", f"{seconds:,.1f}"))
    terminal.Terminal().print(terminal.figures(rows))
