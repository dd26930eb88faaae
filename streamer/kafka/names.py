"""The names of an index in Kafka: its topics and its consumer groups.

All of them begin with the index's name, so that an old and a new index stand side by side over the
same pages. Only dead letters are named after the pages' topic, as other tools expect them there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from streamer.errors import SettingsError

_LEGAL = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the index `index` over the topic `pages`.

    Raises:
        SettingsError: Kafka does not take one of them.
    """

    index: str
    pages: str

    def __post_init__(self) -> None:
        for option, name in (("--index-name", self.index), ("--input-topic", self.pages)):
            if not _LEGAL.fullmatch(name) or name in {".", ".."}:
                raise SettingsError(
                    f"{option} cannot be {name!r}. Use at most 200 letters, digits, '.', '_', '-'."
                )

    def log(self, shard: int) -> str:
        """Return the topic of a shard's log."""
        return f"{self.index}.bands.{shard}"

    @property
    def verdicts(self) -> str:
        """Return the topic of verdicts."""
        return f"{self.index}.verdicts"

    @property
    def gauge(self) -> str:
        """Return the topic in which shard 0 says how much is open."""
        return f"{self.index}.gauge"

    @property
    def dead_letters(self) -> str:
        """Return the topic of dead letters."""
        return f"{self.pages}-dlt"

    @property
    def sign_group(self) -> str:
        """Return the consumer group of all signers."""
        return f"{self.index}.sign"

    def shard_group(self, shard: int) -> str:
        """Return the consumer group of a shard's owner."""
        return f"{self.index}.shard.{shard}"
