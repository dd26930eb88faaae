"""Forgetting through the log: a record for shard 0, and the answers of all shards.

The record takes effect where it stands. Each shard forgets, passes the record on, and answers in
the topic of the gauge once nothing of the pages is on its disk. Whoever asks may go away: what
stands in the log is done all the same.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Sequence

from aiokafka import TopicPartition

from streamer.errors import InputError, StreamerError
from streamer.index.forgetting import ASK
from streamer.index.types import Forget, Term, forget_record
from streamer.kafka.connection import Connection
from streamer.kafka.gauge import ANSWER, POLL_MILLISECONDS, unpack_answer
from streamer.kafka.publisher import Publisher
from streamer.kafka.reader import Reader, open_reader, reach
from streamer.kafka.topics import Names
from streamer.kafka.wire import LogIdentity, identity_in, pack_record


async def forget_in_log(
    connection: Connection, names: Names, terms: Sequence[Term], wait_s: float
) -> int:
    """Put what is to be forgotten into an index's log, and wait until all shards have answered.

    Return how many kept pages were forgotten.

    Raises:
        InputError: there is no such index.
        StreamerError: the brokers are away or refuse, or a shard has not answered within `wait_s`.
    """
    await reach(connection)
    options = connection.client_options()
    async with open_reader(options) as reader:
        shards = await _shards(reader, names)
        identity = await _identity(reader, names)
        _, start = await reader.bounds(names.gauge, 0)
        ask = uuid.uuid4().hex
        record = forget_record(Forget([*terms, (ASK, ask.encode())], ask))
        publisher = Publisher(options)
        await publisher.start()
        try:
            await publisher.publish_one(names.log(0), pack_record(record, identity))
        finally:
            await publisher.stop()
        answers = _Answers(reader, names, ask, shards)
        await answers.wait(start, wait_s)
        return answers.pages[0]


async def _shards(reader: Reader, names: Names) -> int:
    """Return how many logs the index has.

    Raises:
        InputError: none.
    """
    there = {*await reader.admin.list_topics()}
    shards = next(shard for shard in itertools.count() if names.log(shard) not in there)
    if not shards:
        raise InputError(
            f"There is no index {names.index}: the topic {names.log(0)} is missing. Name one with "
            "--index-name."
        )
    return shards


async def _identity(reader: Reader, names: Names) -> LogIdentity:
    """Return the identity that the newest record of the first log has."""
    log = names.log(0)
    start, end = await reader.bounds(log, 0)
    if start < end and (newest := await reader.value_at(log, end - 1)):
        return identity_in(newest)
    raise InputError(f"The log {log} has no records: there is nothing to forget.")


class _Answers:
    """What shards answer to a command; `pages` by shard."""

    def __init__(self, reader: Reader, names: Names, ask: str, shards: int) -> None:
        self.pages: dict[int, int] = {}
        self._reader = reader
        self._names = names
        self._ask = ask
        self._shards = shards

    async def wait(self, start: int, seconds: float) -> None:
        """Read the answers from an offset on, until all are there.

        Raises:
            StreamerError: one is not there after so many seconds.
        """
        place = TopicPartition(self._names.gauge, 0)
        self._reader.consumer.assign([place])
        self._reader.consumer.seek(place, start)
        deadline = time.monotonic() + seconds
        while len(self.pages) < self._shards:
            if time.monotonic() > deadline:
                raise StreamerError(self._late(seconds))
            found = await self._reader.consumer.getmany(place, timeout_ms=POLL_MILLISECONDS)
            for message in found.get(place, ()):
                if message.key == ANSWER:
                    answer = unpack_answer(message.value)
                    if answer.ask == self._ask:
                        self.pages[answer.shard] = answer.pages

    def _late(self, seconds: float) -> str:
        left = [str(shard) for shard in range(self._shards) if shard not in self.pages]
        return (
            f"Not yet done at shard {', '.join(left)} after {seconds:g} seconds. It stands in the "
            f"log of {self._names.index} and is done when the owner of the shard comes to it: see "
            "that it runs. To be told when, give the same command again, with a longer --wait."
        )
