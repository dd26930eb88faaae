"""What speaks to Kafka: `streamer worker`, `produce`, `tail`, and topics that a replay reads."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamer.assembly import page_parser
from streamer.cli.options import command, quiet_connection_of
from streamer.cli.terminal import PlainColumn, Terminal, progress_bar, records_bar
from streamer.config import Settings
from streamer.errors import InputError, SettingsError
from streamer.kafka.connection import connection_of
from streamer.kafka.follow import ArrivingMessages
from streamer.kafka.produce import produce as produce_sources
from streamer.kafka.topic_input import open_topic, parse_wanted, resolve
from streamer.kafka.topic_replay import OrderedInput, PartitionsInput
from streamer.kafka.topics import Names, check_name
from streamer.pages.parse import PageParser
from streamer.panels import SECURITY
from streamer.run.reading import PageReader

if TYPE_CHECKING:
    from streamer.cli.replay import MakeInput
    from streamer.cli.replay_options import FromTopic
    from streamer.run.reading import Input
    from streamer.run.reading import Progress as Report


@command
def worker(
    *,
    index: Annotated[Path, typer.Option(envvar="STREAMER_INDEX")] = Path("index"),
    settings: Settings,
) -> None:
    """Judge the pages of a topic as they arrive: exactly one verdict per page, even after kills.

    Workers of one index share the pages; each shard of the index has one owner. SIGTERM ends a
    worker in order, and the next start continues from there. All workers need the same key.

    Example: (umask 077; openssl rand -hex 32 > key)

    Example: streamer worker --index my-index --key-file key

    Example: streamer worker --preset nutch --preset balanced --index my-index --key-file key

    Example: streamer worker --kept-topic unique-pages --index my-index --key-file key

    Args:
        index: Folder of the index, with one folder per shard.
    """
    if settings.key_file is None:
        raise SettingsError(
            "A worker needs a key, the same for all workers of the index. Make one with "
            "`(umask 077; openssl rand -hex 32 > key)`, and give it with --key-file key."
        )
    # Faust takes a quarter of a second to import, which the other commands do without.
    from streamer.kafka.worker import WorkerOptions, run_worker  # noqa: PLC0415 - as above

    connection, parser = connection_of(settings), page_parser(settings)
    names = Names(settings.index_name, settings.input_topic, settings.per_partition)
    wanted = WorkerOptions(settings, connection, names, index, settings.key_file, parser)
    asyncio.run(run_worker(wanted))


@command
def produce(
    pages: list[str],
    *,
    topic: str,
    partitions: Annotated[int, typer.Option(min=1)] = 4,
    replicas: Annotated[int, typer.Option(min=1)] = 1,
    key: str = "",
    reader: PageReader,
    settings: Annotated[Settings, "value", "brokers", SECURITY],
) -> None:
    """Send the pages of files to a Kafka topic, keyed by URL or by what they share.

    Lines are sent as they are, even malformed ones. WARC records become messages of the page
    schema. With --value body each message is the body of a page, with its URL and type in headers.
    If the first records of a source all fail in the same way, none of it is sent.

    Example: streamer produce crawl.jsonl.gz --topic pages --brokers localhost:9092

    Args:
        pages (PAGES): JSONL (.jsonl, .gz, .zst), WARC/WET or ARC files, directories of these, or -
            for standard input.
        topic: Topic to send to; created if it is missing.
        partitions: Number of partitions of a new topic.
        replicas: Replication factor of a new topic.
        key (host|FIELD): What pages share that shall be compared with --per-partition: it becomes
            their key. [default: the URL]
    """
    check_name("--topic", topic)
    connection = quiet_connection_of(settings)
    if key:
        own, limit = reader.parser.mapping, reader.page_bytes_max
        try:
            reader = replace(reader, parser=PageParser(own, page_bytes_max=limit, scope=key))
        except ValueError as error:
            raise SettingsError(f"--key cannot be used: {error}.") from error
    sources = reader.open(pages)
    began = time.perf_counter()
    with progress_bar(sources) as report:
        sending = produce_sources(
            sources, topic, connection, reader, partitions, replicas, settings.value, report
        )
        sent = asyncio.run(sending)
    seconds = time.perf_counter() - began
    typer.echo(
        f"messages sent     {sent.messages:,} to {topic}\n"
        f"bytes             {sent.message_bytes:,}\n"
        f"no pages          {sent.no_pages:,}\n"
        f"too large         {sent.too_large:,}\n"
        + f"without the key   {sent.no_key:,}\n" * bool(key)
        + f"messages a second {sent.messages / seconds:,.0f}"
    )
    if not sent.messages and sent.no_pages + sent.too_large:
        raise InputError(
            "Nothing was sent: no record is a page that fits into a message. Name other files, or "
            "where these have their pages with --fields."
        )


@command
def tail(
    *,
    limit: Annotated[int | None, typer.Option(min=1)] = None,
    new_only: bool = False,
    settings: Annotated[Settings, "index_name", "brokers", SECURITY],
) -> None:
    """Print verdicts as JSON lines, existing ones first, then new ones as they arrive.

    Example: streamer tail --limit 10 --index-name streamer

    Args:
        limit: Number of verdicts to print. [default: until Ctrl-C]
        new_only: Print only verdicts that arrive from now on.
    """
    connection = connection_of(settings)
    topic = Names(settings.index_name, settings.input_topic).verdicts

    def report(name: str) -> None:
        sys.stderr.write(f"There is no topic {name} yet; waiting for a worker to make it.\n")

    async def show_verdicts(left: int | None) -> None:
        async with ArrivingMessages(connection, topic, None, new_only, report) as arriving:
            while left != 0:
                messages = await arriving.read(left)
                left = None if left is None else left - len(messages)
                sys.stdout.buffer.writelines((each.value or b"") + b"\n" for each in messages)
                sys.stdout.buffer.flush()

    with suppress(KeyboardInterrupt):
        asyncio.run(show_verdicts(limit))


@contextmanager
def topic_input(options: FromTopic, settings: Settings, console: Terminal) -> Iterator[MakeInput]:
    """Connect; yield a function from a fingerprint to the input and its progress bar.

    The bar is drawn on `console`, that of standard error.

    Raises:
        StreamerError: the brokers cannot be reached, or do not have what is asked for.
    """
    assert options.from_topic is not None
    wanted = parse_wanted(options.partitions, options.offsets, options.until)
    try:
        names = Names(options.order_of or "streamer", options.from_topic, bool(wanted.partitions))
    except SettingsError as error:
        raise SettingsError(
            "--from-topic or --order-of is no name that Kafka takes. Use at most 200 letters, "
            "digits, '.', '_', '-'."
        ) from error
    if options.order_of and len(wanted.partitions) > 1:
        raise SettingsError(
            "--order-of takes one of --partitions: the indexes of partitions have no common order. "
            "Replay each by itself."
        )
    with open_topic(quiet_connection_of(settings), options.from_topic) as topic:
        until = {} if wanted.until_ms is None else topic.first_since(wanted.until_ms)
        ranges = resolve(wanted, topic.name, topic.bounds, until)

        def make(fingerprint: str) -> tuple[Input, AbstractContextManager[Report]]:
            forgets = settings.tombstones == "forget"
            pages: PartitionsInput | OrderedInput = (
                OrderedInput(topic, names, fingerprint, min(wanted.partitions, default=None))
                if options.order_of
                else PartitionsInput(topic, ranges, takes_tombstones=forgets)
            )
            share = PlainColumn("{task.percentage:.0f} %")
            return pages, records_bar(pages.amount_in_all, share, console)

        yield make
