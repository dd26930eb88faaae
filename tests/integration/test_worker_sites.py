"""`streamer worker --site-memory`: what sites repeat is learned in the order of each partition."""

import json
import random
import signal
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from streamer.kafka.topics import Names
from tests.helpers.broker import Sent, make_topic, messages_of
from tests.helpers.fleet import fleet
from tests.integration.chaos import kills
from tests.integration.test_replay_topic import Place, send
from tests.integration.test_sites import crawl

OPTIONS = ("--preset", "balanced", "--site-memory", "1MiB")
SIGNERS = "sign-0", "sign-1"
PAGES, EARLY = 60, 25  # of a partition, in all and before a stop: the long articles are among those
LATE = 10  # come after a kill


def parts(partitions: int) -> list[list[Sent]]:
    """Return pages of two sites, the same for each partition, except for their hosts."""
    return [
        [
            (None, json.dumps({"url": url.replace("//", f"//{part}"), "body": body}).encode())
            for url, body in crawl(PAGES)
        ]
        for part in range(partitions)
    ]


@pytest.mark.parametrize(
    ("partitions", "per_partition"), [(3, False), (1, True), (6, True)], ids=["one", "each", "six"]
)
def test_verdicts_are_those_of_a_replay_though_signers_are_killed_and_change(
    brokers: str, names: Names, tmp_path: Path, partitions: int, *, per_partition: bool
) -> None:
    names, own = replace(names, per_partition=per_partition), ["--per-partition"] * per_partition
    place, sent = Place(tmp_path, brokers), parts(partitions)
    with fleet(tmp_path / "run", brokers, names, options=(*OPTIONS, *own)) as workers:
        make_topic(brokers, names.pages, partitions)
        send(brokers, names.pages, [part[:EARLY] for part in sent])
        for name in SIGNERS:
            workers.start(name, "--role", "sign")
        workers.start("index", "--role", "index", "--index", workers.folder / "index")
        workers.wait_until_settled()
        for ending, first, end in ((signal.SIGTERM, EARLY, -LATE), (signal.SIGKILL, -LATE, None)):
            for name in SIGNERS:
                workers.kill(name, ending)
            send(brokers, names.pages, [part[first:end] for part in sent])
            for name in SIGNERS:
                workers.start(name)
            kills(workers, 2, random.Random(partitions))
            workers.wait_until_settled()
        workers.see_that_all_holds()
        learned = [
            entry
            for name in SIGNERS
            for entry in map(json.loads, workers.log(name).splitlines())
            if entry["event"] == "sites_learned"
        ]
        assert any(entry["stored"] for entry in learned), "from its topic"
        assert any(entry["offset"] > entry["stored"] for entry in learned), "and from pages"
    reported = {
        partition: [*dict.fromkeys(each.value for each in found)]
        for partition, found in messages_of(brokers, names.verdicts).items()
    }
    order = "--order-of", names.index
    runs: list[tuple[object, ...]] = [order]
    if per_partition:
        runs = [("--partitions", p, *more) for p in reported for more in ((), order)]
    for number, chosen in enumerate(runs):
        out = f"v{number}.jsonl"
        assert place.replay(names.pages, *chosen, *OPTIONS, out=out) == 0
        replayed = defaultdict(list)
        for line in place.lines(out):
            replayed[json.loads(line)["page"]["partition"]].append(line)
        assert replayed == {partition: reported[partition] for partition in replayed} != {}
