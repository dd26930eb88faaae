from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from streamer.index.stored_lookup import SharedLock

SOON = 0.05
LONG = 20.0


def test_several_threads_share_the_lock_at_once() -> None:
    lock, meeting = SharedLock(), threading.Barrier(3, timeout=LONG)

    def share() -> int:
        with lock.shared():
            return meeting.wait()

    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(lambda _: share(), range(3))) == [0, 1, 2]


def test_who_has_it_alone_waits_for_those_that_share_it_and_keeps_others_out() -> None:
    lock, seen = SharedLock(), list[str]()
    inside, leave = threading.Event(), threading.Event()

    def share(name: str) -> None:
        with lock.shared():
            inside.set()
            leave.wait(LONG)
            seen.append(name)

    def alone() -> None:
        with lock.alone():
            seen.append("alone")

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(share, "before")
        inside.wait(LONG)
        changing = pool.submit(alone)
        while not lock._waiting:  # noqa: SLF001 - there is no other sign that it waits
            changing.done()
        late = pool.submit(share, "after")
        assert not threading.Event().wait(SOON)
        assert seen == []
        leave.set()
        for done in (first, changing, late):
            done.result(LONG)
    assert seen == ["before", "alone", "after"]


def test_an_error_inside_lets_go_of_the_lock() -> None:
    lock = SharedLock()
    for hold in (lock.shared, lock.alone, lock.shared):
        with pytest.raises(ZeroDivisionError), hold():
            divmod(1, 0)
    with lock.alone():
        assert lock._sharing == 0  # noqa: SLF001
