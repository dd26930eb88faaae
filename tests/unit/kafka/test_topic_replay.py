"""Replays of a topic: which chunks are read, in which order, and what ends the run."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from streamer.errors import InputError, StoreMismatch
from streamer.index.codec import StoreMeta
from streamer.index.messages import Forget, IndexSettings, Record, forget_record
from streamer.kafka import topic_replay
from streamer.kafka.topic_input import PageTopic, Wanted, parse_wanted, resolve
from streamer.kafka.topic_replay import OrderedInput, PartitionsInput
from streamer.kafka.topics import Names
from streamer.kafka.wire import LogPosition, pack_record
from streamer.pages.chunk import Chunk
from streamer.run.catalogue import Catalogue, open_catalogue, pack_catalogue
from streamer.run.reading import Forgotten
from tests.helpers.topic_doubles import IDENTITY, Topics, config, message_at, pages_record


def read(pages: PartitionsInput | OrderedInput, catalogue: Catalogue) -> list[Any]:
    """Take all steps into the catalogue; return (number, start, end, offsets) or a threshold."""
    pages.enter(catalogue)
    found: list[Any] = []
    amounts = [0]
    for step in pages.steps():
        if isinstance(step, IndexSettings):
            found.append(step.threshold)
        else:
            assert isinstance(step, Chunk)
            found.append((step.source, step.start, step.end, [m[0] for m in step.messages]))
            amounts.append(step.amount)
    assert amounts == sorted(amounts)
    if isinstance(pages, PartitionsInput) and found:
        assert amounts[-1] == pages.amount_in_all
    for step in found:
        if isinstance(step, tuple):
            catalogue.entries[step[0]].position = step[2]
    return found


TWO = {0: message_at([2, 3, 5]), 1: message_at([0, 4])}
TWO_BOUNDS = {0: (2, 8), 1: (0, 5)}


def whole(topic: PageTopic, **options: bool) -> PartitionsInput:
    return PartitionsInput(topic, resolve(Wanted(), topic.name, topic.bounds, {}), **options)


def test_partitions_come_one_after_the_other_and_cover_what_expired_before_them(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_replay, "RECORDS_MAX", 2)
    steps = read(whole(topics(TWO, TWO_BOUNDS)), Catalogue())
    assert steps == [(0, 0, 4, [2, 3]), (0, 4, 8, [5]), (1, 0, 5, [0, 4])]


def test_a_resumed_run_is_as_a_quiet_one(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_replay, "RECORDS_MAX", 1)
    messages = {0: message_at([1, 2, 7, 8, 9]), 1: message_at(range(4))}
    bounds = {0: (1, 12), 1: (0, 5)}
    quiet = read(whole(topics(messages, bounds)), Catalogue())
    assert len(quiet) == 9
    for done in range(10):
        catalogue = Catalogue()
        whole(topics(messages, bounds)).enter(catalogue)
        for number, _, end, _ in quiet[:done]:
            catalogue.entries[number].position = end
        assert read(whole(topics(messages, bounds)), catalogue) == quiet[done:]


def test_a_named_start_passes_over_what_lies_before_it(topics: Topics) -> None:
    topic = topics(TWO, TWO_BOUNDS)
    ranges = resolve(parse_wanted("0", "0:3-5", None), "pages", topic.bounds, {})
    catalogue = Catalogue()
    assert read(PartitionsInput(topic, ranges), catalogue) == [(0, 0, 5, [3])]
    assert read(PartitionsInput(topics(TWO, TWO_BOUNDS), ranges), catalogue) == []


def test_messages_that_expired_unread_end_the_run_unless_a_start_is_named(topics: Topics) -> None:
    catalogue = Catalogue()
    read(whole(topics(TWO, {0: (0, 3), 1: (0, 0)})), catalogue)
    later = topics(TWO, {0: (5, 8), 1: (0, 0)})
    with pytest.raises(StoreMismatch, match=r"expired unread\. Give --offsets 0:5-"):
        whole(later).enter(catalogue)
    named = resolve(parse_wanted(None, "0:5-", None), "pages", later.bounds, {})
    assert read(PartitionsInput(later, named), catalogue) == [(0, 3, 8, [5])]


def test_a_topic_that_has_lost_messages_is_refused(topics: Topics) -> None:
    catalogue = Catalogue()
    read(whole(topics(TWO, TWO_BOUNDS)), catalogue)
    with pytest.raises(StoreMismatch, match="ends at 7, the index is at 8"):
        whole(topics(TWO, {0: (2, 7), 1: (0, 5)})).enter(catalogue)


LOG = [
    config(0, 0.8),
    pages_record(1, 0, 3, [0]),
    pages_record(0, 0, 4, [2, 3]),
    config(1, 0.9),
    pages_record(1, 0, 3, [0]),
    pages_record(1, 3, 5, [4]),
    pages_record(0, 4, 8, [5]),
    config(2, 0.5),
]
ORDERED = [0.8, (1, 0, 3, [0]), (0, 0, 4, [2, 3]), 0.9, (1, 3, 5, [4]), (0, 4, 8, [5]), 0.5]


def ordered(topic: PageTopic) -> OrderedInput:
    return OrderedInput(topic, Names("streamer", "pages"), "fingerprint")


def test_a_resumed_run_goes_on_in_the_order_with_the_settings_of_the_place(topics: Topics) -> None:
    for done in range(len(ORDERED) + 1):
        catalogue = Catalogue()
        ordered(topics(TWO, TWO_BOUNDS, LOG)).enter(catalogue)
        in_force = []
        for step in ORDERED[:done]:
            if isinstance(step, tuple):
                catalogue.entries[step[0]].position = step[2]
            else:
                in_force = [step]
        left = ORDERED[done:]
        expected = left if left and isinstance(left[0], float) else [*in_force, *left]
        assert read(ordered(topics(TWO, TWO_BOUNDS, LOG)), catalogue) == expected


def test_an_index_keeps_to_one_order(topics: Topics) -> None:
    catalogue = Catalogue()
    topic = topics(TWO, TWO_BOUNDS, LOG)
    read(ordered(topic), catalogue)
    with pytest.raises(StoreMismatch, match="another order"):
        whole(topic).enter(catalogue)


def test_a_log_that_does_not_begin_at_its_beginning_gives_no_order(topics: Topics) -> None:
    with pytest.raises(StoreMismatch, match="first 2 records"):
        ordered(topics(TWO, TWO_BOUNDS, LOG, first=2))


def test_what_is_forgotten_comes_from_the_log_at_its_place(topics: Topics) -> None:
    gone = Record("pages:0", 3, 8, np.array([3, 5]), Forget([("url", b"a"), ("url", b"b")]))
    command = Forget([("host", b"h"), ("ask", b"id")], "id")
    question = Forget([("ask", b"id")], "id")
    records = [forget_record(command), gone, forget_record(question)]
    log = [config(0, 0.8), pages_record(0, 0, 3, [2])]
    log += [pack_record(record, IDENTITY) for record in records]
    for at, wanted in ((0, [(3, b"a"), (5, b"b")]), (5, [(5, b"b")]), (8, [])):
        catalogue = Catalogue()
        ordered(topics(TWO, TWO_BOUNDS, log)).enter(catalogue)
        catalogue.entries[0].position = at
        pages = ordered(topics(TWO, TWO_BOUNDS, log))
        pages.enter(catalogue)
        steps = list(pages.steps())
        chunks = [step for step in steps if isinstance(step, Chunk)]
        assert [each for chunk in chunks for each in chunk.tombstones] == wanted
        forgotten = [step for step in steps if isinstance(step, Forgotten)]
        assert forgotten == [Forgotten(Forget([("host", b"h")], "id"), 2)]
        if len(chunks) == 2:
            assert steps.index(chunks[0]) < steps.index(forgotten[0]) < steps.index(chunks[1])


def test_messages_without_a_value_are_tombstones_where_that_is_asked_for(topics: Topics) -> None:
    messages = [(0, b"a", None), (1, None, None), (2, b"b", b""), (3, b"x" * 9000, None)]
    for takes in (False, True):
        pages = whole(topics({0: messages}, {0: (0, 4)}), takes_tombstones=takes)
        pages.enter(Catalogue())
        assert [step.tombstones for step in pages.steps() if isinstance(step, Chunk)] == [
            [(0, b"a")] if takes else []
        ]


def test_a_log_of_another_key_is_refused_before_anything_is_entered(topics: Topics) -> None:
    topic, catalogue = topics(TWO, TWO_BOUNDS, LOG), Catalogue()
    with pytest.raises(StoreMismatch, match="--key-file"):
        OrderedInput(topic, Names("streamer", "pages"), "other").enter(catalogue)
    assert catalogue == Catalogue()


@pytest.mark.parametrize(
    ("bounds", "said"),
    [({0: (3, 8), 1: (0, 5)}, "a page at 2"), ({0: (2, 7), 1: (0, 5)}, "up to 8")],
)
def test_pages_of_the_log_that_are_there_no_longer_end_the_run(
    topics: Topics, bounds: dict[int, tuple[int, int]], said: str
) -> None:
    pages = ordered(topics(TWO, bounds, LOG))
    with pytest.raises(InputError, match=said):
        read(pages, Catalogue())


# ---- the catalogue -----------------------------------------------------------------------------


def test_an_index_of_a_worker_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    def stored(meta: StoreMeta | None) -> Any:
        return SimpleNamespace(meta=meta)

    assert open_catalogue(stored(None), tmp_path) == Catalogue()
    own = Catalogue(outputs={"/out": 1}, order="log-id")
    assert open_catalogue(stored(StoreMeta(1, {}, owner=pack_catalogue(own))), tmp_path) == own
    position = msgspec.msgpack.encode(LogPosition("id", "log-id", 0))
    with pytest.raises(StoreMismatch, match="worker's shard"):
        open_catalogue(stored(StoreMeta(1, {}, owner=position)), tmp_path)
