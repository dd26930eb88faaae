"""Read topics by position, in chunks of messages, outside of any consumer group.

The end of a range is known from the consumer's position, never from the offset of a last message,
because transaction markers and deleted messages leave gaps.

`reach` contacts the brokers first, so that a start with a wrong setting ends with its cause.
aiokafka only logs the cause, and raises that it could not bootstrap. So each broker is contacted
before any client is made, and an error names the setting to look at. Brokers may start at the same
time as the command: `await_brokers` says at once that it asks again.
"""

import asyncio
import ssl
import time
import warnings
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka import errors as kafka_errors
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.protocol.metadata import MetadataRequest

from streamer.errors import InputError, StreamerError, on_failure
from streamer.kafka.connection import Connection
from streamer.kafka.token_command import TokenError

RECORDS_MAX = 2000
BYTES_MAX = 8 << 20  # spreads the fixed cost of a chunk
FETCH_BYTES_MAX = 8 << 20
PARTITION_BYTES_MIN = 1 << 20
POLL_MILLISECONDS = 500
SHORT_POLL_MILLISECONDS = 100  # of one partition of many
SINGLY_MAX = 500  # messages, between two tries to take all that is there
PATIENCE_SECONDS = 60.0
COORDINATOR_SECONDS = 20.0
RETRY_SECONDS = 0.1
FIRST_ANSWER_SECONDS = 1.5  # after which a command says what it waits for
ANSWER_SECONDS = 10.0
STOP_AGAIN_SECONDS = 1.0
FETCH_WAIT_MILLISECONDS = 20  # at a topic's end: other requests wait for such a fetch

Options = Mapping[str, Any]  # what every client of the library takes
Bounds = Mapping[int, tuple[int, int]]  # by partition: first offset, offset after the last
Answered = TypeVar("Answered")


@dataclass(frozen=True, slots=True)
class Fetched:
    """A chunk: the messages that were read at [start, end) of a partition.

    It is fetched, signed and acknowledged as one. Offsets without a message are in it too: where a
    transaction ended, or where a message was deleted. `records` are the client library's messages.
    """

    topic: str
    partition: int
    start: int
    end: int
    records: Sequence[Any]


def cut(topic: str, partition: int, start: int, end: int, records: list[Any]) -> Iterable[Fetched]:
    """Yield chunks of RECORDS_MAX messages and about BYTES_MAX at most, covering [start, end)."""
    first, size = 0, 0
    for place, record in enumerate(records):
        if place > first and (place - first >= RECORDS_MAX or size >= BYTES_MAX):
            yield Fetched(topic, partition, start, record.offset, records[first:place])
            start, first, size = record.offset, place, 0
        size += record.serialized_value_size
    yield Fetched(topic, partition, start, end, records[first:])


async def ends_of(options: Options, topics: Iterable[str]) -> dict[str, int]:
    """Return where partition 0 of topics ends.

    A client that fetches is too slow for it: each answer waits for that to a fetch.

    Raises:
        StreamerError: the brokers cannot be reached, or refuse.
    """
    places = [TopicPartition(topic, 0) for topic in topics]
    async with open_reader(options) as reader:
        # In one call the client asks about one topic after the other.
        ends = await asyncio.gather(*(reader.consumer.end_offsets([place]) for place in places))
    return {place.topic: end for each in ends for place, end in each.items()}


async def ask_again(ask: Callable[[], Awaitable[Answered]], patience_s: float) -> Answered:
    """Return what the brokers answer; they are asked again after an error that passes.

    Raises:
        KafkaError: it is none of these, or one comes after `patience_s` still.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return await ask()
        except kafka_errors.KafkaError as error:
            if not error.retriable or time.monotonic() >= deadline:
                raise
        await asyncio.sleep(RETRY_SECONDS)


def read_from(consumer: AIOKafkaConsumer, starts: Mapping[TopicPartition, int]) -> None:
    """Have a consumer read these partitions from these offsets on, and no others."""
    consumer.assign([*starts])
    for place, start in starts.items():
        consumer.seek(place, start)


class Reader:
    """Reads topics over one connection; made by `open_reader`."""

    def __init__(self, consumer: AIOKafkaConsumer, admin: AIOKafkaAdminClient) -> None:
        self.consumer, self.admin = consumer, admin

    async def partitions(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions.

        Raises:
            InputError: there is no such topic.
        """
        found = (await self.admin.describe_topics([topic]))[0]
        if kafka_errors.for_code(found["error_code"]) is kafka_errors.UnknownTopicOrPartitionError:
            raise InputError(f"There is no topic {topic}. Name one that exists.")
        return sorted(partition["partition"] for partition in found["partitions"])

    async def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the offset of the first message there is, and the one after the last."""
        place = TopicPartition(topic, partition)
        starts = await self.consumer.beginning_offsets([place])
        ends = await self.consumer.end_offsets([place])
        return starts[place], ends[place]

    async def all_bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """Return the bounds of all partitions of a topic, by their numbers.

        Raises:
            InputError: there is no such topic.
        """
        return {each: await self.bounds(topic, each) for each in await self.partitions(topic)}

    async def first_since(self, topic: str, moment_ms: int, bounds: Bounds) -> dict[int, int]:
        """Return by partition the first offset with a timestamp of `moment_ms` or later.

        Where there is none, or only one that came after the end in `bounds`, it is that end.
        """
        asked = {TopicPartition(topic, partition): moment_ms for partition in bounds}
        found = await self.consumer.offsets_for_times(asked) if asked else {}
        firsts = {place.partition: first[0] for place, first in found.items() if first}
        return {each: min(firsts.get(each, end), end) for each, (_, end) in bounds.items()}

    async def committed(self, group: str, topic: str) -> dict[int, int]:
        """Return up to where a group has committed, by partition; nothing of those it has not.

        Brokers that have just begun do not know at once: they are asked for some seconds.
        """
        asking = partial(self.admin.list_consumer_group_offsets, group)
        found = await ask_again(asking, COORDINATOR_SECONDS)
        return {
            place.partition: committed.offset
            for place, committed in found.items()
            if place.topic == topic and committed.offset >= 0
        }

    async def value_at(self, topic: str, offset: int) -> Any:  # noqa: ANN401 - bytes, or None
        """Return the value of the message at an offset of partition 0, None if none is there.

        Raises:
            InputError: as `read`.
        """
        async for chunk in self.read(topic, 0, offset, offset + 1):
            for message in chunk.records:
                return message.value
        return None

    async def read(
        self, topic: str, partition: int, start: int, end: int
    ) -> AsyncIterator[Fetched]:
        """Yield the messages at [start, end) of a partition, which must be within its bounds.

        Raises:
            InputError: they are there no longer, or cannot be decoded.
        """
        place = TopicPartition(topic, partition)
        if start < end:  # what is assigned is fetched, which not everybody may
            read_from(self.consumer, {place: start})
        heard = time.monotonic()
        while start < end:
            fetched = await fetch(self.consumer, place, start)
            records = [record for record in fetched if record.offset < end]
            position = min(await self.consumer.position(place), end)
            if position == start and time.monotonic() - heard > PATIENCE_SECONDS:
                raise StreamerError(
                    f"The brokers have sent nothing of {topic} for {PATIENCE_SECONDS:.0f} seconds. "
                    "See that they are up, and start again."
                )
            if position > start:
                heard = time.monotonic()
                for chunk in cut(topic, partition, start, position, records):
                    yield chunk
                start = position


async def fetch(consumer: AIOKafkaConsumer, place: TopicPartition, start: int) -> list[Any]:
    """Return what comes next of a partition, read up to `start`; it may be nothing.

    Raises:
        InputError: it cannot be decoded. What comes before it is returned first.
    """
    return (await fetch_all(consumer, {place: start})).get(place, [])


async def fetch_all(
    consumer: AIOKafkaConsumer, starts: Mapping[TopicPartition, int], limit: int | None = None
) -> dict[TopicPartition, list[Any]]:
    """Return what comes next of partitions, read up to `starts`, as `fetch` of one."""
    try:
        poll_ms = POLL_MILLISECONDS
        return dict(await consumer.getmany(*starts, timeout_ms=poll_ms, max_records=limit))
    except Exception as error:  # noqa: BLE001 - what damaged bytes lead to may be anything
        raise_permission_error(error)
    for place, start in starts.items():
        consumer.seek(place, start)
    most = min(limit or SINGLY_MAX, SINGLY_MAX)
    poll_ms = POLL_MILLISECONDS if len(starts) == 1 else SHORT_POLL_MILLISECONDS
    return {
        place: records
        for place, start in starts.items()
        if (records := await _fetch_singly(consumer, place, start, most, poll_ms))
    }


async def _fetch_singly(
    consumer: AIOKafkaConsumer, place: TopicPartition, start: int, most: int, poll_ms: int
) -> list[Any]:
    """Return what can be decoded from `start` on, as `fetch`."""
    records: list[Any] = []
    while len(records) < most:
        try:
            answer = await consumer.getmany(place, timeout_ms=poll_ms, max_records=1)
        except Exception as error:
            raise_permission_error(error)
            if records:
                return records
            raise undecodable({place: start}, error) from error
        found = answer.get(place)
        if not found:
            break
        records += found
    return records


def undecodable(starts: Mapping[TopicPartition, int], error: Exception) -> InputError:
    """Return the error about damaged messages, which come after one of these offsets."""
    places = [
        f"partition {place.partition} of {place.topic} cannot be decoded from offset {start} on"
        for place, start in starts.items()
    ]
    said = ", or ".join(places)
    return InputError(
        f"{said[0].upper()}{said[1:]}: {error!r}. Start again, in case it was damaged on its way; "
        "else the brokers' copy is damaged: restore it, or skip it (replay: --offsets)."
    )


def raise_permission_error(error: Exception) -> None:
    """Raise an error that the brokers reported; return if what they sent is damaged."""
    is_damage = isinstance(error, kafka_errors.CorruptRecordException)
    if isinstance(error, kafka_errors.KafkaError) and not is_damage:
        raise error


def share_of(fetched_bytes: int, partitions: int) -> int:
    """Return what of so many bytes is fetched of a partition, where these are read side by side."""
    share = fetched_bytes // max(1, partitions)
    return min(max(share, PARTITION_BYTES_MIN), FETCH_BYTES_MAX)


@asynccontextmanager
async def open_reader(
    options: Options, fetch_bytes: int = FETCH_BYTES_MAX
) -> AsyncIterator[Reader]:
    """Connect for reading; an answer of the brokers has `fetch_bytes` of a partition at most.

    Raises:
        StreamerError: the brokers cannot be reached, or refuse.
    """
    consumer = AIOKafkaConsumer(
        **options,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level="read_committed",
        max_partition_fetch_bytes=fetch_bytes,
        fetch_max_wait_ms=FETCH_WAIT_MILLISECONDS,
    )
    admin = AIOKafkaAdminClient(**options)
    with explaining_refusals(options["bootstrap_servers"]):
        try:
            await admin.start()
            await consumer.start()
            yield Reader(consumer, admin)
        finally:
            await stop_consumer(consumer)
            await admin.close()


@contextmanager
def explaining_refusals(servers: Sequence[str]) -> Iterator[None]:
    """Raise StreamerError where brokers are not reached, or refuse."""
    try:
        yield
    except kafka_errors.KafkaConnectionError as error:
        why = f"Cannot reach the brokers {servers}: {error}. Check --brokers."
        raise StreamerError(why) from error
    except kafka_errors.KafkaError as error:
        raise StreamerError(f"The brokers {servers} refused: {error!r}.") from error


@asynccontextmanager
async def reader_of(connection: Connection) -> AsyncIterator[Reader]:
    """Connect for reading, as `open_reader`, once `await_brokers` has reached the brokers.

    Raises:
        StreamerError: the brokers cannot be reached, or refuse.
    """
    await await_brokers(connection)
    async with open_reader(connection.client_options()) as reader:
        yield reader


async def stop_consumer(consumer: AIOKafkaConsumer) -> None:
    """Stop a consumer, telling it again each second until it has heard.

    The client takes the cancellation of its fetching for that of a fetch if it comes while an
    assignment changes; then it goes on fetching, and waits for the end of that for ever.
    """
    stopping = asyncio.ensure_future(consumer.stop())
    while not (await asyncio.wait({stopping}, timeout=STOP_AGAIN_SECONDS))[0]:
        if consumer._fetcher:  # noqa: SLF001 - there is no public way
            consumer._fetcher._fetch_task.cancel()  # noqa: SLF001
    if stopping.cancelled():  # with a fetch that waited to be tried again; what is left of the stop
        await consumer._client.close()  # noqa: SLF001
    else:
        await stopping


_REFUSALS = (  # the first that fits: the kind of error, what it means, what to check
    (ssl.SSLCertVerificationError, "its certificate is not accepted", "--ssl-cafile and its name"),
    (ssl.SSLError, "TLS fails", "--security-protocol and --ssl-certfile"),
    (TokenError, "there is no token", "--sasl-token-command"),
    (
        kafka_errors.SaslAuthenticationFailed,
        "it refuses the login",
        "--sasl-username and the password, or the token",
    ),
    (kafka_errors.UnsupportedSaslMechanismError, "it refuses the login", "--sasl-mechanism"),
    (TimeoutError, "it does not answer", "--brokers and --security-protocol"),
    (ConnectionResetError, "it ends the connection", "--security-protocol"),
    (OSError, "it is not reached", "--brokers"),
    (kafka_errors.KafkaError, "it ends the connection", "--security-protocol"),
    (Exception, "it gives a false answer", "--brokers"),
)


class BrokersAwayError(StreamerError):
    """A broker was not reached, or did not answer, which may be otherwise in a moment."""


async def await_brokers(
    connection: Connection, note: Callable[[str], object] = warnings.warn
) -> None:
    """Speak to the brokers as `reach` does; where they are away, say so with `note`, and ask again.

    Raises:
        StreamerError: as `reach`; BrokersAwayError only after ANSWER_SECONDS.
    """
    deadline, noted, patience_s = time.monotonic() + ANSWER_SECONDS, False, FIRST_ANSWER_SECONDS
    while True:
        try:
            return await reach(connection, patience_s / len(connection.servers))
        except BrokersAwayError as error:
            patience_s = deadline - time.monotonic()
            if patience_s <= 0:
                raise
            if not noted:
                note(f"{error} Trying again for {patience_s:.0f} seconds.")
        noted = True
        await asyncio.sleep(RETRY_SECONDS)


async def reach(connection: Connection, timeout_s: float = ANSWER_SECONDS) -> None:
    """Speak to the brokers once; one that answers is enough. `timeout_s` is for each.

    Raises:
        StreamerError: as `connect_to_any`.
    """
    broker, _ = await connect_to_any(connection, connection.servers, timeout_s)
    await broker.close()


_LASTING = (ssl.SSLError, ConnectionResetError)  # errors that come of a setting


async def connect_to_any(
    connection: Connection, servers: Iterable[str], timeout_s: float
) -> tuple[AIOKafkaConnection, Any]:
    """Return a connection to the first of these brokers that lets us in, and its metadata.

    Raises:
        StreamerError: none does; the message has the cause at each. BrokersAwayError if one of them
            is not reached.
    """
    causes, kind = [], StreamerError
    for server in servers:
        host, _, port = server.rpartition(":")
        try:
            if connection.tokens:  # their command may take longer than brokers may
                await connection.tokens.token()
            async with asyncio.timeout(timeout_s):
                security = connection.security_options()
                broker = await create_conn(host.strip("[]"), int(port), **security)
                with on_failure(broker.close):
                    # One that wants SASL says so only when asked for more than its versions.
                    return broker, await broker.send(MetadataRequest([]))
        # ValueError: a false SCRAM signature
        except (kafka_errors.KafkaError, OSError, ValueError) as error:
            causes.append(f"{server}: {_cause_of(error)}")
            if isinstance(error, OSError) and not isinstance(error, _LASTING):
                kind = BrokersAwayError
    raise kind(f"Cannot use the brokers over {connection.security_protocol}: {'; '.join(causes)}.")


def _cause_of(error: Exception) -> str:
    """Return what went wrong and which setting to look at."""
    if isinstance(error.__cause__, ssl.SSLError):  # an alert that came after the handshake
        error = error.__cause__
    words, remedy = next(rest for kind, *rest in _REFUSALS if isinstance(error, kind))
    return f"{words} ({error}), check {remedy}" if str(error) else f"{words}, check {remedy}"
