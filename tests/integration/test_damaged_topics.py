"""Topics whose newest batch is damaged on the broker's disk: whoever reads it names the place."""

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from streamer import InputError, follow
from streamer.console.topic_fold import TopicFold
from streamer.console.view import VerdictView
from streamer.errors import StreamerError
from streamer.kafka.connection import Connection
from streamer.kafka.dead_letters import Which, send_again
from streamer.kafka.topic_input import Wanted
from streamer.kafka.topics import Names
from tests.helpers.broker import make_topic, running_broker, send
from tests.helpers.fleet import fleet
from tests.helpers.ports import free_port
from tests.integration.test_follow import BEGAN_MS, publish
from tests.integration.test_worker import page


class Brokers(NamedTuple):
    """A broker of these tests alone, and its files."""

    address: str
    folder: Path

    def damage(self, topic: str) -> None:
        """Change the last byte of partition 0."""
        [log] = self.folder.rglob(f"{topic}-0/*.log")
        with log.open("r+b") as file:
            file.seek(-1, 2)
            last = file.read(1)
            file.seek(-1, 2)
            file.write(bytes([last[0] ^ 0xFF]))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    folder = tmp_path_factory.mktemp("damaged") / "broker"
    with running_broker(folder, free_port()) as address:
        yield Brokers(address, folder)


def place_of(topic: str, offset: int) -> str:
    return rf"(?i)partition 0 of {topic} cannot be decoded from offset {offset} on"


@pytest.mark.parametrize("is_damaged", [True, False])
def test_who_follows_verdicts_has_those_before(
    own: Brokers, names: Names, *, is_damaged: bool
) -> None:
    make_topic(own.address, names.verdicts, 2)
    publish(own.address, names, 0, 3)
    send(own.address, names.verdicts, [(None, b"{}", BEGAN_MS + 3000)])
    said = r"offset 3 of partition 0 of .* is not a verdict"
    if is_damaged:
        own.damage(names.verdicts)
        said = place_of(names.verdicts, 3)
    numbers = []

    async def run() -> None:
        async with asyncio.timeout(60), follow(own.address, names.index) as followed:
            async for each in followed:
                numbers.append(each.page.offset)  # noqa: PERF401 - an error comes in between

    with pytest.raises(InputError, match=said):
        asyncio.run(run())
    assert numbers == [0, 1, 2]


def test_the_console_shows_what_is_before_and_says_where_it_ends(
    own: Brokers, names: Names, tmp_path: Path
) -> None:
    make_topic(own.address, names.pages)
    make_topic(own.address, names.verdicts)
    publish(own.address, names, 0, 3)
    publish(own.address, names, 3, 5)
    own.damage(names.verdicts)
    view = VerdictView(tmp_path / "view")
    fold = TopicFold(view, Connection(own.address), names)
    with pytest.raises(StreamerError, match=place_of(names.verdicts, 3)) as failure:
        fold.go_on()
    assert "unreachable" not in str(failure.value)
    with view.read(5) as found:
        assert found.execute("SELECT count(*) FROM page").fetchone()[0] == 3
    fold._disconnect()  # noqa: SLF001 - its process would end
    fold.close()
    view.close()


def test_dead_letters_are_sent_again_up_to_there(own: Brokers, names: Names) -> None:
    for topic in (names.pages, names.dead_letters):
        make_topic(own.address, topic)
    for each in (b"no letter", b"as well"):
        send(own.address, names.dead_letters, [(None, each)])
    own.damage(names.dead_letters)
    reported = (
        place_of(names.dead_letters, 1) + r".*0 messages were sent.*--offsets 0:1-, and a later"
    )
    with pytest.raises(InputError, match=reported):
        asyncio.run(
            send_again(
                Connection(own.address), names.dead_letters, Wanted(), Which(), dry_run=False
            )
        )


def test_a_worker_ends_with_the_place(own: Brokers, names: Names, tmp_path: Path) -> None:
    make_topic(own.address, names.pages)
    send(own.address, names.pages, [(None, page(number)) for number in range(5)])
    with fleet(tmp_path, own.address, names) as workers:
        workers.settle("all", "--index", tmp_path / "index")
        assert workers.kill("all", signal.SIGTERM) == 0
        own.damage(names.verdicts)
        kept = workers.start("all", "--index", tmp_path / "index", "--kept-topic", "kept")
        assert kept.wait(60) == InputError.exit_code
        last = json.loads(workers.log("all").splitlines()[-1])
        assert f"0 of {names.verdicts} cannot be decoded from offset" in last["reason"]
        send(own.address, names.pages, [(None, page(5))])
        own.damage(names.pages)
        signing = workers.start("all", "--index", tmp_path / "index")
        assert signing.wait(60) == InputError.exit_code
        last = json.loads(workers.log("all").splitlines()[-1])
        assert f"0 of {names.pages} cannot be decoded from offset 5 on" in last["reason"]
