"""`streamer worker` by other methods than the default, or by main text: a replay's verdicts."""

import asyncio
import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from streamer.analysis.sample.crawl import PAGES_FILE, write_crawl
from streamer.kafka.topics import Names
from tests.helpers.broker import make_topic, messages_of, verdicts_of
from tests.helpers.fleet import Fleet, fleet
from tests.integration.chaos import load

PAGES = 200


@pytest.fixture
def few(tmp_path: Path) -> Path:
    write_crawl(tmp_path / "few", PAGES)
    return tmp_path / "few" / PAGES_FILE


def judged(
    brokers: str,
    names: Names,
    pages: Path,
    folder: Path,
    *options: str,
    verifying: tuple[str, ...] = (),
) -> list[dict[str, Any]]:
    """Return a worker's verdicts, which are those of a replay byte by byte."""
    load(brokers, names, pages, partitions=2)
    with fleet(folder, brokers, names, options=options) as workers:
        workers.settle("all", "--index", folder / "index")
        workers.see_that_all_holds(*verifying)
        assert workers.kill("all", signal.SIGTERM) == 0
    found = verdicts_of(brokers, names)
    assert sorted(workers.replayed()) == sorted(found)
    return [json.loads(value) for value in found]


@pytest.mark.parametrize(
    "options",
    [
        ("--method", "supershingles", "--canonical", "stem=english"),
        ("--method", "simhash", "--accept", "minhash", "--method-option", "distance=5"),
    ],
    ids=["one", "two in sequence"],
)
def test_verdicts_of_another_method_are_those_of_a_replay(
    brokers: str, names: Names, few: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    said = Counter(each["verdict"] for each in judged(brokers, names, few, tmp_path, *options))
    assert min(said["unique"], said["duplicate"]) > PAGES // 10


def test_verdicts_by_main_text_exact_with_near_misses_are_those_of_a_replay_and_say_so(
    brokers: str, names: Names, few: Path, tmp_path: Path
) -> None:
    options = ("--text", "main", "--exact", "--threshold", "0.9", "--near-misses", "0.3")
    verdicts = judged(brokers, names, few, tmp_path, *options)
    said = Counter((each["text"], each["verdict"]) for each in verdicts)
    assert min(said["main", "unique"], said["main", "duplicate"], said["visible", "unique"]) > 3
    exact = Counter(each["exact"] for each in verdicts if each["verdict"] == "duplicate")
    assert min(exact[True], exact[False]) > 3
    unique = [each for each in verdicts if each["verdict"] == "unique"]
    near = [each["nearest"] for each in unique if each.get("nearest")]
    assert len(near) > PAGES // 20
    kept = {json.dumps(each["page"]): each["url"] for each in unique}
    assert all(kept[json.dumps(each["page"])] == each["url"] for each in near)
    assert all(0.6 <= each["similarity"] < 0.9 for each in near)
    assert {each.get("nearest_min") for each in unique} == {0.6}
    assert not any("nearest" in each for each in verdicts if each["verdict"] == "duplicate")


def test_verdicts_under_rules_for_sites_are_those_of_a_replay(
    brokers: str, names: Names, few: Path, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rule]]\nhost = "*3.example"\nskip = true\n'
        '[[rule]]\nhost = "www.site001*"\ntext = "main"\n'
        '[[rule]]\nhost = "*.example"\npath = "/articles/*"\nthreshold = 0.5\n'
    )
    own = ("--rules", str(rules))
    bands = ("--bands", "40", "--rows", "3")  # which find pairs at 0.5 too
    verdicts = judged(brokers, names, few, tmp_path, *own, *bands, verifying=own)
    missing = Fleet(tmp_path, brokers, names).verify("--settled")
    assert missing.returncode == 1, "pages that were skipped are missed"
    assert not [one["url"] for one in verdicts if "3.example/" in one["url"]]
    assert {one["text"] for one in verdicts} == {"main", "visible"}
    assert min(one["similarity"] or 1 for one in verdicts) < 0.8


def test_headers_pass_through_a_kill(brokers: str, names: Names, few: Path, tmp_path: Path) -> None:
    make_topic(brokers, names.pages, 2)
    lines = few.read_bytes().splitlines()

    async def send_all() -> None:
        async with AIOKafkaProducer(bootstrap_servers=brokers) as producer:
            for number, line in enumerate(lines):
                own = [("traceparent", b"00-%032x" % number), ("other", b"x"), ("b3", None)]
                own += [("b3", b"\xff\x00"), ("b3", b""), ("streamer.sequence", b"0:0")]
                own += [("tracestate", bytes(9000)), ("traceparent", b"again")]
                headers = own if number % 4 else None
                await producer.send(names.pages, line, None, number % 2, headers=headers)

    asyncio.run(send_all())
    passed = ("--pass-headers", "traceparent", "--pass-headers", "b3")
    options = (*passed, "--pass-headers", "tracestate")
    with fleet(tmp_path, brokers, names, options=options) as workers:
        workers.start("all", "--index", tmp_path / "index", "--head-pages", "32")
        while len(verdicts_of(brokers, names) if workers.left() != 1 else ()) < PAGES // 4:
            workers.restart_dead()
        workers.kill("all")
        workers.settle("all")
        workers.see_that_all_holds()
    sent = messages_of(brokers, names.pages)
    found = [each for held in messages_of(brokers, names.verdicts).values() for each in held]
    assert len(found) > PAGES * 9 // 10
    for message in found:
        place = json.loads(message.value)["page"]
        page = sent[place["partition"]][place["offset"]]
        wanted = [each for each in page.headers if each[0] in {"traceparent", "b3"}]
        assert [*message.headers[1:]] == [each for each in wanted if each[1] is not None]
        assert message.headers[0][0] == "streamer.sequence"
    assert sum(len(message.headers) > 1 for message in found) > PAGES * 2 // 3
