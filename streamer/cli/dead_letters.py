"""`streamer dead-letters`: count records that could not be judged, show them, send them again."""

import asyncio
import base64
import codecs
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from streamer.cli.main import Command, Group
from streamer.cli.options import Overwrite, command, quiet_connection_of
from streamer.cli.terminal import Terminal, open_output
from streamer.cli.terminal import show as show_report
from streamer.config import Settings
from streamer.errors import InputError, SettingsError
from streamer.model import DeadLetter, Location
from streamer.pages.formats import CDX, format_by_name, is_of_messages
from streamer.panels import SECURITY
from streamer.run.output_checks import STANDARD_OUTPUT, check_new
from streamer.run.outputs import StandardOutput, read_lines_within
from streamer.wrong_values import did_you_mean

# By code what to do, in the words of docs/dead-letters.md.
REMEDIES = {
    "invalid_json": "Look at the producer: the detail says what the record is (HTML, several "
    "objects, NaN, single quotes). The text json failed to parse is scrapy-cluster's own mark of "
    "a message that it could not encode.",
    "not_an_object": "Check that the input is one message a line or record.",
    "missing_url": "Check --fields.",
    "missing_scope": "Check --scope; check that the producer sends that field.",
    "url_too_long": "Usually a trap for crawlers, or a data: URL.",
    "missing_body": "Check --fields; check that the producer sends bodies.",
    "wrong_type": "Check --fields.",
    "empty_body": "Often a failed fetch.",
    "bad_base64": "Check base64 in the mapping.",
    "bad_content_encoding": "Fetch the page again.",
    "decompressed_too_large": "Raise --page-bytes-max only if you know the source.",
    "record_too_large": "Raise --page-bytes-max only if you know the source.",
    "no_registry": "Give the schema registry with --registry-url, and send them again.",
    "unknown_schema": "Check --registry-url, and send them again.",
    "schema_unavailable": "Look at the registry and the rights of --registry-username, and send "
    "them again.",
    "unusable_schema": "Write the pages with another schema.",
    "schema_mismatch": "Look at the producer.",
    "truncated_input": "Copy the file again.",
    "bad_warc_record": "Check the writer.",
    "bad_cdx_line": "Check the tool that wrote the index.",
    "archive_unreadable": "Check --cdx-base, and get the archive; then judge these lines again.",
    "wrong_record": "Get the index that belongs to the archives.",
    "damaged_member": "Copy the file again, and give it under another name.",
}
_UNKNOWN = "docs/dead-letters.md of the version that wrote it lists its codes."
SOURCES_SHOWN = 10  # of a code
LETTERS_SHOWN = 10
CHARACTERS_SHOWN = 400  # of a record

_decode = msgspec.json.Decoder(DeadLetter).decode

dead_letters = typer.Typer(
    cls=Group,
    help="Show why records could not be judged, export them, and send them again.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@dataclass(frozen=True)
class LetterChoice:
    """Which dead letters a command is for, in addition to files.

    Attributes:
        index_name (NAME): Worker's index whose dead letters to read, instead of files: those in the
            topic INPUT_TOPIC-dlt.
        from_topic (TOPIC): Topic of dead letters to read instead, for example pages-dlt; without
            --index-name those of all indexes.
        code (CODE): Code of the dead letters to read. Repeatable. [default: all]
    """

    index_name: str | None = None
    from_topic: str | None = None
    code: list[str] | None = None

    def __post_init__(self) -> None:
        """Raise SettingsError for a code that no dead letter has; a foreign message is unknown."""
        for code in {*(self.code or ())} - REMEDIES.keys() - {"unknown"}:
            near = did_you_mean(code, REMEDIES) or f" It may be {', '.join(sorted(REMEDIES))}."
            raise SettingsError(f"There is no code {code}.{near}")

    def topic(self, settings: Settings) -> str | None:
        """Return the topic of dead letters that is named, itself or by its index; None: neither."""
        if not self.from_topic and self.index_name is None:
            return None
        from streamer.kafka.topics import Names, check_name  # noqa: PLC0415 - Kafka's client

        if self.from_topic:
            check_name("--from-topic", self.from_topic)
            return self.from_topic
        return Names(self.index_name or "", settings.input_topic).dead_letters

    def read(self, files: list[Path] | None, settings: Settings) -> Iterator[DeadLetter]:
        """Return the dead letters that are wanted, in the order in which they are stored.

        Raises:
            SettingsError: neither files nor a topic are named, or both.
        """
        topic = self.topic(settings)
        if bool(files) == bool(topic):
            raise SettingsError(
                "Name files of dead letters, or a worker's index with --index-name, or its topic "
                "of dead letters with --from-topic: one of these."
            )
        found: Iterator[DeadLetter]
        found = (letter for path in files or () for letter in letters_in(path))
        if topic:
            from streamer.kafka.dead_letters import read_dead_letters  # noqa: PLC0415 - as above

            found = read_dead_letters(quiet_connection_of(settings), topic, self.index_name)
        return (each for each in found if not self.code or each.code in self.code)


def letters_in(path: Path) -> Iterator[DeadLetter]:
    """Yield the dead letters of a file.

    Raises:
        InputError: the file cannot be read, or a line of it is no dead letter.
    """
    try:
        number = 0
        for line in read_lines_within(path, sys.maxsize):
            number += 1
            yield _decode(line)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; check the path") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise InputError(
            f"{path}:{number}: not a dead letter ({error}); give what `replay` has written to "
            "--dead-letters, by default VERDICTS.dead.jsonl"
        ) from error


# ---- counts --------------------------------------------------------------------------------------


class Tally(msgspec.Struct):
    """The dead letters of one code from one source: how many, and where the first one is."""

    source: str
    letters: int
    page: Location
    detail: str


class CodeTally(msgspec.Struct):
    """The dead letters of one code, by source; those with most come first."""

    code: str
    letters: int
    remedy: str
    sources: list[Tally]


def tally(letters: Iterable[DeadLetter]) -> list[CodeTally]:
    """Return dead letters by code and source; the codes with most come first."""
    found: dict[str, dict[str, Tally]] = {}
    for letter in letters:
        of_code, source = found.setdefault(letter.code, {}), letter.page.topic
        of_code.setdefault(source, Tally(source, 0, letter.page, letter.detail)).letters += 1
    codes = []
    for code, of_code in found.items():
        sources = sorted(of_code.values(), key=lambda each: (-each.letters, each.source))
        count = sum(each.letters for each in sources)
        codes.append(CodeTally(code, count, REMEDIES.get(code, _UNKNOWN), sources))
    return sorted(codes, key=lambda each: (-each.letters, each.code))


@dead_letters.command("list", cls=Command)
@command
def list_letters(
    files: list[Path] | None = None,
    *,
    choice: LetterChoice,
    json: bool = False,
    settings: Annotated[Settings, "input_topic", "brokers", SECURITY],
) -> None:
    """Count dead letters by code and source, with an example and a remedy for each.

    To judge them again, give a file of dead letters to `streamer replay`, or send those of a worker
    with `streamer dead-letters retry`.

    Example: streamer dead-letters list verdicts.jsonl.dead.jsonl

    Example: streamer dead-letters list --index-name streamer --brokers localhost:9092

    Args:
        files (FILE): Dead letters of replays: .jsonl, .gz or .zst files.
        json: Print JSON.
    """
    show_report(tally(choice.read(files, settings)), _print_codes, as_json=json)


def _print_codes(codes: list[CodeTally]) -> None:
    for of_code in codes:
        typer.echo(f"{escape(of_code.code)}: {of_code.letters:,}. {of_code.remedy}")
        for each in of_code.sources[:SOURCES_SHOWN]:
            about = f": {escape(each.detail)}" if each.detail else ""
            typer.echo(f"{each.letters:>9,} in {_place(each.page, 'such as ')}{about}")
        if rest := of_code.sources[SOURCES_SHOWN:]:
            count = sum(each.letters for each in rest)
            typer.echo(f"{count:>9,} in {len(rest):,} more sources, which --json lists")
    typer.echo(f"{sum(each.letters for each in codes):,} dead letters")


def _place(page: Location, word: str = "") -> str:
    """Return a source and a record of it; the partition only of topics and pipes that have one."""
    partition = f"partition {page.partition}, " if page.partition else ""
    return f"{escape(page.topic)}, {word}{partition}record {page.offset}"


def escape(text: str) -> str:
    """Return text with escapes for what a terminal would not show, or would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


# ---- records -------------------------------------------------------------------------------------


@dead_letters.command(cls=Command)
@command
def show(
    files: list[Path] | None = None,
    *,
    choice: LetterChoice,
    limit: Annotated[int | None, typer.Option(min=1)] = None,
    out: str | None = None,
    overwrite: Overwrite = False,
    json: bool = False,
    settings: Annotated[Settings, "input_topic", "brokers", SECURITY],
) -> None:
    """Show dead letters with their records, escaped and shortened; with --out, only the records.

    Records of WARC and ARC files are not lines, so nothing is added to them. Once the mapping is
    right, give a file of dead letters to `streamer replay`; use `streamer dead-letters retry` for
    those of a worker.

    Example: streamer dead-letters show verdicts.jsonl.dead.jsonl --code missing_url --limit 3

    Example: streamer dead-letters show --index-name streamer --out records.jsonl

    Args:
        files (FILE): Dead letters of replays: .jsonl, .gz or .zst files.
        limit: Number of dead letters. [default: 10; all with --out or --json]
        out (FILE): File for the raw records, one per line; - for standard output.
        json: Print the dead letters themselves, as JSON lines.
    """
    letters = choice.read(files, settings)
    if out is not None:
        check_new([out], map(str, files or []), overwrite=overwrite)
    if out is not None or json:
        _write(islice(letters, limit), out or STANDARD_OUTPUT, as_json=json)
    else:
        _print_letters(letters, limit or LETTERS_SHOWN)


def _print_letters(letters: Iterator[DeadLetter], limit: int) -> None:
    for letter in islice(letters, limit):
        about = f": {escape(letter.detail)}" if letter.detail else ""
        typer.echo(f"{escape(letter.code)} in {_place(letter.page)}{about}")
        if letter.key_base64:
            typer.echo(f"    key: {shorten(_bytes(letter, letter.key_base64))}")
        value, cut = _bytes(letter, letter.value_base64), ", cut" if letter.truncated else ""
        typer.echo(f"    {letter.value_bytes:,} bytes{cut}: {shorten(value)}")
    if next(letters, None) is not None:
        Terminal(stderr=True).say(f"There are more than {limit:,}: see --limit, or --out.")


def shorten(data: bytes) -> str:
    """Return the beginning of a record in one line that a terminal shows as it is."""
    head = data[: 4 * CHARACTERS_SHOWN]
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    text = escape(decoder.decode(head, final=len(head) == len(data)))
    return text if len(text) <= CHARACTERS_SHOWN else f"{text[:CHARACTERS_SHOWN]}..."


def _write(letters: Iterator[DeadLetter], out: str, *, as_json: bool) -> None:
    """Write records, or the dead letters themselves, and warn of what is no line or not whole."""
    first = next(letters, None)  # before the file is emptied
    cut = not_lines = 0
    with open_output(out, StandardOutput(), "wb") as file:
        for letter in chain([first] if first else [], letters):
            if as_json:
                file.write(msgspec.json.encode(letter) + b"\n")
                continue
            value, source = _bytes(letter, letter.value_base64), letter.page.topic
            is_cdx_line = format_by_name(source) is CDX and b"\n" not in value
            is_line = is_of_messages(source) or is_cdx_line
            file.write(value + b"\n" if is_line else value)
            cut += letter.truncated
            not_lines += b"\n" in value or not is_line
    console = Terminal(stderr=True)
    if first is None:
        console.say("There are no such dead letters.")
    if cut:
        console.warn(f"{cut:,} of the records are cut: their dead letters have no more.")
    if not_lines:
        console.warn(f"{not_lines:,} of the records are no lines; --json keeps each apart.")


def _bytes(letter: DeadLetter, text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except ValueError as error:
        place = _place(letter.page)
        raise InputError(f"The dead letter of {place} is damaged: {error}.") from error


# ---- sent again ----------------------------------------------------------------------------------


@dead_letters.command(cls=Command)
@command
def retry(
    *,
    choice: LetterChoice,
    offsets: str | None = None,
    max_retries: Annotated[int, typer.Option(min=1)] = 3,
    dry_run: bool = False,
    settings: Annotated[Settings, "input_topic", "brokers", SECURITY],
) -> None:
    """Send dead letters of a worker to the topic of pages again, with their keys and bytes.

    Use it once the workers have the right mapping. It prints the offsets at which the next run must
    begin; without --offsets, a run sends all that the topic has. For dead letters of files, use
    `streamer replay`.

    Example: streamer dead-letters retry --index-name streamer --code missing_url --dry-run

    Args:
        offsets (RANGES): Offsets of the topic to send, for example 0:100-2000,1:50-. A run prints
            those for the next run. [default: all]
        max_retries: Maximum number of times that a message is sent again.
        dry_run: Only count what would be sent.
    """
    from streamer.kafka.dead_letters import Which, send_again  # noqa: PLC0415 - Kafka's client
    from streamer.kafka.topic_input import parse_wanted  # noqa: PLC0415 - as above

    topic = choice.topic(settings)
    if topic is None:
        raise SettingsError(
            "Name a worker's index with --index-name, or its topic of dead letters with "
            "--from-topic. To judge those of a file again, give it to `streamer replay`."
        )
    which = Which(frozenset(choice.code or ()), choice.index_name, max_retries)
    wanted, connection = parse_wanted(None, offsets, None), quiet_connection_of(settings)
    done = asyncio.run(send_again(connection, topic, wanted, which, dry_run=dry_run))
    typer.echo(
        f"{'would be sent' if dry_run else 'sent':17} {done.sent:,} to {done.topic}\n"
        f"cut               {done.cut:,}\n"
        f"sent too often    {done.too_often:,}\n"
        f"not asked for     {done.others:,}"
    )
    if not dry_run:
        typer.echo(f"go on with        --offsets {done.next_offsets}")
