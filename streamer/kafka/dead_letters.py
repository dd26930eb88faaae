"""Dead letters of a worker as messages: how they are written, read, and sent again.

A dead letter is a message with the original key, bytes and headers; more headers say what happened.
Some are those of Kafka Connect, which tools for dead letter queues know. Others are ours: the code
of docs/dead-letters.md; the index, since two may read the same pages; and the original's length
where it was cut. Brokers limit the compressed size of a message that may expand to thousands of
times as much. So an original may fit its topic only compressed, or not at all: then the dead letter
holds its beginning and names the place of the whole. A worker that stopped there would stop at each
start.

What is sent to the topic of pages again has its original key and bytes, and is a new message there,
with a place and a verdict of its own. If it fails again, it comes back as a dead letter. A header
counts how often it was sent, so no mistake sends it for ever. Arrival is tracked by chunk: the
offsets to continue from are after whole chunks, and after an error part of one chunk may be sent
twice.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.codec import zstd_encode
from aiokafka.errors import KafkaError

from streamer.errors import InputError, SettingsError, StreamerError
from streamer.index.messages import Headers
from streamer.kafka.connection import Connection
from streamer.kafka.publisher import Message, headers_within, open_producer
from streamer.kafka.reader import Fetched, reader_of
from streamer.kafka.topic_input import WaitingLoop, Wanted, resolve
from streamer.kafka.topics import DEAD_LETTERS, HEADERS_BYTES_MAX, Names, check_pages, check_there
from streamer.model import DeadLetter, Location
from streamer.pages.chunk import KEPT_BYTES_MAX, RejectedRecord
from streamer.panels import OWN_HEADERS
from streamer.run.stages import dead_letter

CODE = "streamer.code"
INDEX = "streamer.index"
KEY_BYTES = "streamer.key_bytes"
VALUE_BYTES = "streamer.value_bytes"
RETRIES = "streamer.retries"  # how often the original was sent again before
WHOLE_BYTES_MAX = 64 << 20  # of an original that is kept whole; its reader expands it
DETAIL_CHARACTERS_MAX = 1000
ORIGINAL_HEADERS_BYTES_MAX = HEADERS_BYTES_MAX // 2
_CONNECT = "__connect.errors."
ORIGINAL_TOPIC = _CONNECT + "topic"
ORIGINAL_PARTITION = _CONNECT + "partition"


def dead_letter_message(
    rejected: RejectedRecord,
    original: Any,  # noqa: ANN401 - the client library's message
    names: Names,
    bytes_max: int,
) -> Message:
    """Return the message for a rejected record, of `bytes_max` at most once it is compressed.

    `original` is the record as it was read.
    """
    key, value = original.key, original.value
    about = {
        ORIGINAL_TOPIC: names.pages,
        ORIGINAL_PARTITION: str(original.partition),
        _CONNECT + "offset": str(rejected.sequence),
        _CONNECT + "connector.name": names.index,
        _CONNECT + "stage": "VALUE_CONVERTER",
        _CONNECT + "exception.class.name": "streamer.errors.InvalidPage",
        _CONNECT + "exception.message": (rejected.detail or rejected.code)[:DETAIL_CHARACTERS_MAX],
        CODE: rejected.code,
        INDEX: names.index,
    }
    if not _fits(key or b"", value or b"", bytes_max - HEADERS_BYTES_MAX):
        about |= {KEY_BYTES: str(len(key or b"")), VALUE_BYTES: str(len(value or b""))}
        kept = min(KEPT_BYTES_MAX, bytes_max // 3)
        key, value = (None if each is None else each[:kept] for each in (key, value))
    if retries := _retries_of(_texts_in(original)):
        about[RETRIES] = str(retries)
    headers = [(name, text.encode()) for name, text in about.items()]
    headers += original_headers(original)
    return key, value, headers, None


def original_headers(message: Any) -> Headers:  # noqa: ANN401 - as above
    """Return the headers that are the original's: they may name its schema, or hold its URL."""
    own = (each for each in message.headers if not each[0].startswith((OWN_HEADERS, _CONNECT)))
    return headers_within(own, ORIGINAL_HEADERS_BYTES_MAX)


def _fits(key: bytes, value: bytes, bytes_max: int) -> bool:
    """Return whether an original fits, as it is or compressed."""
    size = len(key) + len(value)
    if size > WHOLE_BYTES_MAX:
        return False
    return size <= bytes_max or len(zstd_encode(key)) + len(zstd_encode(value)) <= bytes_max


def _texts_in(message: Any) -> dict[str, str]:  # noqa: ANN401 - as above
    """Return the headers of a message as texts."""
    return {name: (value or b"").decode(errors="replace") for name, value in message.headers}


def _retries_of(headers: Mapping[str, str]) -> int:
    """Return how often a message was sent again after it became a dead letter."""
    return _number_in(headers.get(RETRIES), 0)


def read_dead_letters(
    connection: Connection, topic: str, index: str | None = None
) -> Iterator[DeadLetter]:
    """Yield the dead letters that a topic has now, by partition and offset; those of `index` only.

    Raises:
        InputError: there is no such topic or index, or messages have expired or cannot be decoded.
        StoreMismatch: there are none of the index, which is of other pages.
        StreamerError: the brokers cannot be reached, or refuse.
    """
    is_known = index is None
    with WaitingLoop() as loop:
        reader = loop.enter(reader_of(connection))
        for partition, bounds in loop.run(reader.all_bounds(topic)).items():
            for chunk in loop.each(reader.read(topic, partition, *bounds)):
                for message in chunk.records:
                    if index is None or is_of_index(message, index):
                        is_known = True
                        yield dead_letter_in(message)
        if index is not None and not is_known:  # it may have none, or a mistyped name
            names = Names(index, topic.removesuffix(DEAD_LETTERS))
            check = check_pages if topic.endswith(DEAD_LETTERS) else check_there
            loop.run(check(reader, names))


def is_of_index(message: Any, index: str) -> bool:  # noqa: ANN401 - as above
    """Return whether a message is a dead letter of the index of this name."""
    return bool(dict(message.headers).get(INDEX) == index.encode())


def dead_letter_in(message: Any) -> DeadLetter:  # noqa: ANN401 - as above
    """Return a message as a dead letter, at its own place if it names no original."""
    text, value = _texts_in(message), message.value or b""
    # Streamer did not write a message without a code.
    code, detail = text.get(CODE, "unknown"), text.get(_CONNECT + "exception.message", "")
    value_bytes = _number_in(text.get(VALUE_BYTES), len(value))
    detail = "" if detail == code else detail
    rejected = RejectedRecord(0, code, detail, message.key, value, value_bytes)
    place = Location(
        text.get(ORIGINAL_TOPIC, message.topic),
        _number_in(text.get(ORIGINAL_PARTITION), message.partition),
        _number_in(text.get(_CONNECT + "offset"), message.offset),
    )
    return dead_letter(rejected, place)


def _number_in(text: str | None, default: int) -> int:
    """Return the number that a header has, if it has one."""
    return int(text) if text and re.fullmatch(r"[0-9]{1,18}", text) else default


# ---- sent again ----------------------------------------------------------------------------------


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
        largest = WHOLE_BYTES_MAX + HEADERS_BYTES_MAX
        try:
            options = connection.client_options()
            async with open_producer(options, max_request_size=largest) as producer:
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
    waiting = []
    for each in chosen if not dry_run else ():
        headers = _texts_in(each)
        own = [(RETRIES, b"%d" % (_retries_of(headers) + 1)), *original_headers(each)]
        # To the partition of the original, where the pages are that it may be alike.
        partition = _number_in(headers.get(ORIGINAL_PARTITION), each.partition)
        sent = producer.send(done.topic, each.value, each.key, partition, headers=own)
        waiting.append(await sent)
    for future in waiting:
        await future
    done.sent += len(chosen)
    done.offsets[chunk.partition] = chunk.end


def _is_wanted(message: Any, which: Which, done: Retried) -> bool:  # noqa: ANN401 - as above
    """Return whether a message is to be sent again; count why not."""
    headers = _texts_in(message)
    code, index = headers.get(CODE, ""), headers.get(INDEX, "")
    if (
        not code
        or message.value is None  # would delete
        or headers.get(ORIGINAL_TOPIC) != done.topic
        or (which.codes and code not in which.codes)
        or which.index not in {None, index}
    ):
        done.others += 1
    elif VALUE_BYTES in headers:
        done.cut += 1
    elif _retries_of(headers) >= which.retries_max:
        done.too_often += 1
    else:
        return True
    return False
