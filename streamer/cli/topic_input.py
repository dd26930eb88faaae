"""A topic as what `streamer replay` reads: its options, and the input that they ask for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from streamer.cli.kafka_options import connection_of
from streamer.config import Settings
from streamer.errors import SettingsError
from streamer.kafka.names import Names
from streamer.kafka.ranges import parse_wanted, resolve
from streamer.kafka.source import open_topic
from streamer.kafka.topic_replay import OrderedInput, PartitionsInput
from streamer.stream.reading import Input
from streamer.stream.replay import Progress as Report

_KAFKA = "Kafka"

FromTopic = Annotated[
    str | None,
    typer.Option(help="Read this topic of pages instead of files.", rich_help_panel=_KAFKA),
]
Partitions = Annotated[
    str | None,
    typer.Option(help="Partitions to read, as 0,2. \\[default: all]", rich_help_panel=_KAFKA),
]
Offsets = Annotated[
    str | None,
    typer.Option(
        help="PARTITION:START-END with commas between, as 0:100-2000,1:50- ; the end is not "
        "included. \\[default: what is there at the start]",
        rich_help_panel=_KAFKA,
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        help="Read each partition up to its first message of this time, as 2026-01-31T12:00Z.",
        rich_help_panel=_KAFKA,
    ),
]
OrderOf = Annotated[
    str | None,
    typer.Option(
        help="Take the pages that the worker's index of this name has taken, in its order and "
        "under its settings. Needs its --key-file.",
        rich_help_panel=_KAFKA,
    ),
]

MakeInput = Callable[[str], tuple[Input, AbstractContextManager[Report]]]


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """What the command line says of the topic; only `topic` is there in any case."""

    topic: str | None
    partitions: str | None
    offsets: str | None
    until: str | None
    order_of: str | None

    def check(self, *, files: bool, key: bool) -> None:
        """Raise SettingsError unless the options make sense together.

        `files` tells whether there are any, `key` whether the signatures' key can be known.
        """
        ranges = {"partitions": self.partitions, "offsets": self.offsets, "until": self.until}
        given = [f"--{name}" for name, value in ranges.items() if value is not None]
        if files == (self.topic is not None):
            raise SettingsError("Give PAGES or --from-topic, one of the two.")
        if self.topic is None and (given or self.order_of):
            raise SettingsError(f"{(given or ['--order-of'])[0]} needs --from-topic.")
        if self.order_of and given:
            raise SettingsError(
                f"--order-of takes what the index has taken: leave out {given[0]}, or --order-of."
            )
        if self.order_of and not key:
            raise SettingsError("--order-of needs the worker's key. Give it with --key-file.")


@contextmanager
def topic_input(options: TopicOptions, settings: Settings) -> Iterator[MakeInput]:
    """Connect; yield a function from a fingerprint to the input and its progress bar.

    Raises:
        StreamerError: the brokers cannot be reached, or do not have what is asked for.
    """
    assert options.topic is not None
    wanted = parse_wanted(options.partitions, options.offsets, options.until)
    try:
        log = Names(options.order_of or "streamer", options.topic).log(0)
    except SettingsError as error:
        raise SettingsError(
            "--from-topic or --order-of is no name that Kafka takes. "
            "Use at most 200 letters, digits, '.', '_', '-'."
        ) from error
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what fails is raised
    with open_topic(connection_of(settings), options.topic) as topic:
        until = {} if wanted.until_ms is None else topic.first_since(wanted.until_ms)
        ranges = resolve(wanted, topic.name, topic.bounds, until)

        def make(fingerprint: str) -> tuple[Input, AbstractContextManager[Report]]:
            pages: PartitionsInput | OrderedInput = (
                OrderedInput(topic, log, fingerprint)
                if options.order_of
                else PartitionsInput(topic, ranges)
            )
            return pages, _share_bar(pages.amount_in_all)

        yield make


def key_is_known(key_file: Path | None, index: Path | None) -> bool:
    """Tell whether the key is given, or the index has one."""
    return key_file is not None or (index is not None and index.exists())


@contextmanager
def _share_bar(amount_in_all: int) -> Iterator[Report]:
    """Yield a function to be told (amount read, records judged); it draws on standard error."""
    console = Console(stderr=True)
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
