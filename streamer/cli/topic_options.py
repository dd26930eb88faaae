"""The options of `streamer replay` that name a topic, and whether they make sense together.

They know no Kafka client: a replay of files has these options too, and does not wait for one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from streamer.errors import SettingsError
from streamer.run.reading import Input
from streamer.run.replay import Progress

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

MakeInput = Callable[[str], tuple[Input, AbstractContextManager[Progress]]]


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


def key_is_known(key_file: Path | None, index: Path | None) -> bool:
    """Tell whether the key is given, or the index has one."""
    return key_file is not None or (index is not None and index.exists())
