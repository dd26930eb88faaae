"""Which dead letters of a worker are sent again."""

import pytest

from streamer.kafka.dead_letters import Retried, Which, _is_wanted, dead_letter_message
from streamer.kafka.topics import Names
from streamer.pages.chunk import RejectedRecord
from tests.helpers.kafka_doubles import FakeMessage

NAMES = Names("index", "pages")
OF_OTHERS = Names("index", "other-pages")
WHOLE = 1 << 20  # bytes that the topic takes: all of the originals


def letter(
    names: Names, value: bytes | None = b"{", *, retries: int = 0, room: int = WHOLE
) -> FakeMessage:
    """Return a message of a topic of dead letters, with the code missing_url."""
    headers = (("streamer.retries", b"%d" % retries),)
    original = FakeMessage(0, value, headers=headers)
    rejected = RejectedRecord(0, "missing_url", "", None, b"{", 1)
    key, kept, about, _ = dead_letter_message(rejected, original, names, room)
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
    ],
)
def test_only_whole_page_letters_are_sent(message: FakeMessage, which: Which, counted: str) -> None:
    done = Retried("pages")
    assert _is_wanted(message, which, done) == (not counted)
    counts = {name: getattr(done, name) for name in ("others", "cut", "too_often")}
    assert counts == {name: int(name == counted) for name in counts}


def test_the_next_run_begins_behind_what_was_read() -> None:
    assert Retried("pages", offsets={10: 4, 2: 0}).next_offsets == "2:0-,10:4-"
