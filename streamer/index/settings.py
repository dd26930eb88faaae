"""What changes a verdict but not a signature: fixed in an index's log, not in the code.

A CONFIG record carries these settings, and they hold from its place in the log on. So a replay of
the log gives what was given, whatever the settings or the version of the program that replays it.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from streamer.model import SIMILARITY_ONE
from streamer.sketch.method import Measure
from streamer.sketch.signer import DISTINCT_MAX

MACHINE_VERSION = 1  # of the rules in shard.py and place.py


class IndexSettings(BaseModel):
    """The settings of a CONFIG record."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    threshold: float = Field(default=0.8, gt=0, le=1, description="least resemblance of duplicates")
    shingles_min: int = Field(
        default=5,
        ge=1,
        le=DISTINCT_MAX,
        description="distinct shingles below which only equal content matches",
    )
    bucket_max: int = Field(
        default=64, ge=1, le=4096, description="postings a bucket; the earliest stay"
    )
    candidates_max: int = Field(
        default=1024, ge=1, le=4096, description="candidates verified a page; the earliest"
    )
    shards: int = Field(default=1, ge=1, le=64, description="shards that the bands are split over")
    measure: Measure = Field(
        default=Measure.RESEMBLANCE, description="how sketches compare; the method's, for good"
    )
    version: int = Field(
        default=MACHINE_VERSION, description="version of the state machine's rules"
    )

    @property
    def similarity_min(self) -> int:
        """Return the threshold in ten-thousandths."""
        return round(self.threshold * SIMILARITY_ONE)


def bands_of(shard: int, shards: int, bands: int) -> tuple[int, int]:
    """Return the first band that `shard` owns and the one after its last."""
    return shard * bands // shards, (shard + 1) * bands // shards


def key_columns(shard: int, shards: int, bands: int) -> list[int]:
    """Return which columns of keys[n, bands + 1] `shard` owns: the first one the content key's too.

    They are in the order in which the shard has its own keys and their marks.
    """
    return [*range(*bands_of(shard, shards, bands)), *([bands] if shard == 0 else [])]
