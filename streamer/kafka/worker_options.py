"""What a worker needs to know, checked as far as it can be without the brokers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from streamer.errors import SettingsError
from streamer.index.head import HEAD_PAGES
from streamer.index.types import IndexSettings
from streamer.kafka.connection import Connection
from streamer.kafka.topics import Names
from streamer.pages.parse import PageParser
from streamer.run.index_folder import check_folder, identity_of
from streamer.sketch.settings import SignatureSettings, read_secret


class Role(StrEnum):
    """What a worker does."""

    ALL = "all"
    SIGN = "sign"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What a worker needs to know; see the settings of the same names."""

    connection: Connection
    names: Names
    signature: SignatureSettings
    index: IndexSettings
    key_file: Path
    index_folder: Path
    parser: PageParser
    role: Role = Role.ALL
    own_shards: tuple[int, ...] = ()  # none given: all
    replicas: int = 1
    verdict_partitions: int = 0
    window: int = 65_536
    head_pages: int = HEAD_PAGES
    threads: int = 2
    accept_loss: bool = False
    instance_id: str = ""
    health: tuple[str, int] = ("127.0.0.1", 0)
    logs: tuple[str, str] = ("json", "info")

    def check(self) -> None:
        """See what can be seen without the brokers.

        A folder knows each setting that an index was made with, its log their fingerprint alone: so
        the folders are asked first, and the message names what differs.

        Raises:
            SettingsError: there is no such shard, or the key cannot be read.
            StoreMismatch: a shard's index was made with other settings.
            StoreUnavailable: it cannot be opened.
        """
        secret = read_secret(self.key_file)
        wanted = identity_of(self.signature, self.index.shards, secret)
        for shard in self.shards:
            check_folder(self.shard_folder(shard), wanted)

    def shard_folder(self, shard: int) -> Path:
        """Return where the index of a shard lies."""
        return self.index_folder / f"shard-{shard}"

    def faust_options(self) -> dict[str, Any]:
        """Return what each Faust app is made with."""
        return {
            **self.connection.faust_options(),
            "consumer_group_instance_id": self.instance_id or None,
        }

    @property
    def shards(self) -> tuple[int, ...]:
        """Return the shards that this worker owns.

        Raises:
            SettingsError: there is no such shard.
        """
        if self.role is Role.SIGN:
            return ()
        for shard in self.own_shards:
            if not 0 <= shard < self.index.shards:
                raise SettingsError(
                    f"There is no shard {shard}: the index has {self.index.shards}, from 0 on. "
                    "Correct --own-shards or --shards."
                )
        return self.own_shards or tuple(range(self.index.shards))


def shard_numbers(text: str) -> tuple[int, ...]:
    """Return the shard numbers in `text`, as "0,2"; none for "".

    Raises:
        SettingsError: it is no list of numbers.
    """
    try:
        return tuple(sorted({int(part) for part in text.split(",") if part.strip()}))
    except ValueError as error:
        raise SettingsError(
            f"--own-shards cannot be {text!r}. Give numbers with commas between, as 0,2."
        ) from error
