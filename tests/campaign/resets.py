"""Topics deleted and made again around an index, lost logs, and stops without brokers.

After each round `streamer verify` checks the index: it finds each page judged once, and right; or,
where a worker must refuse to go on, it refuses the index too.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

from aiokafka.errors import KafkaError

from streamer.errors import StreamerError
from streamer.kafka.topics import Names
from streamer.run.warm import warm_kernels
from tests.campaign.campaign import Campaign, Outcome
from tests.helpers.broker import (
    broker,
    delete_topic,
    free_port,
    make_topic,
    running_broker,
    send,
    verdicts_of,
)
from tests.helpers.fleet import Fleet, fleet
from tests.helpers.wait import wait_until

REFUSED = 3  # the exit code of a worker whose index and topics do not belong together
UNREACHABLE = 1
SHARDS = 2
MORE = 10  # times the pages come again, for a stop in the middle of the work
STOP_SECONDS_MAX = 60.0  # 30 s are promised, on a machine that nothing else uses
WORDS = "the quick brown fox jumps over a lazy dog while animals of the farm look on and wonder"


def run(rounds: int, seed: int, folder: Path) -> Outcome:
    """Reset something in each round, with an index of its own, over one broker."""
    warm_kernels()
    port, home = free_port(), folder / "broker"
    kinds: dict[str, Callable[[Fleet, Random], None]] = {
        "groups without logs": _groups_without_logs,
        "logs lost": _log_lost,
        "stops without brokers": partial(_stop_without_brokers, home=home),
        "topics of pages made again": _pages_made_again,
    }
    done, violations, pauses = Counter[str](), [], [0.0]
    with running_broker(home, port) as brokers:
        for number in range(rounds):
            kind = [*kinds][number % len(kinds)]
            names = Names(f"index-{number}", f"pages-{number}")
            with fleet(folder / f"workers-{number}", brokers, names, SHARDS) as workers:
                try:
                    kinds[kind](workers, Random(f"{seed}/{number}"))
                except AssertionError as error:
                    violations.append(f"round {number}, seed {seed}: {kind}: {error}")
                pauses.append(workers.worst_pause)
            done[kind] += 1
    shutil.rmtree(home, ignore_errors=True)
    return Outcome(rounds, violations, round(max(pauses), 1), {**done})


def _lines(draw: Random) -> list[bytes]:
    """Return pages; each tenth one, roughly, has a text of its own."""
    count = draw.randrange(100, 250)
    return [
        json.dumps(
            {
                "url": f"http://a.example/{number}",
                "body": " ".join(f"{word}{number % (count // 10)}" for word in WORDS.split()),
            }
        ).encode()
        for number in range(count)
    ]


def _judge(workers: Fleet, lines: Sequence[bytes]) -> None:
    """Make the topic of pages, and have one worker judge the lines."""
    make_topic(workers.brokers, workers.names.pages)
    _send(workers, lines)
    workers.start("all", "--index", workers.folder / "index")
    workers.wait_until_settled()


def _send(workers: Fleet, lines: Sequence[bytes]) -> None:
    send(workers.brokers, workers.names.pages, [(None, line) for line in lines])


def _verdicts(workers: Fleet) -> int:
    """Return how many verdicts the index has given; none where their topic is not there yet."""
    try:
        return len(verdicts_of(workers.brokers, workers.names))
    except (StreamerError, KafkaError):
        return 0


def _verify(workers: Fleet) -> None:
    checked = workers.verify("--settled")
    assert checked.returncode == 0, (checked.stdout, checked.stderr, workers.tails())


def _groups_without_logs(workers: Fleet, draw: Random) -> None:
    """Delete an index's folder and topics, but not its groups: all pages are judged again."""
    _judge(workers, _lines(draw))
    before = _verdicts(workers)
    assert workers.kill("all", signal.SIGTERM) == 0, workers.log("all")
    shutil.rmtree(workers.folder / "index")
    names = workers.names
    for topic in (*map(names.log, range(SHARDS)), names.verdicts, names.gauge):
        delete_topic(workers.brokers, topic)
    workers.start("all")
    # The groups have committed everything, so the work seems done until the worker goes back.
    wait_until(lambda: _verdicts(workers) >= before)
    workers.wait_until_settled()
    _verify(workers)
    after = _verdicts(workers)
    assert after == before, (after, before, workers.tails())
    assert "offset_ahead_of_index" in _said(workers, "all")


def _log_lost(workers: Fleet, draw: Random) -> None:
    """Lose one shard's log and folder: every start is refused, and `verify` refuses too."""
    shard = draw.randrange(SHARDS)
    _judge(workers, _lines(draw))
    assert workers.kill("all", signal.SIGTERM) == 0, workers.log("all")
    shutil.rmtree(workers.folder / "index" / f"shard-{shard}")
    log, other = workers.names.log(shard), workers.names.log(1 - shard)
    delete_topic(workers.brokers, log)
    for _ in range(2):  # the second one finds the topic that the first one made
        code = workers.start("all").wait(timeout=120)
        assert code == REFUSED, (code, workers.tails())
    assert f"The log {log} is empty, but {other} has records" in _said(workers, "all")
    checked = workers.verify("--settled")
    assert checked.returncode, checked.stdout


def _pages_made_again(workers: Fleet, draw: Random) -> None:
    """Make the topic of pages again under a running worker: it ends, and a new index judges all.

    The new topic ends behind the offset that was reached in the old one, so that no offset is out
    of range.
    """
    lines = _lines(draw)
    _judge(workers, lines)
    delete_topic(workers.brokers, workers.names.pages)
    make_topic(workers.brokers, workers.names.pages)
    again = [*lines, *lines]
    _send(workers, again)
    code = _exit_code(workers.running["all"], workers)
    assert code == REFUSED, (code, workers.tails())
    said = _said(workers, "all")
    assert f"The topic {workers.names.pages} was deleted and made again" in said, said
    names = Names(f"{workers.names.index}-new", workers.names.pages)
    other = replace(workers, names=names, running={})
    try:
        other.start("new", "--index", workers.folder / "new-index")
        other.wait_until_settled()
        _verify(other)
        assert _verdicts(other) == len(again)
    finally:
        other.close()


def _stop_without_brokers(workers: Fleet, draw: Random, home: Path) -> None:
    """Kill the broker in the middle of the work, and stop the worker; both go on together later."""
    lines = _lines(draw)
    _judge(workers, lines)
    _send(workers, lines * MORE)
    time.sleep(draw.uniform(0.0, 2.0))
    broker("kill", home)
    try:
        time.sleep(draw.choice((0.0, 3.0, 15.0)))
        away = "brokers_unreachable" in _said(workers, "all")
        began = time.monotonic()
        code = workers.kill("all", signal.SIGTERM)
        workers.worst_pause = time.monotonic() - began
    finally:
        broker("start", home, int(workers.brokers.rpartition(":")[2]))
    assert code in ({UNREACHABLE} if away else {0, UNREACHABLE}), (code, workers.tails())
    assert workers.worst_pause < STOP_SECONDS_MAX, (workers.worst_pause, workers.tails())
    workers.start("all")
    workers.wait_until_settled(300)
    _verify(workers)
    assert _verdicts(workers) >= (1 + MORE) * len(lines)


def _exit_code(process: subprocess.Popen[bytes], workers: Fleet) -> int:
    """Return the exit code of a worker that is to end by itself, within three minutes."""
    try:
        return process.wait(timeout=180)
    except subprocess.TimeoutExpired as error:
        raise AssertionError(("the worker goes on", workers.tails())) from error


def _said(workers: Fleet, name: str) -> str:
    """Return the log of the worker that runs, or ran last, under a name, in one line."""
    return " ".join(workers.log(name)[workers.marks[name] :].split())


CAMPAIGN = Campaign(
    "resets",
    "The topics of an index are lost and its groups are not, one log is lost, the topic of pages is"
    " made again under a running worker, or a worker is stopped while its broker is down. All pages"
    " are judged, or the worker refuses and says why; a stop ends within half a minute.",
    rounds=40,
    rounds_in_short=4,
    rounds_in_ci=4,
    run=run,
)
