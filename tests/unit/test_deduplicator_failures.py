"""The face and failures: disks that refuse, other processes, items that cannot be added."""

import asyncio
import copy
import datetime as dt
import decimal
import os
import pickle
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streamer import AnyPage, Deduplicator, Rejected, Signer, StoreUnavailable, Verdict  # fmt: skip
from tests.helpers.added import added
from tests.unit.test_deduplicator import text_of


def pages(name: str, count: int) -> list[tuple[str, str]]:
    seed = 10_000 * ord(name[0])
    return [(f"https://{name}.example/{i}", text_of(seed + i, 60)) for i in range(count)]


# ---- the disk ------------------------------------------------------------------------------------


def refusals(dedup: Deduplicator) -> list[str]:
    """Return what each method says after a failure; all must raise."""
    said = []
    calls: list[Callable[[], object]] = [
        lambda: list(dedup.add(pages("more", 5))),
        lambda: dedup.check(("https://x.example/", "text")),
        lambda: dedup.nearest("text"),
        lambda: dedup.forget(host="a.example"),
        lambda: dedup.explain("https://a.example/0"),
        lambda: len(dedup),
        dedup.flush,
        dedup.close,
    ]
    for call in calls:
        with pytest.raises(StoreUnavailable) as caught:
            call()
        said.append(str(caught.value))
    return said


def test_after_a_failed_flush_each_call_raises_the_same_error(tmp_path: Path) -> None:
    index = tmp_path / "index"
    dedup = Deduplicator(index)
    list(dedup.add(pages("a", 30)))
    dedup.flush()
    list(dedup.add(pages("b", 30)))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(StoreUnavailable, match="add them again") as caught:
            dedup.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert set(refusals(dedup)) == {str(caught.value)}
    dedup.close()  # it has been released
    with Deduplicator(index) as dedup:
        assert len(dedup) == 30
        assert [each.is_duplicate for each in added(dedup, pages("b", 2))] == [False, False]
        assert all(each.is_duplicate for each in added(dedup, pages("a", 30)))


def test_a_first_flush_that_fails_removes_nothing(tmp_path: Path) -> None:
    index = tmp_path / "index"
    dedup = Deduplicator(index)
    list(dedup.add(pages("a", 3)))
    (index / "store").write_text("not a folder", encoding="utf-8")
    (index / "notes").write_text("of somebody", encoding="utf-8")
    with pytest.raises(StoreUnavailable):
        dedup.flush()
    key = (index / "secret.key").read_bytes()
    with pytest.raises(StoreUnavailable):
        dedup.close()
    assert (index / "secret.key").read_bytes() == key
    assert (index / "store").read_text(encoding="utf-8") == "not a folder"
    (index / "store").unlink()
    with Deduplicator(index) as dedup:
        list(dedup.add(pages("a", 3)))
    assert (index / "secret.key").read_bytes() == key


def test_an_interrupt_is_told_from_then_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dedup = Deduplicator(tmp_path / "index")
    list(dedup.add(pages("a", 3)))
    dedup.flush()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("streamer.index.batch.Batch.judge", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(dedup.add(pages("b", 3)))
    assert len(set(refusals(dedup))) == 1
    with Deduplicator(tmp_path / "index") as dedup:
        assert [each.page.offset for each in added(dedup, pages("b", 3))] == [3, 4, 5]


# ---- other processes -----------------------------------------------------------------------------

FORKED = """
import os, signal, sys
from streamer import Deduplicator
dedup = Deduplicator(*sys.argv[2:])
pages = [(f"https://a.example/{i}", f"some words of page {i} " * 9) for i in range(300)]
if sys.argv[1] != "unused":
    list(dedup.add(pages))
if sys.argv[1] == "flushed":
    dedup.flush()
child = os.fork()
if child == 0:
    signal.alarm(20)
    for call in (
        lambda: list(dedup.add(pages)), lambda: dedup.check(pages[0]), dedup.flush,
        lambda: dedup.nearest("text"), lambda: len(dedup), lambda: dedup.forget(host="a.example"),
        lambda: dedup.explain("https://a.example/1"),
    ):
        try:
            call()
            print("no error")
        except Exception as error:
            print(type(error).__name__, "process" in str(error))
    if sys.argv[1] == "flushed":  # closing another would wait for threads that are not here
        try:
            Deduplicator()
        except Exception as error:
            print(type(error).__name__, "forked from one that had opened an index" in str(error))
    dedup.close()
    sys.exit(7)
print("status", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
print(sum(result.is_duplicate for result in dedup.add(pages)))
dedup.close()
"""


@pytest.mark.parametrize(
    ("state", "has_folder"), [("unused", True), ("added", True), ("flushed", False)]
)
def test_a_forked_process_gets_an_error(tmp_path: Path, state: str, *, has_folder: bool) -> None:
    folder = [str(tmp_path / "index")] if has_folder else []
    done = subprocess.run(
        [sys.executable, "-c", FORKED, state, *folder], capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    *of_child, status, duplicates = done.stdout.splitlines()
    opens = ["StoreUnavailable True"] if state == "flushed" else []
    assert of_child == ["SettingsError True"] * 7 + opens
    assert status == "status 7"
    assert int(duplicates) == (0 if state == "unused" else 300)
    if has_folder:
        with Deduplicator(tmp_path / "index") as dedup:
            assert len(dedup) == 300


def test_an_index_can_be_opened_again_while_a_forked_process_lives(tmp_path: Path) -> None:
    dedup = Deduplicator(tmp_path / "index")
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        dedup.close()
        with Deduplicator(tmp_path / "index") as dedup:
            assert len(dedup) == 0
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("gone", ["", "secret.key"])
def test_nothing_is_written_where_it_is_gone(tmp_path: Path, gone: str, *, flushed: bool) -> None:
    dedup = Deduplicator(tmp_path / "index")
    list(dedup.add(pages("a", 20)))
    if flushed:
        dedup.flush()
        list(dedup.add(pages("b", 20)))
    path = tmp_path / "index" / gone
    path.unlink() if gone else shutil.rmtree(path)
    with pytest.raises(StoreUnavailable, match="was removed or replaced"):
        dedup.flush()
    assert len({*refusals(dedup)}) == 1
    assert not (tmp_path / "index" / gone).exists()


def test_it_is_neither_pickled_nor_copied() -> None:
    with Deduplicator() as dedup:
        for refused in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match=r"Deduplicator cannot be pickled .* one process"):
                refused(dedup)
            with pytest.raises(TypeError, match=r"Signer cannot be pickled .* in each process"):
                refused(Signer())


# ---- items ---------------------------------------------------------------------------------------


class Strange:
    """JSON has no form of it."""


UNREAD: list[object] = [
    np.float32(0.5), np.int64(7), np.bool_(True), np.str_("x"), np.zeros(3), Path("a"), Strange(),
    float("nan"), {1, 2}, dt.date(2026, 1, 1), decimal.Decimal("1.5"), b"\xff", 1 << 200,
    {(1, 2): 3}, np.datetime64("2026-01-01"),
]  # fmt: skip
CARRIED: list[tuple[object, object]] = [
    (np.float32(0.5), 0.5), (np.str_("x"), "x"), (np.int64(7), 7), (float("nan"), None),
    (dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC), "2026-01-02T03:04:05Z"),
    (np.array([1, 2]), [1, 2]), (Path("a/b"), "a/b"),
    (pd.Timestamp("2026-01-02 03:04:05", tz="UTC"), "2026-01-02T03:04:05+00:00"),
    (np.datetime64("2026-01-02T03:04:05", "ns"), "2026-01-02T03:04:05.000Z"),
    (pd.NaT, None), (np.datetime64("NaT"), None), (np.ma.masked, None), (np.longdouble(2), 2),
]  # fmt: skip


def page(**fields: object) -> dict[str, Any]:
    return {"url": "https://a.example/", "body": text_of(1), **fields}


def test_a_field_that_is_not_read_may_hold_anything_and_a_body_text_only() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    bodies = [None, float("nan"), 3, ["a", "b"], np.float64("nan")]
    with Deduplicator() as dedup:
        read = list(dedup.add(page(score=value, deep=deep) for value in UNREAD))
        refused = list(dedup.add(page(body=body) for body in bodies))
    assert [type(each) for each in read] == [Verdict] * len(UNREAD)
    assert [type(each) for each in refused] == [Rejected] * len(bodies)


def test_a_field_that_is_carried_has_the_value_of_a_row() -> None:
    with Deduplicator(carry=("score",)) as dedup:
        found = list(added(dedup, (page(score=value) for value, _ in CARRIED)))
    assert [each.carried["score"] for each in found] == [carried for _, carried in CARRIED]


# Items that cannot be added, and what is said of them.
BAD: dict[str, tuple[Any, str]] = {
    "object": (page(body=Strange()), "field 'body'"),
    "number": (7, "not int"),
    "three": (("https://a.example/", "b", "c"), "3 values"),
    "bytes": ({"url": "https://a.example/", "body_base64": b"aGVsbG8="}, "has bytes"),
    "url": ({"url": b"https://a.example/", "body": "text"}, "'url' has bytes"),
    "path": (("https://a.example/", Path("page.html")), "'body' has PosixPath"),
    "strided": (("https://a.example/", memoryview(b"some words")[::2]), "contiguous"),
}


def taken(dedup: Deduplicator, items: Iterable[AnyPage]) -> tuple[list[int], BaseException | None]:
    """Return the numbers of all results that come before an error, and the error."""
    seen = []
    try:
        for result in dedup.add(items):
            seen.append(result.page.offset)  # noqa: PERF401 - what came before the error counts
    except BaseException as error:  # noqa: BLE001 - whatever it is
        return seen, error
    return seen, None


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("place", [0, 1, 999, 1000, 1400])
def test_items_before_a_bad_one_are_judged_and_it_is_named(kind: str, place: int) -> None:
    items: list[AnyPage] = [*pages("a", 1500)]
    items[place], said = BAD[kind]
    with Deduplicator() as dedup:
        seen, error = taken(dedup, items)
        assert isinstance(error, TypeError)
        assert re.search(f"Item {place} cannot be added: .*{said}", str(error))
        assert seen == [*range(place)]
        assert len(dedup) == place
        assert [each.page.offset for each in dedup.add(items[:1] if place else [])] == (
            [place] if place else []
        )


@pytest.mark.parametrize("kind", [RuntimeError, asyncio.CancelledError])
def test_an_error_of_the_iterable_comes_last(tmp_path: Path, kind: type[BaseException]) -> None:
    def broken() -> Iterator[tuple[str, str]]:
        yield from pages("a", 1200)
        raise kind("the source broke")

    with Deduplicator(tmp_path / "index") as dedup:
        seen, error = taken(dedup, broken())
        assert seen == [*range(1200)]
        assert isinstance(error, kind)
        assert "instead of item 1200" in error.__notes__[0]
    with Deduplicator(tmp_path / "index") as dedup:
        assert len(dedup) == 1200


def test_bytes_in_a_mapped_body_are_no_text() -> None:
    fields = '{"url": "/u", "body": "/b/html"}'
    with Deduplicator(fields=fields) as dedup, pytest.raises(TypeError, match="'html' has bytes"):
        list(dedup.add([{"u": "https://a.example/", "b": {"html": b"<p>text"}}]))
