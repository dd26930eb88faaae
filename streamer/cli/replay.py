"""`streamer replay`: files or a topic in, verdicts out, in one process."""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from streamer.assembly import open_engine, open_index, page_parser, reader_of
from streamer.cli import replay_options, summary
from streamer.cli.options import command
from streamer.cli.replay_options import FromTopic, Handling, Targets
from streamer.cli.terminal import Terminal, amount_bar, compile_with_bar, progress_bar
from streamer.config import Settings
from streamer.errors import InputError, SettingsError, StreamerError
from streamer.garbage import freeze_gc
from streamer.index.codec import unpack_settings, unpack_state
from streamer.index.messages import IndexSettings
from streamer.pages.bytestream import STANDARD_INPUT
from streamer.pages.identity import folder_resolver
from streamer.pages.parse import PageParser
from streamer.pages.tables import needs_arrow
from streamer.panels import FIELDS, REGISTRY, RUNNING, SECURITY, SIGNATURE, TEXT, VERDICTS
from streamer.run import output_checks, page_outputs
from streamer.run.catalogue import Catalogue, open_catalogue
from streamer.run.index_folder import IndexFolder
from streamer.run.kept_tables import KeptTable
from streamer.run.output_checks import STANDARD_OUTPUT, Made, output_key, owner_file
from streamer.run.outputs import OutputFile, write_whole
from streamer.run.page_outputs import DUPLICATES, KEPT, PAGE_OUTPUTS, REVISITS, TEXTS, PageOutputs
from streamer.run.reading import FileInput, Input, Progress
from streamer.run.reference_indexes import ReferenceIndexes
from streamer.run.replay import Outcome, Replay
from streamer.run.revisits import Originals
from streamer.run.verdict_files import VerdictTable

NOTHING_JUDGED = 1
TOO_MANY_DEAD_LETTERS = 4
INTERRUPTED = 130
_OPTIONS = {"shingles_min": "min_shingles", "expire_after_ms": "expire_after in ms"}


MadeAtEnd = KeptTable | VerdictTable  # of all of an output, since it can only be written whole
MakeInput = Callable[[str], tuple[Input, AbstractContextManager[Progress]]]


_Settings = Annotated[
    Settings, VERDICTS, TEXT, SIGNATURE, FIELDS, RUNNING, "brokers", SECURITY, REGISTRY
]


@command
def replay(
    pages: list[str] | None = None,
    *,
    targets: Targets,
    handling: Handling,
    topic: FromTopic,
    settings: _Settings,
) -> None:
    """Judge the pages of files or of a topic: one verdict per page, unique or duplicate.

    With --index, the same command continues after an interruption: judged files
    are skipped, and files that have grown are continued. A file whose judged
    records have changed is refused. A damaged file is judged up to the damage,
    and the run ends with exit code 1 after all others.

    A topic is read one partition after the other, up to its end at the start. With
    --order-of, verdicts are those of the worker of that index, byte for byte if it
    has one shard.

    Example: streamer replay crawl.jsonl.gz --verdicts v.jsonl --kept clean.jsonl --index my-index

    Example: streamer replay crawl.warc.gz --verdicts v.jsonl --kept kept.warc.gz --revisits
    revisits.warc.gz

    Example: streamer replay crawl.jsonl.gz --preset balanced --rules sites.toml --verdicts v.jsonl

    Example: streamer replay s3://bucket/crawl/ --verdicts verdicts.jsonl --index my-index

    Example: streamer replay a.cdxj --cdx-base s3://commoncrawl --verdicts v.jsonl

    Example: streamer replay verdicts.jsonl.dead.jsonl --fields '{"url": "/uri", "body": "/html"}'
    --verdicts again.jsonl --index my-index

    Example: streamer replay --from-topic pages --brokers localhost:9092 --order-of streamer
    --key-file key --verdicts verdicts.jsonl

    Args:
        pages (PAGES): JSONL (.jsonl, .gz, .zst), WARC/WET, ARC or CDX files, directories of these,
            their URLs (s3://, gs://, az://, https://), or - for standard input.
    """
    parser = page_parser(settings)
    is_taken = STANDARD_OUTPUT in targets.outputs().values()
    console, errors = Terminal(stderr=is_taken), Terminal(stderr=True)
    _check(pages or [], targets, topic, settings)
    with ExitStack() as stack:
        if topic.from_topic is not None:
            from streamer.cli.kafka_commands import topic_input  # noqa: PLC0415 - Kafka's client

            if parser.registry:
                parser.registry.check()
            make_input = stack.enter_context(topic_input(topic, settings, errors))
        else:
            make_input = _file_input(pages or [], targets, handling, settings, parser, errors)
        folder = stack.enter_context(open_index(targets.index, settings))
        lasting = targets.index is not None
        outcome, result = _run(folder, make_input, targets, parser, settings, handling)
    summary.print_summary(console, result, outcome.report.skipped_files)
    if targets.summary is not None:
        write_whole(targets.summary, msgspec.json.format(msgspec.json.encode(result)) + b"\n")
    _conclude(outcome, result, handling, console, errors, lasting=lasting)


def _check(pages: Sequence[str], targets: Targets, topic: FromTopic, settings: Settings) -> None:
    """Raise SettingsError unless the options make sense together."""
    names, index = targets.files(), targets.index
    tables = [option for option in (KEPT, DUPLICATES) if option in targets.made]
    if tables and topic.from_topic is not None:
        raise SettingsError(
            f"--{tables[0]} {targets.made[tables[0]]} gets rows of Parquet and Arrow files, and a "
            "topic has messages. Name it .jsonl."
        )
    if settings.value == "body" and topic.from_topic is None:
        raise SettingsError("--value body is for a topic. Give --from-topic, or leave it out.")
    topic.check(
        files=bool(pages),
        key=settings.key_file is not None or (index is not None and index.exists()),
    )
    if (path := targets.summary) is not None:
        if output_key(str(path)) in {output_key(name) for name in names}:
            raise SettingsError(f"--summary {path} is an output already. Name another file.")
        output_checks.check_writable(path)
        if (
            not targets.overwrite
            and path.is_file()
            and not summary.may_be_replaced(path.read_bytes())
        ):
            raise SettingsError(f"{path} exists and is no summary of a run. Name another file.")


def _conclude(
    outcome: Outcome,
    result: summary.Summary,
    handling: Handling,
    console: Terminal,
    errors: Terminal,
    *,
    lasting: bool,
) -> None:
    """Print summary.warnings; exit with the code of a run that is not all that was asked for."""
    for sentence in summary.warnings(result):
        errors.warn(sentence)
    if outcome.interrupted:
        rest = " The same command continues from here." if lasting else ""
        console.print(f"Interrupted.{rest}")
        raise typer.Exit(INTERRUPTED)
    if incomplete := outcome.report.incomplete:
        each = "; ".join(f"{name} ({why})" for name, why in incomplete.items())
        again = "; the same command then goes on where the good part ended" if lasting else ""
        raise InputError(f"Not read to the end: {each}. Put whole files in their place{again}.")
    allowed = handling.fail_on_dead_letters
    if allowed is not None and summary.dead_share(result) > allowed:
        errors.fail(
            f"{summary.dead_share(result):.2%} of the records are dead letters, more than "
            f"--fail-on-dead-letters {allowed:g} allows."
        )
        raise typer.Exit(TOO_MANY_DEAD_LETTERS)
    if result.dead_letters and not result.pages:
        raise typer.Exit(NOTHING_JUDGED)  # as the warning says


def _file_input(
    given: Sequence[str],
    targets: Targets,
    handling: Handling,
    settings: Settings,
    parser: PageParser,
    console: Terminal,
) -> MakeInput:
    """Return what makes the input of the files that are given."""
    copies = {KEPT, DUPLICATES} & targets.outputs().keys() - targets.made.keys()  # of whole rows
    skipped = dict[str, str]()
    reader = replace(reader_of(settings, parser), note_skipped=skipped.update)
    found = reader.open(given, whole_rows=bool(copies))
    outputs = [*targets.files(), *([str(targets.summary)] if targets.summary else [])]
    is_own = _own_files(given, [*outputs, *map(owner_file, outputs), targets.index])
    sources = [source for source in found if not is_own(source.name)]
    output_checks.check_distinct(outputs, [source.name for source in sources if source.is_regular])
    complete = handling.complete or targets.index is None

    def make(_fingerprint: str) -> tuple[Input, AbstractContextManager[Progress]]:
        pages = FileInput(sources, complete=complete, chunk_seconds=settings.chunk_seconds)
        others = {name: kind for name, kind in skipped.items() if not is_own(name)}
        pages.report.skipped_files = others
        return pages, progress_bar(sources, console)

    return make


def _own_files(given: Sequence[str], outputs: Sequence[str | Path | None]) -> Callable[[str], bool]:
    """Return a test for this run's own outputs, which may be in a folder of pages.

    One of them may be a folder: the index.
    """
    own = {output_key(str(name)) for name in outputs if name and name != STANDARD_OUTPUT}
    resolved = folder_resolver()
    if clash := next((name for name in given if output_key(name) in own), None):
        raise SettingsError(f"{clash} is both input and output. Name another file for one of them.")

    def is_own(name: str) -> bool:
        path = name if name == STANDARD_INPUT else resolved(name)
        return any(path == each or path.startswith(f"{each}/") for each in own)

    return is_own


@contextmanager
def _outputs(
    wanted: Mapping[str, int | None], made: Mapping[str, Sequence[Made]], targets: Targets
) -> Iterator[list[OutputFile]]:
    """Open the outputs, each with its known length; if the run fails, new empty ones go again.

    `made` has the files that are made of an output: as which the index knows them.
    """
    index, overwrite = targets.index, targets.overwrite
    for name, known in wanted.items():
        output_checks.check_output(name, known, index=index, overwrite=overwrite)
    for name, states in made.items():
        needs_arrow()
        output_checks.check_made(name, states, index=index, overwrite=overwrite)
    with ExitStack() as stack:
        opened = []
        for name, known in wanted.items():
            if name != STANDARD_OUTPUT:
                stack.enter_context(_removing_if_empty(Path(name)))
            opened.append(OutputFile.open(name, known, index=index, overwrite=overwrite))
            stack.callback(opened[-1].close)
        yield opened


@contextmanager
def _removing_if_empty(path: Path) -> Iterator[None]:
    """Remove a file that was made meanwhile and is empty, if something fails."""
    was_there, had_owner = path.exists(), owner_file(str(path)).exists()
    try:
        yield
    except BaseException:
        if not was_there and path.is_file() and not path.stat().st_size:
            path.unlink()
            if not had_owner:
                owner_file(str(path)).unlink(missing_ok=True)
        raise


def _run(
    folder: IndexFolder,
    make_input: MakeInput,
    targets: Targets,
    parser: PageParser,
    settings: Settings,
    handling: Handling,
) -> tuple[Outcome, summary.Summary]:
    names = targets.outputs(folder.path.parent if targets.index is None else None)
    catalogue = open_catalogue(folder.store, folder.path)
    catalogue.move(targets.moved or ())
    pages, bar = make_input(folder.fingerprint)
    wanted = {name: catalogue.known_length(name) for name in names.values()}
    page_outputs.check_complete(catalogue, names, with_text=targets.with_text)
    made = {name: catalogue.made.get(output_key(name), ()) for name in targets.made.values()}
    tables = {
        option: KeptTable(
            option, name, names[option], catalogue, names.get(TEXTS) if option == KEPT else None
        )
        for option, name in targets.made.items()
        if option in PAGE_OUTPUTS
    }
    with (
        _reference_indexes(settings, folder) as references,
        _outputs(wanted, made, targets) as opened,
    ):
        outputs = dict(zip(names, opened, strict=True))
        own = {option: outputs[option] for option in PAGE_OUTPUTS if option in outputs}
        originals = Originals(folder.store) if REVISITS in own else None
        records = PageOutputs(
            own, originals=originals, tables=targets.made, with_text=targets.with_text
        )
        if own and isinstance(pages, FileInput):
            records.check_sources(pages.sources)
            for table in tables.values():
                pages.enter(catalogue)
                table.check(pages.sources, wanted[table.refs] or 0)
        compile_with_bar(main_text=settings.signature.takes_main_text or targets.with_text)
        _note_changed(folder, references.name_in(settings.index), catalogue.totals.records)
        with open_engine(folder, catalogue, settings, parser, references) as engine:
            job = Replay(engine, settings.signing_threads, keep_going=handling.keep_going)
            freeze_gc()
            with _stopping_by_signals(job), bar as report:
                verdicts = outputs[replay_options.VERDICTS_OPTION]
                dead_letters = outputs.get(replay_options.LETTERS_OPTION)
                outcome = job.run(pages, verdicts, dead_letters, report, records)
            verdict_table = VerdictTable(targets.verdicts, Path(verdicts.name))
            files = [tables.get(option, verdict_table) for option in targets.made]
            _make_files(targets, files, catalogue, job)
    return outcome, summary.summarise(outcome, catalogue, engine.judge, folder)


def _make_files(
    targets: Targets, files: Sequence[MadeAtEnd], catalogue: Catalogue, job: Replay
) -> None:
    """Make files of all outputs.

    Where one cannot be made, the others are: without an index nothing could make them later. Raises
    its StreamerError at the end.
    """
    failures: list[StreamerError] = []
    index, overwrite = targets.index, targets.overwrite

    def claim(name: str, part: Path) -> None:
        """Let the index know a file before it is there; refuse one that has come meanwhile."""
        output_checks.check_made(
            name, catalogue.made.get(output_key(name), ()), index=index, overwrite=overwrite
        )
        if catalogue.note_made(name, part) and index is not None:
            job.flush_again()

    for file in files:
        try:
            with amount_bar(f"writing {file.name}", file.amount) as report:
                file.write(report, partial(claim, file.name))
        except StreamerError as error:
            failures.append(error)
    if failures:
        raise failures[0]


def _note_changed(folder: IndexFolder, wanted: IndexSettings, records: int) -> None:
    """Say which settings differ from those that the index has judged by, and what that means."""
    before = _settings_before(folder)
    if before is None or before == wanted or not records:
        return
    own, new = before.model_dump(), wanted.model_dump()
    named = [
        f"{_OPTIONS.get(name, name)} (before: {own[name]}, now: {now})"
        for name, now in new.items()
        if name != "version" and own[name] != now
    ]
    typer.echo(
        f"Settings have changed: {', '.join(named) or 'those of a newer version'}. They hold for "
        f"pages that are judged from here on. The {records:,} records judged before keep their "
        "verdicts; to judge them again, name another --index and other output files.",
        err=True,
    )


def _settings_before(folder: IndexFolder) -> IndexSettings | None:
    """Return the settings that an index has judged by; None where it has judged nothing."""
    meta = folder.store.meta
    return unpack_settings(unpack_state(meta.state).settings) if meta else None


@contextmanager
def _reference_indexes(settings: Settings, folder: IndexFolder) -> Iterator[ReferenceIndexes]:
    """Open what `--also` names; warn where the index was compared with others before."""
    own = ReferenceIndexes(settings.also, folder.fingerprint, folder.identity)
    with closing(own) as references:
        if any(each.folder.resolve() == folder.path.resolve() for each in references.indexes):
            raise SettingsError(f"--also {folder.path} is the index itself. Name another one.")
        before = _settings_before(folder)
        was = before.also if before else references.in_force
        if was != references.in_force:
            then, now = (", ".join(map(str, each)) or "none" for each in (was, references.in_force))
            Terminal(stderr=True).warn(
                f"Pages before were compared with other indexes: {then}; from here on it is {now}."
            )
        yield references


@contextmanager
def _stopping_by_signals(job: Replay) -> Iterator[None]:
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
