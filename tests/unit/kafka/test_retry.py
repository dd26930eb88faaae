"""Which dead letters of a worker are sent again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import cast

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, NotEnoughReplicasError

from streamer.kafka.dead_letters import dead_letter_message
from streamer.kafka.reader import Fetched
from streamer.kafka.retry import Retried, Which, _is_wanted, _send
from streamer.kafka.topics import Names
from streamer.model import Location
from streamer.pages.chunk import Rejected
from tests.helpers.kafka_doubles import FakeMessage

NAMES = Names("index", "pages")
OF_OTHERS = Names("index", "other-pages")
WHOLE = 1 << 20  # bytes that the topic takes: all of the originals


def letter(
    names: Names,
    value: bytes | None = b"{",
    *,
    retries: int = 0,
    room: int = WHOLE,
    offset: int = 0,
) -> FakeMessage:
    """Return a message of a topic of dead letters, with the code missing_url."""
    headers = (("streamer.retries", b"%d" % retries),)
    original = FakeMessage(0, value, headers=headers)
    rejected = Rejected(offset, "missing_url", "", None, b"{", 1)
    key, kept, about, _ = dead_letter_message(rejected, original, names, 0, room)
    return FakeMessage(0, kept, key, headers=tuple(about))


@pytest.mark.parametrize(
    ("message", "which", "counted"),
    [
        (letter(NAMES), Which(), ""),
        (letter(NAMES), Which(frozenset({"missing_url"}), "index"), ""),
        (letter(NAMES), Which(frozenset({"invalid_json"})), "others"),
        (letter(NAMES), Which(index="index-2"), "others"),
        (letter(OF_OTHERS), Which(), "others"),
        (letter(NAMES, None), Which(), "others"),
        (FakeMessage(0, b"{"), Which(), "others"),
        (letter(NAMES, b"{" * 100, room=64 << 10), Which(), "cut"),
        (letter(NAMES, retries=2), Which(), ""),
        (letter(NAMES, retries=3), Which(), "too_often"),
        (letter(NAMES, retries=3), Which(retries_max=4), ""),
        (letter(NAMES), Which(place=Location("pages", 0, 0)), ""),
        (letter(NAMES), Which(place=Location("pages", 1, 0)), "others"),
        (letter(NAMES), Which(sent={Location("pages", 0, 0)}), "before"),
        (letter(NAMES), Which(sent={Location("pages", 0, 1)}), ""),
    ],
)
def test_only_whole_dead_letters_of_the_pages_are_sent(
    message: FakeMessage, which: Which, counted: str
) -> None:
    done = Retried("pages")
    assert _is_wanted(message, which, done) == (not counted)
    counts = {name: getattr(done, name) for name in ("others", "cut", "too_often", "before")}
    assert counts == {name: int(name == counted) for name in counts}


def test_the_next_run_begins_behind_what_was_read() -> None:
    assert Retried("pages", offsets={10: 4, 2: 0}).next_offsets == "2:0-,10:4-"


class FakeProducer:
    """Takes so many messages, of which the second one does not arrive."""

    def __init__(self, room: int, failure: KafkaError | None) -> None:
        self.room, self.failure = room, failure
        self.taken: list[asyncio.Future[None]] = []

    async def send(self, *_message: object, **_headers: object) -> asyncio.Future[None]:
        if len(self.taken) == self.room:
            await asyncio.sleep(60)
        future = asyncio.get_running_loop().create_future()
        self.taken.append(future)
        if len(self.taken) != 2:
            future.set_result(None)
        elif self.failure:
            future.set_exception(self.failure)
        return future


@pytest.mark.parametrize(
    ("room", "failure", "sent"),
    [
        (2, None, {0, 1}),  # its time is over while the third one waits for room
        (3, None, {0, 1, 2}),  # or while the second one is under way
        (3, NotEnoughReplicasError(), {0, 2}),
    ],
    ids=["full", "under way", "refused"],
)
def test_what_may_have_arrived_is_not_sent_again(
    room: int, failure: KafkaError | None, sent: set[int]
) -> None:
    letters = [letter(NAMES, offset=offset) for offset in range(3)]
    which, producer = Which(sent=set()), FakeProducer(room, failure)
    chunk = Fetched(NAMES.dead_letters, 0, 0, 3, letters)

    async def run() -> None:
        with suppress(TimeoutError, KafkaError):
            sending = _send(
                cast("AIOKafkaProducer", producer), chunk, which, Retried("pages"), dry_run=False
            )
            await asyncio.wait_for(sending, 0.05)

    asyncio.run(run())
    assert which.sent == {Location("pages", 0, offset) for offset in sent}
