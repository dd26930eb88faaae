"""Send dead letters of a worker to the topic of their pages again, with original keys and bytes.

They are new messages there, with places and verdicts of their own. A message that fails again comes
back as a dead letter. A header counts how often it was sent, so no mistake sends it for ever.
Arrival is tracked by chunk: the offsets to continue from are after whole chunks, and after an error
part of one chunk may be sent twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from streamer.errors import InputError, SettingsError, StreamerError
from streamer.kafka import dead_letters
from streamer.kafka.connection import Connection
from streamer.kafka.publisher import open_producer
from streamer.kafka.reader import Fetched, reader_of
from streamer.kafka.topic_input import Wanted, resolve
from streamer.kafka.topics import DEAD_LETTERS, HEADERS_BYTES_MAX, Names, check_pages


@dataclass(frozen=True, slots=True)
class Which:
    """Which dead letters are sent again.

    Attributes:
        codes: those with one of these codes; empty: all.
        index: those of this index; None: of all.
        retries_max: those that were sent again less often.
    """

    codes: frozenset[str] = frozenset()
    index: str | None = None
    retries_max: int = 3


@dataclass(slots=True)
class Retried:
    """What a run did, in messages.

    Attributes:
        topic: where they were sent.
        cut: those of which the dead letter does not hold all.
        too_often: those that were sent as often as is allowed.
        others: those that are not asked for, or are no dead letters of `topic`.
        offsets: where the next run begins, by partition of the dead letters.
    """

    topic: str
    sent: int = 0
    cut: int = 0
    too_often: int = 0
    others: int = 0
    offsets: dict[int, int] = field(default_factory=dict)

    @property
    def next_offsets(self) -> str:
        """Return the value of `--offsets` with which the next run goes on."""
        return ",".join(f"{partition}:{at}-" for partition, at in sorted(self.offsets.items()))


async def send_again(
    connection: Connection, topic: str, wanted: Wanted, which: Which, *, dry_run: bool
) -> Retried:
    """Send the dead letters that a topic has now to the topic of pages again; return what was done.

    Raises:
        SettingsError: `topic` is not named as topics of dead letters are.
        InputError: there is no such topic or index, or the topic lacks offsets that are wanted.
        StoreMismatch: there is nothing of the index, which is of other pages.
        StreamerError: the brokers cannot be reached, or refuse; with the offsets to go on from.
    """
    if not topic.removesuffix(DEAD_LETTERS) or not topic.endswith(DEAD_LETTERS):
        raise SettingsError(
            f"--from-topic {topic} is no topic of dead letters, as pages{DEAD_LETTERS}."
        )
    done = Retried(topic.removesuffix(DEAD_LETTERS))
    async with reader_of(connection) as reader:
        await reader.partitions(done.topic)  # a mistyped name must not make a topic
        ranges = resolve(wanted, topic, await reader.all_bounds(topic), {})
        done.offsets = {partition: one.start for partition, one in ranges.items()}
        largest = dead_letters.WHOLE_BYTES_MAX + HEADERS_BYTES_MAX
        try:
            async with open_producer(
                connection.client_options(), max_request_size=largest
            ) as producer:
                for partition, one in ranges.items():
                    async for chunk in reader.read(topic, partition, one.start, one.end):
                        await _send(producer, chunk, which, done, dry_run=dry_run)
        except InputError as error:
            raise InputError(
                f"{error} {done.sent:,} messages were sent. Go on with --offsets "
                f"{done.next_offsets}, and a later offset for this partition to skip it."
            ) from error
        except KafkaError as error:
            raise StreamerError(
                f"Cannot send to {done.topic}: {error!r}. {done.sent:,} messages were sent. Go on "
                f"with --offsets {done.next_offsets}."
            ) from error
        if which.index is not None and not (done.sent or done.cut or done.too_often):
            await check_pages(reader, Names(which.index, done.topic))
    return done


async def _send(
    producer: AIOKafkaProducer, chunk: Fetched, which: Which, done: Retried, *, dry_run: bool
) -> None:
    """Send what is wanted of a chunk, and wait until all of it has arrived."""
    chosen = [each for each in chunk.records if _is_wanted(each, which, done)]
    if not dry_run:
        waiting = [
            await producer.send(
                done.topic, each.value, each.key, _partition(each), headers=_headers(each)
            )
            for each in chosen
        ]
        for future in waiting:
            await future
    done.sent += len(chosen)
    done.offsets[chunk.partition] = chunk.end


def _partition(message: Any) -> int:  # noqa: ANN401 - the client library's
    """Return the partition of the original, where the pages are that it may be alike."""
    found = dict(message.headers).get(dead_letters.ORIGINAL_PARTITION) or b""
    return dead_letters.number_in(found.decode(errors="replace"), message.partition)


def _headers(message: Any) -> list[tuple[str, bytes]]:  # noqa: ANN401 - the client library's
    retries = dead_letters.retries_of(dict(message.headers)) + 1
    return [(dead_letters.RETRIES, b"%d" % retries), *dead_letters.original_headers(message)]


def _is_wanted(message: Any, which: Which, done: Retried) -> bool:  # noqa: ANN401 - as above
    """Return whether a message is to be sent again; count why not."""
    headers: Mapping[str, bytes | None] = dict(message.headers)
    code, index = (
        (headers.get(name) or b"").decode(errors="replace")
        for name in (dead_letters.CODE, dead_letters.INDEX)
    )
    if (
        not code
        or message.value is None  # would delete
        or headers.get(dead_letters.ORIGINAL_TOPIC) != done.topic.encode()
        or (which.codes and code not in which.codes)
        or which.index not in {None, index}
    ):
        done.others += 1
    elif dead_letters.VALUE_BYTES in headers:
        done.cut += 1
    elif dead_letters.retries_of(headers) >= which.retries_max:
        done.too_often += 1
    else:
        return True
    return False
