"""`streamer.follow`: from the beginning, from a time, and from where an earlier one has stopped."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from aiokafka.admin import RecordsToDelete
from aiokafka.errors import KafkaTimeoutError
from aiokafka.structs import TopicPartition

from streamer import InputError, SettingsError, follow
from streamer.kafka.topics import Names
from tests.helpers.broker import administer, make_topic, send
from tests.helpers.verdict_lines import unique

BEGAN_MS = 1_700_000_000_000


def publish(brokers: str, names: Names, first: int, end: int) -> None:
    """Publish verdicts, one a second, to partition 0."""
    values = [msgspec.json.encode(unique(number)) for number in range(first, end)]
    send(
        brokers, names.verdicts,
        [(None, each, BEGAN_MS + 1000 * n) for n, each in enumerate(values, first)],
    )  # fmt: skip


@pytest.fixture
def following(brokers: str, names: Names) -> Callable[..., tuple[list[int], dict[int, int]]]:
    """Provide what follows until it has had so many verdicts, and returns them and the offsets."""
    make_topic(brokers, names.verdicts, 2)
    publish(brokers, names, 0, 5)

    async def run(count: int, options: dict[str, Any]) -> tuple[list[int], dict[int, int]]:
        numbers: list[int] = []
        followed = follow(brokers, names.index, **options)
        async with asyncio.timeout(60), aclosing(followed):
            async for each in followed:
                numbers.append(each.page.offset)
                if len(numbers) == count:
                    break
        return numbers, followed.offsets

    return lambda count, **options: asyncio.run(run(count, options))


def test_a_later_follow_continues_where_an_earlier_one_has_stopped(
    following: Callable[..., tuple[list[int], dict[int, int]]], brokers: str, names: Names
) -> None:
    numbers, offsets = following(2)
    assert (numbers, offsets) == ([0, 1], {0: 2, 1: 0})
    numbers, offsets = following(3, since=offsets)
    assert (numbers, offsets) == ([2, 3, 4], {0: 5, 1: 0})
    publish(brokers, names, 5, 7)
    assert following(2, since=offsets) == ([5, 6], {0: 7, 1: 0})
    assert following(7, since={}) == ([*range(7)], {0: 7, 1: 0})

    async def fail() -> None:
        async with follow(brokers, names.index) as followed:
            await anext(followed)
            raise KafkaTimeoutError("of the caller")

    with pytest.raises(KafkaTimeoutError, match="of the caller"):
        asyncio.run(fail())


def test_it_begins_at_a_time(following: Callable[..., tuple[list[int], dict[int, int]]]) -> None:
    since = datetime.fromtimestamp(BEGAN_MS / 1000 + 2.5, UTC)
    assert following(2, since=since) == ([3, 4], {0: 5, 1: 0})


def test_what_cannot_be_followed_from_is_refused_with_the_remedy(
    following: Callable[..., tuple[list[int], dict[int, int]]], brokers: str, names: Names
) -> None:
    with pytest.raises(SettingsError, match="not both"):
        follow(brokers, names.index, since={}, new_only=True)
    with pytest.raises(SettingsError, match="has no time zone"):
        follow(brokers, names.index, since=datetime(2026, 1, 1))  # noqa: DTZ001 - on purpose
    with pytest.raises(InputError, match=r"offset 6 of partition 0 of .* the offsets 0 to 5\."):
        following(1, since={0: 6})
    with pytest.raises(InputError, match="has no such partition"):
        following(1, since={2: 0})
    place = TopicPartition(names.verdicts, 0)
    administer(brokers, lambda admin: admin.delete_records({place: RecordsToDelete(3)}))
    with pytest.raises(InputError, match="Verdicts have expired"):
        following(1, since={0: 2})


LEFT = """
import asyncio, sys
from streamer import follow

async def main():
    followed = follow(*sys.argv[1:])
    async for verdict in followed:
        print(verdict.page.offset, flush=True)
        break

async def main_with():
    async with follow(*sys.argv[1:]) as followed:
        async for verdict in followed:
            print(verdict.page.offset, flush=True)
            break

asyncio.run({})
"""


@pytest.mark.parametrize("main", ["main()", "main_with()"])
def test_it_can_be_left_in_silence(brokers: str, names: Names, main: str) -> None:
    """Without `async with`, Python warns of what was left open, where it is asked to."""
    make_topic(brokers, names.verdicts, 2)
    publish(brokers, names, 0, 5)
    program = LEFT.replace("{}", main)
    checks = ["-W", "always"] if main == "main_with()" else []  # of what was left open
    done = subprocess.run(
        [sys.executable, *checks, "-c", program, brokers, names.index],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
