"""Topics that are deleted and made again around an index, and logs that are lost; then verified.

Each function takes a fleet that has not started, whose topic of pages does not exist, and lines
of pages. The tests run each of them once with few pages, a campaign with many.

Raises everywhere:
    AssertionError: a worker judged what it must not, or did not judge what it must.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import replace

from streamer.kafka.topics import Names
from tests.helpers.broker import delete_topic, make_topic, send, verdicts_of
from tests.helpers.fleet import Fleet

REFUSED = 3  # the exit code of a worker whose index and topics do not belong together


def judge(workers: Fleet, lines: Sequence[bytes], partitions: int = 1) -> None:
    """Make the topic of pages, and let one worker judge the lines, in partition 0."""
    make_topic(workers.brokers, workers.names.pages, partitions)
    send(workers.brokers, workers.names.pages, [(None, line) for line in lines])
    workers.start("all", "--index", workers.folder / "index")
    workers.wait_until_settled()
    verify(workers)


def verify(workers: Fleet) -> None:
    """See that `streamer verify` finds each page judged once, and right."""
    checked = workers.verify("--settled")
    assert checked.returncode == 0, (checked.stdout, checked.stderr, workers.tails())


def groups_without_logs(workers: Fleet, lines: Sequence[bytes]) -> None:
    """Delete an index's folder and topics, but not its groups: all pages are judged again."""
    judge(workers, lines)
    before = len(verdicts_of(workers.brokers, workers.names))
    assert workers.kill("all", signal.SIGTERM) == 0, workers.log("all")
    shutil.rmtree(workers.folder / "index")
    for topic in topics_of(workers):
        delete_topic(workers.brokers, topic)
    workers.start("all")
    workers.wait_until_settled()
    verify(workers)
    after = len(verdicts_of(workers.brokers, workers.names))
    assert after == before, (after, before, workers.tails())


def topics_of(workers: Fleet) -> list[str]:
    """Return the topics that hold an index; that of dead letters belongs to the pages."""
    names = workers.names
    return [*map(names.log, range(workers.shards)), names.verdicts, names.gauge]


def one_log_lost(workers: Fleet, lines: Sequence[bytes], shard: int) -> str:
    """Lose one shard's log and folder: every start is refused. Return what the worker says."""
    judge(workers, lines)
    assert workers.kill("all", signal.SIGTERM) == 0, workers.log("all")
    shutil.rmtree(workers.folder / "index" / f"shard-{shard}")
    delete_topic(workers.brokers, workers.names.log(shard))
    for _ in range(2):  # the second one finds the topic that the first one made
        code = workers.start("all").wait(timeout=120)
        assert code == REFUSED, (code, workers.tails())
    return said(workers, "all")


def pages_made_again(workers: Fleet, lines: Sequence[bytes]) -> str:
    """Make the topic of pages again under a running worker: it ends, and a new index judges all.

    Return what the worker says. The new topic ends behind the offset that was reached in the old
    one, so that no offset is out of range.
    """
    judge(workers, lines)
    delete_topic(workers.brokers, workers.names.pages)
    make_topic(workers.brokers, workers.names.pages)
    again = [(None, line) for line in (*lines, *lines)]
    send(workers.brokers, workers.names.pages, again)
    code = exit_code_of(workers.running["all"], workers)
    assert code == REFUSED, (code, workers.tails())
    said_last = said(workers, "all")
    other = replace(
        workers, names=Names(f"{workers.names.index}-new", workers.names.pages), running={}
    )
    try:
        other.start("new", "--index", workers.folder / "new-index")
        other.wait_until_settled()
        verify(other)
        assert len(verdicts_of(other.brokers, other.names)) == len(again)
    finally:
        other.close()
    return said_last


def exit_code_of(process: subprocess.Popen[bytes], workers: Fleet) -> int:
    """Return the exit code of a worker that is to end by itself, within three minutes."""
    try:
        return process.wait(timeout=180)
    except subprocess.TimeoutExpired as error:
        raise AssertionError(("the worker goes on", workers.tails())) from error


def said(workers: Fleet, name: str) -> str:
    """Return the log of the worker that runs, or ran last, under a name, in one line."""
    return " ".join(workers.log(name)[workers.marks[name] :].split())
