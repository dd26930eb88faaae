"""Send files to a topic of pages, for trials and tests, as a crawler would.

The lines of JSONL files are sent unchanged, valid or not, since judging them is the consumer's
part. A page's URL is its key, so all fetches of a page are in one partition, in order; or what the
reader takes for its scope, as its host. WARC records become messages of the `page` schema; those
that are no pages are not sent. Or the value of each message is a page's body, and headers have its
URL and type.
"""

from asyncio import Future
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.partitioner import murmur2

from streamer.kafka.connection import Connection
from streamer.kafka.publisher import Message, open_producer, send_batches
from streamer.kafka.reader import reader_of
from streamer.kafka.topics import MESSAGE_BYTES_MAX, ensure_topic, pages_topic
from streamer.model import Page
from streamer.pages.chunk import Chunk, PageBatch
from streamer.pages.files import Source
from streamer.pages.mapping import MessageValue
from streamer.run.reading import PageReader
from streamer.text.visible import ESCAPED, HTML, visible_text

BATCHES_WAITING = 32

Progress = Callable[[int, int], None]  # bytes read of all sources, records sent
_Message = tuple[bytes | None, bytes, list[tuple[str, bytes]]]  # key, value, headers


@dataclass(slots=True)
class Produced:
    """What a run sent, and what it did not send: records that are no pages, or too large.

    Pages without what is to be their key are counted, too: a message of the page's body is not sent
    then, any other one is sent without a key.
    """

    messages: int = 0
    message_bytes: int = 0
    no_pages: int = 0
    too_large: int = 0
    no_key: int = 0


async def produce(
    sources: Sequence[Source],
    topic: str,
    connection: Connection,
    reader: PageReader,
    partitions: int,
    replicas: int = 1,
    value: MessageValue = "page",
    progress: Progress = lambda _bytes, _records: None,
) -> Produced:
    """Send the records of all sources, in order a partition; make the topic if there is none.

    Raises:
        StreamerError: the brokers cannot be reached, or refuse; or as `PageReader.read`.
    """
    sent = Produced()
    size, options = 2 * MESSAGE_BYTES_MAX, connection.client_options()
    opening = open_producer(options, max_request_size=size)
    async with reader_of(connection) as brokers, opening as producer:
        await ensure_topic(brokers.admin, pages_topic(topic, partitions, replicas), check=False)
        numbers = sorted(await producer.partitions_for(topic))
        waiting = deque[Future[object]]()
        for _, chunk, batch in reader.read(sources):
            messages = _messages(chunk, batch, sent, value)
            waiting += await _send(producer, topic, numbers, messages, sent)
            while len(waiting) > BATCHES_WAITING:
                await waiting.popleft()
            progress(chunk.amount, sent.messages)
        for future in waiting:
            await future
    return sent


def _messages(
    chunk: Chunk, batch: PageBatch, sent: Produced, kind: MessageValue
) -> Iterator[_Message]:
    """Yield the messages of a chunk."""
    sent.too_large += sum(letter.code == "record_too_large" for letter in chunk.dead)
    sent.no_key += sum(letter.code == "missing_scope" for letter in batch.dead)
    if not chunk.lines or kind == "body":
        sent.no_pages += chunk.end - chunk.start - len(batch)
        yield from _pages(batch, kind)
        return
    keys = dict(zip(batch.sequences, _keys(batch), strict=True))
    for sequence, line in enumerate(chunk.lines, chunk.start):
        value = line.rstrip(b"\r\n")
        if not value.strip():
            sent.no_pages += 1
        elif len(value) >= MESSAGE_BYTES_MAX - 1024:
            sent.too_large += 1
        else:
            yield keys.get(sequence) or None, value, []


def _pages(batch: PageBatch, value: MessageValue) -> Iterator[_Message]:
    """Yield the pages of a batch as messages of the `page` schema, or as their bodies."""
    every = zip(_keys(batch), batch.urls, batch.bodies, batch.flags, strict=True)
    for key, url, body, flags in every:
        kind = "text/html" if flags & HTML else "text/plain"
        text = visible_text(body, flags & ESCAPED)
        if value == "body":
            headers = [("url", url), ("content-type", f"{kind}; charset=utf-8".encode())]
            yield key or None, text.encode(), headers
        else:
            yield key, msgspec.json.encode(Page(url.decode(), body=text, content_type=kind)), []


def _keys(batch: PageBatch) -> list[bytes]:
    """Return the key of each page; a field that is a text is its own."""
    return [
        msgspec.json.decode(each, type=str).encode() if each.startswith(b'"') else each
        for each in batch.scopes or batch.urls
    ]


async def _send(
    producer: AIOKafkaProducer,
    topic: str,
    partitions: Sequence[int],
    messages: Iterator[_Message],
    sent: Produced,
) -> list[Future[object]]:
    """Send messages, one batch for a partition at a time; return futures of their arrival."""
    waiting = defaultdict[int, list[Message]](list)
    for key, value, headers in messages:
        place = sent.messages if key is None else murmur2(key) & 0x7FFFFFFF
        waiting[partitions[place % len(partitions)]].append((key, value, headers, None))
        sent.messages += 1
        sent.message_bytes += len(value)
    return await send_batches(producer, topic, waiting, MESSAGE_BYTES_MAX)
