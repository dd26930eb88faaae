"""Dead letters as messages: the original key and bytes, and what happened in the headers.

The headers are those of Kafka Connect, which tools for dead letter queues know, and two of our own:
the code of docs/dead-letters.md and the index, since two may read the same pages.
"""

from __future__ import annotations

from streamer.kafka.publisher import Message
from streamer.stream.batch import Rejected

CODE = "streamer.code"
INDEX = "streamer.index"
_CONNECT = "__connect.errors."


def dead_letter_message(
    rejected: Rejected, original: bytes | None, topic: str, partition: int, index: str
) -> Message:
    """Return the message for a rejected record; `original` is its value as it was read."""
    about = {
        _CONNECT + "topic": topic,
        _CONNECT + "partition": str(partition),
        _CONNECT + "offset": str(rejected.sequence),
        _CONNECT + "connector.name": index,
        _CONNECT + "stage": "VALUE_CONVERTER",
        _CONNECT + "exception.class.name": "streamer.errors.InvalidPage",
        _CONNECT + "exception.message": rejected.detail or rejected.code,
        CODE: rejected.code,
        INDEX: index,
    }
    headers = [(name, value.encode()) for name, value in about.items()]
    return rejected.key, original, headers, None
