"""Messages of a schema registry, through a real Kafka: Apicurio's registry, and one that fails."""

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamer.kafka.dead_letters import CODE
from streamer.kafka.topics import Names
from streamer.pages.schema_registry import HEADER
from tests.helpers import schema_registry
from tests.helpers.broker import make_topic, messages_of, send, verdicts_of
from tests.helpers.fleet import Fleet, fleet, streamer
from tests.helpers.ports import free_port
from tests.helpers.schema_registry import PAGE_SCHEMA, by_number, fake_registry, register
from tests.helpers.wait import wait_until
from tests.integration.test_worker import asked

TEXT = "the quick brown fox jumps over a lazy dog while animals of the farm look on, says page"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with schema_registry.running_registry(tmp_path_factory.mktemp("registry")) as url:
        yield url


def text(kind: int) -> str:
    """Return a text that has no word of those of another kind."""
    return " ".join(f"{word}{kind}" for word in TEXT.split())


def page(number: int) -> bytes:
    return schema_registry.avro_page(f"http://a.example/{number}", text(number % 3).encode())


def dead_letters(workers: Fleet) -> list[Any]:
    found = messages_of(workers.brokers, workers.names.dead_letters)
    return sorted(
        (each for held in found.values() for each in held),
        key=lambda each: int(dict(each.headers)["__connect.errors.offset"]),
    )


def test_a_worker_judges_what_apicurio_knows_as_a_replay_does(
    registry: str, brokers: str, names: Names, tmp_path: Path
) -> None:
    avro = register(registry, "pages-value", PAGE_SCHEMA)
    schema = register(
        registry,
        "json",
        '{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}',
        "JSON",
    )
    number = (HEADER, b"\0" + avro.to_bytes(4, "big"))
    plain = json.dumps({"url": "http://a.example/j", "body": text(1)}).encode()
    lost, misfit = by_number(9999, page(1)), page(1)[:-4]
    messages: list[tuple[Any, ...]] = [(None, by_number(avro, page(n))) for n in range(10)]
    messages += [(None, page(10), None, [number]), (None, by_number(schema, plain)), (None, plain)]
    messages += [(None, lost), (None, misfit, None, [number])]
    make_topic(brokers, names.pages)
    send(brokers, names.pages, messages)
    options = ("--registry-url", registry)
    with fleet(tmp_path, brokers, names, options=options) as workers:
        workers.settle("all", "--index", tmp_path / "index")
        found = verdicts_of(brokers, names)
        assert Counter(json.loads(each)["verdict"] for each in found) == {
            "unique": 3, "duplicate": 10,
        }  # fmt: skip
        dead = dead_letters(workers)
        assert [each.value for each in dead] == [lost, misfit]
        codes = [dict(each.headers)[CODE].decode() for each in dead]
        assert codes == ["unknown_schema", "schema_mismatch"]
        assert [each for each in dead[1].headers if each[0] == HEADER] == [number]
        assert sorted(workers.replayed()) == sorted(found)
        workers.see_that_all_holds(*options)
    done = streamer(
        "replay", "--from-topic", names.pages, "--brokers", brokers, "--verdicts",
        tmp_path / "w.jsonl", "--offsets", "0:0-10",
    )  # fmt: skip
    assert done.returncode == 2
    assert "all fail with no_registry" in done.stderr.replace("\n", " ")
    assert "--registry-url" in done.stderr


def test_an_outage_of_the_registry_delays_pages_and_loses_none(
    brokers: str, names: Names, tmp_path: Path
) -> None:
    port = free_port()
    make_topic(brokers, names.pages)
    with fake_registry() as reported, fleet(
        tmp_path, brokers, names, options=("--registry-url", reported.url)
    ) as workers:  # fmt: skip
        reported.schemas["/schemas/ids/1"] = {"schema": PAGE_SCHEMA}
        workers.start("all", "--index", tmp_path / "index", "--health-port", port)
        workers.wait_for_log("all", "worker_started")
        reported.failure = 503
        send(brokers, names.pages, [(None, by_number(1, page(n))) for n in range(9)])
        wait_until(
            lambda: (
                "schema registry cannot be used: it answers with HTTP 503"
                in asked(port, "health/ready").decode()
            )
        )
        assert workers.kill("all", signal.SIGTERM) == 1, workers.log("all")
        assert workers.start("all").wait(60) == 1  # a start says at once what is wrong
        assert "--registry-url" in workers.log("all")[workers.marks["all"] :]
        reported.failure = 0
        workers.settle("all")
        assert len(verdicts_of(brokers, names)) == 9
        assert dead_letters(workers) == []
        reported.failure = 503
        reported.schemas["/schemas/ids/2"] = {"schema": PAGE_SCHEMA}
        send(brokers, names.pages, [(None, by_number(2, page(n))) for n in range(3)])
        wait_until(lambda: "HTTP 503" in asked(port, "health/ready").decode())
        reported.failure = 0
        workers.wait_until_settled()
        assert json.loads(asked(port, "health/ready").decode()) == {"ready": True, "reasons": []}
        assert len(verdicts_of(brokers, names)) == 12
        assert dead_letters(workers) == []
        assert workers.kill("all", signal.SIGTERM) == 0
