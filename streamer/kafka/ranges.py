"""Which messages of a topic are asked for: partitions, offsets, and a moment.

What is asked for must be there: a range that reaches beyond a partition is refused, since verdicts
over less than was asked for would look like those over all of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from streamer.errors import InputError, SettingsError

_RANGE = re.compile(r"(\d{1,9}):(\d{0,18})-(\d{0,18})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Bounds = Mapping[int, tuple[int, int]]  # by partition: first offset, offset after the last


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for, as given: no `partitions` are all, a bound of None is the topic's."""

    partitions: frozenset[int] = frozenset()
    offsets: Mapping[int, tuple[int | None, int | None]] = field(default_factory=dict)
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """The offsets [start, end) of a partition; `named` tells whether the start was given."""

    start: int
    end: int
    named: bool = False


def parse_wanted(partitions: str | None, offsets: str | None, until: str | None) -> Wanted:
    """Return what `--partitions 0,2`, `--offsets 0:100-2000,1:50-` and `--until TIME` ask for.

    Raises:
        SettingsError: one of them cannot be read, or they contradict each other.
    """
    numbers = frozenset(_number(part) for part in _parts(partitions))
    ranges: dict[int, tuple[int | None, int | None]] = {}
    for part in _parts(offsets):
        partition, bounds = _bounds(part)
        if partition in ranges:
            raise SettingsError(f"--offsets names partition {partition} twice. Give one range.")
        if numbers and partition not in numbers:
            raise SettingsError(
                f"--offsets has a range of partition {partition}, --partitions leaves it out. "
                "Correct one of them."
            )
        ranges[partition] = bounds
    return Wanted(numbers, ranges, None if until is None else _milliseconds(until))


def resolve(
    wanted: Wanted, topic: str, bounds: Bounds, until: Mapping[int, int]
) -> dict[int, Range]:
    """Return the range of each partition that is asked for, ascending by partition.

    `until` holds the offsets at which the moment was reached; empty if there is none.

    Raises:
        InputError: the topic has no such partition, or not these offsets.
    """
    for partition in sorted(wanted.partitions | wanted.offsets.keys()):
        if partition not in bounds:
            raise InputError(
                f"The topic {topic} has no partition {partition}, it has {len(bounds)}, "
                "from 0 on. Ask for these."
            )
    ranges = {}
    for partition in sorted(wanted.partitions or bounds):
        first, last = bounds[partition]
        start, end = wanted.offsets.get(partition, (None, None))
        found = Range(
            first if start is None else start, last if end is None else end, start is not None
        )
        if not first <= found.start <= found.end <= last:
            raise InputError(
                f"Partition {partition} of {topic} has the offsets {first} to {last}, the end not "
                f"included; --offsets asks for {found.start} to {found.end}. Ask for a part of it."
            )
        reached = max(found.start, min(found.end, until.get(partition, found.end)))
        ranges[partition] = Range(found.start, reached, found.named)
    return ranges


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _number(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise SettingsError(f"--partitions has {text!r}. Give numbers with commas between, as 0,2.")
    return int(text)


def _bounds(text: str) -> tuple[int, tuple[int | None, int | None]]:
    found = _RANGE.fullmatch(text)
    start, end = (int(part) if part else None for part in found.groups()[1:]) if found else (1, 0)
    if not found or (start is not None and end is not None and start > end):
        raise SettingsError(
            f"--offsets has {text!r}. Give PARTITION:START-END, as 0:100-2000 for the offsets 100 "
            "to 1999; either bound may be left out."
        )
    return int(found[1]), (start, end)


def _milliseconds(text: str) -> int:
    """Return a moment as whole milliseconds since 1970, rounded up; without a zone it is in UTC."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise SettingsError(
            f"--until {text!r} is no time. Give one as 2026-01-31T12:00:00Z."
        ) from error
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0, -((_EPOCH - zoned) // timedelta(milliseconds=1)))
