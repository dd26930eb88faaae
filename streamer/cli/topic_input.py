"""A topic as what `streamer replay` reads: the input that its options ask for."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from streamer.cli.options import connection_of
from streamer.cli.replay import FromTopic, MakeInput
from streamer.config import Settings
from streamer.errors import SettingsError
from streamer.kafka.topic_input import open_topic, parse_wanted, resolve
from streamer.kafka.topic_replay import OrderedInput, PartitionsInput
from streamer.kafka.topics import Names
from streamer.run.reading import Input
from streamer.run.replay import Progress as Report


@contextmanager
def topic_input(options: FromTopic, settings: Settings, console: Console) -> Iterator[MakeInput]:
    """Connect; yield a function from a fingerprint to the input and its progress bar.

    The bar is drawn on `console`, that of standard error.

    Raises:
        StreamerError: the brokers cannot be reached, or do not have what is asked for.
    """
    assert options.from_topic is not None
    wanted = parse_wanted(options.partitions, options.offsets, options.until)
    try:
        log = Names(options.order_of or "streamer", options.from_topic).log(0)
    except SettingsError as error:
        raise SettingsError(
            "--from-topic or --order-of is no name that Kafka takes. "
            "Use at most 200 letters, digits, '.', '_', '-'."
        ) from error
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what fails is raised
    with open_topic(connection_of(settings), options.from_topic) as topic:
        until = {} if wanted.until_ms is None else topic.first_since(wanted.until_ms)
        ranges = resolve(wanted, topic.name, topic.bounds, until)

        def make(fingerprint: str) -> tuple[Input, AbstractContextManager[Report]]:
            pages: PartitionsInput | OrderedInput = (
                OrderedInput(topic, log, fingerprint)
                if options.order_of
                else PartitionsInput(
                    topic, ranges, takes_tombstones=settings.tombstones == "forget"
                )
            )
            return pages, _share_bar(pages.amount_in_all, console)

        yield make


@contextmanager
def _share_bar(amount_in_all: int, console: Console) -> Iterator[Report]:
    """Yield a function to be told (amount read, records judged); it draws on the console."""
    if not console.is_terminal:
        yield lambda _amount, _records: None
        return
    bar = Progress(
        TextColumn("{task.fields[records]:,} records"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TextColumn("{task.fields[rate]:,.0f} records/s"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )
    with bar:
        task = bar.add_task("", total=amount_in_all, records=0, rate=0.0)

        def report(amount: int, records: int) -> None:
            elapsed = bar.tasks[0].elapsed or 1e-9
            bar.update(task, completed=amount, records=records, rate=records / elapsed)

        yield report
