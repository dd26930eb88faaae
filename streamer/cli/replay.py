"""`streamer replay`: files or a topic in, verdicts out, in one process."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from streamer.cli import kafka_options, options
from streamer.cli import topic_options as topics
from streamer.cli.mapping import Fields, Preset, page_parser
from streamer.cli.progress import compile_with_bar, progress_bar
from streamer.cli.summary import Summary, print_summary, summarise
from streamer.config import Settings, load_settings
from streamer.errors import SettingsError, StoreUnavailable
from streamer.garbage import spare_what_lasts
from streamer.sketch.method_signer import make_signer
from streamer.sketch.signer import PageSigner
from streamer.stream.catalogue import own_catalogue
from streamer.stream.detector import Detector
from streamer.stream.files import Source, open_sources
from streamer.stream.index_folder import IndexFolder
from streamer.stream.outputs import STANDARD_OUTPUT, OutputFile, output_key
from streamer.stream.parse import PageParser
from streamer.stream.reading import FileInput, Input
from streamer.stream.replay import Outcome, Progress, Replay

INTERRUPTED = 130


def replay(  # noqa: PLR0913 - the options of the command line
    pages: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PAGES",
            help="JSONL (.jsonl, .gz, .zst) or WARC/WET files, directories of these, "
            "or - for standard input.",
            show_default=False,
        ),
    ] = None,
    *,
    verdicts: Annotated[
        str, typer.Option(help="Where verdicts go, as JSON lines; - for standard output.")
    ],
    index: Annotated[
        Path | None, typer.Option(help="Folder of the index. Without it the index is temporary.")
    ] = None,
    dead_letters: Annotated[
        str | None,
        typer.Option(
            help="Where records that cannot be judged go. \\[default: VERDICTS.dead.jsonl]"
        ),
    ] = None,
    summary: Annotated[
        Path | None, typer.Option(help="Also write the summary to this file, as JSON.")
    ] = None,
    from_topic: topics.FromTopic = None,
    partitions: topics.Partitions = None,
    offsets: topics.Offsets = None,
    until: topics.Until = None,
    order_of: topics.OrderOf = None,
    brokers: kafka_options.Brokers = None,
    security_protocol: kafka_options.SecurityProtocol = None,
    ssl_cafile: kafka_options.SslCafile = None,
    ssl_certfile: kafka_options.SslCertfile = None,
    ssl_keyfile: kafka_options.SslKeyfile = None,
    sasl_mechanism: kafka_options.SaslMechanism = None,
    sasl_username: kafka_options.SaslUsername = None,
    sasl_password_file: kafka_options.SaslPasswordFile = None,
    preset: Preset = None,
    fields: Fields = None,
    carry: Annotated[
        list[str] | None,
        typer.Option(help="Input field to copy into the verdict; may be given several times."),
    ] = None,
    threshold: options.Threshold = None,
    min_shingles: options.MinShingles = None,
    method: options.Method = None,
    accept: options.Accept = None,
    method_option: options.MethodOptions = None,
    canonical: options.Canonical = None,
    shingle_width: options.ShingleWidth = None,
    bands: options.Bands = None,
    rows: options.RowsOption = None,
    shards: options.Shards = None,
    key_file: options.KeyFile = None,
    threads: options.Threads = None,
    head_pages: options.HeadPages = None,
    config: options.ConfigFile = None,
) -> None:
    """Judge the pages of files, or of a topic: one verdict a page, unique or duplicate of which.

    With --index, a run that was interrupted goes on where its index stands, and a file that was
    judged before is passed over; one that has grown goes on where it ended.

    A topic is read one partition after the other, up to the end that it has at the start; messages
    before the index's position are not taken again. With --order-of, verdicts are those of the
    worker of that index, byte by byte if it has one shard.

    Example: streamer replay crawl.jsonl.gz --verdicts verdicts.jsonl --index my-index

    Example: streamer replay titles.jsonl --method short-texts --verdicts verdicts.jsonl

    Example: streamer replay --from-topic pages --brokers localhost:9092 --order-of streamer
    --key-file key --verdicts verdicts.jsonl
    """
    settings = load_settings(
        config, threshold=threshold, min_shingles=min_shingles, method=method, accept=accept,
        method_option=method_option or None, canonical=canonical or None,
        shingle_width=shingle_width, bands=bands, rows=rows, shards=shards,
        key_file=key_file, threads=threads, head_pages=head_pages,
        brokers=brokers, security_protocol=security_protocol,
        ssl_cafile=ssl_cafile, ssl_certfile=ssl_certfile, ssl_keyfile=ssl_keyfile,
        sasl_mechanism=sasl_mechanism, sasl_username=sasl_username,
        sasl_password_file=sasl_password_file,
    )  # fmt: skip
    parser = page_parser(preset, fields, carry or (), settings.page_bytes_max)
    names = _output_names(verdicts, dead_letters)
    console = Console(stderr=verdicts == STANDARD_OUTPUT)
    topic = topics.TopicOptions(from_topic, partitions, offsets, until, order_of)
    topic.check(files=bool(pages), key=topics.key_is_known(settings.key_file, index))
    with ExitStack() as stack:
        make_input = (
            stack.enter_context(_topic_input(topic, settings))
            if from_topic is not None
            else _file_input(pages or [], names, settings, console)
        )
        folder, lasting = stack.enter_context(_index_folder(index, settings))
        outcome, result = _run(folder, make_input, names, parser, settings, lasting=lasting)
    print_summary(console, result)
    if summary is not None:
        _write_summary(summary, result)
    if outcome.interrupted:
        console.print(
            "Interrupted. The same command goes on from here." if index else "Interrupted."
        )
        raise typer.Exit(INTERRUPTED)


def _output_names(verdicts: str, dead_letters: str | None) -> tuple[str, str | None]:
    """Return the names of both outputs; dead letters lie beside verdicts unless told otherwise."""
    if dead_letters is None and verdicts != STANDARD_OUTPUT:
        dead_letters = f"{verdicts}.dead.jsonl"
    if dead_letters is not None and output_key(dead_letters) == output_key(verdicts):
        raise SettingsError("--verdicts and --dead-letters must be different files.")
    return verdicts, dead_letters


def _topic_input(
    topic: topics.TopicOptions, settings: Settings
) -> AbstractContextManager[topics.MakeInput]:
    from streamer.cli.topic_input import topic_input  # noqa: PLC0415 - imports the Kafka client

    return topic_input(topic, settings)


def _file_input(
    given: Sequence[str], outputs: tuple[str, str | None], settings: Settings, console: Console
) -> topics.MakeInput:
    """Return what makes the input of the files that are given."""
    opened = open_sources(given, settings.page_bytes_max)
    sources = _inputs(opened.sources, given, outputs)
    if opened.files_ignored:
        console.print(f"{opened.files_ignored:,} files in these folders are no page files.")

    def make(_fingerprint: str) -> tuple[Input, AbstractContextManager[Progress]]:
        return FileInput(sources), progress_bar(sources)

    return make


def _inputs(
    sources: Sequence[Source], given: Sequence[str], outputs: tuple[str, str | None]
) -> list[Source]:
    """Return the sources without this run's own outputs, which may lie in a folder of pages."""
    own = {output_key(name) for name in outputs if name and name != STANDARD_OUTPUT}
    if clash := next((name for name in given if output_key(name) in own), None):
        raise SettingsError(f"{clash} is both input and output. Name another file for one of them.")
    return [source for source in sources if output_key(source.name) not in own]


def _write_summary(path: Path, result: Summary) -> None:
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")
    except OSError as error:
        raise StoreUnavailable(f"Cannot write the summary {path}: {error.strerror}.") from error


@contextmanager
def _index_folder(index: Path | None, settings: Settings) -> Iterator[tuple[IndexFolder, bool]]:
    """Open the index, or a temporary one; yield it and whether it lasts."""
    with ExitStack() as stack:
        temporary = None if index else stack.enter_context(TemporaryDirectory(prefix="streamer-"))
        path = index or Path(str(temporary)) / "index"
        folder = IndexFolder.open(path, settings.signature, settings.shards, settings.key_file)
        try:
            yield folder, index is not None
        finally:
            folder.store.close()


def _run(
    folder: IndexFolder,
    make_input: topics.MakeInput,
    names: tuple[str, str | None],
    parser: PageParser,
    settings: Settings,
    *,
    lasting: bool,
) -> tuple[Outcome, Summary]:
    compile_with_bar()
    meta = folder.store.meta
    catalogue = own_catalogue(meta.owner if meta else b"", str(folder.path))
    catalogue.lie_in(folder.path)
    pages, bar = make_input(folder.fingerprint)
    detector = Detector(folder, settings.index, head_pages=settings.head_pages)

    def new_signer() -> PageSigner:
        return make_signer(settings.signature, folder.secret)

    outputs = [
        OutputFile.open(name, catalogue.known_length(name, folder.fingerprint), lasting=lasting)
        for name in names
        if name is not None
    ]
    job = Replay(
        detector, catalogue, parser, new_signer, folder.fingerprint, settings.signing_threads
    )
    spare_what_lasts()
    try:
        with _stopped_by_signals(job), bar as report:
            letters = outputs[1] if len(outputs) > 1 else None
            outcome = job.run(pages, outputs[0], letters, report)
    finally:
        detector.stop()
        for output in outputs:
            output.close()
    return outcome, summarise(outcome, catalogue, detector, folder)


@contextmanager
def _stopped_by_signals(job: Replay) -> Iterator[None]:
    """Let SIGINT and SIGTERM end the run after the batch in hand; a second one ends it at once."""

    def handle(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        job.interrupt()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
