"""Dead letters as messages: the original key and bytes, and what happened in the headers.

The headers are those of Kafka Connect, which tools for dead letter queues know, and some of our
own: the code of docs/dead-letters.md, the index, since two may read the same pages, and how long
the original is where it is cut. Brokers take by compressed size what may be thousands of times
larger, so an original may fit its topic only compressed, or not at all: then the dead letter holds
how it begins, and names where all of it is. To stop there would be to stop for ever.
"""

from __future__ import annotations

from typing import Any

from aiokafka.codec import zstd_encode

from streamer.kafka.names import Names
from streamer.kafka.publisher import Message
from streamer.kafka.topics import HEADERS_BYTES_MAX
from streamer.stream.batch import Rejected
from streamer.stream.chunk import KEPT_BYTES_MAX

CODE = "streamer.code"
INDEX = "streamer.index"
KEY_BYTES = "streamer.key_bytes"
VALUE_BYTES = "streamer.value_bytes"
WHOLE_BYTES_MAX = 64 << 20  # of an original that is kept whole: whoever reads it expands it
DETAIL_CHARACTERS_MAX = 1000
_CONNECT = "__connect.errors."


def dead_letter_message(
    rejected: Rejected,
    original: Any,  # noqa: ANN401 - the client library's message
    names: Names,
    partition: int,
    bytes_max: int,
) -> Message:
    """Return the message for a rejected record, of `bytes_max` at most once it is compressed.

    `original` is the record as it was read, from `partition` of the pages.
    """
    key, value = original.key, original.value
    about = {
        _CONNECT + "topic": names.pages,
        _CONNECT + "partition": str(partition),
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
    headers = [(name, text.encode()) for name, text in about.items()]
    return key, value, headers, None


def _fits(key: bytes, value: bytes, bytes_max: int) -> bool:
    """Tell whether an original fits, as it is or compressed."""
    size = len(key) + len(value)
    if size > WHOLE_BYTES_MAX:
        return False
    return size <= bytes_max or len(zstd_encode(key)) + len(zstd_encode(value)) <= bytes_max
