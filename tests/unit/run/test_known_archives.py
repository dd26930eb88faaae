"""Archives that an index has read places of are known again, whatever was flushed of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.errors import StoreMismatch
from streamer.pages.archives import Version
from streamer.run.known_archives import KnownArchives
from streamer.stored.store import Store

REMOTE, LOCAL = Version("s3://b/a.warc.gz", 100, "one"), Version("/b/a.warc.gz", 100, "one")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "store")
    yield store
    store.close()


def flush(known: KnownArchives, store: Store) -> None:
    for key, value in known.to_flush():
        store.put_note(key, value)


@pytest.mark.parametrize("flushes", [0, 1, 2])
def test_an_archive_that_has_changed_is_refused(store: Store, flushes: int) -> None:
    known = KnownArchives(store)
    known.note([REMOTE, LOCAL])
    for _ in range(flushes):
        flush(known, store)
    assert bool(known.to_flush()) is not bool(flushes)
    known.note([REMOTE._replace(query="other", tag="other")])
    known.note([REMOTE, LOCAL, LOCAL._replace(size=120), LOCAL._replace(size=121)])
    runs = [known, KnownArchives(store)] if flushes else [known]
    for other in (REMOTE._replace(size=101), REMOTE._replace(tag="two"), LOCAL._replace(tag="two")):
        for run in runs:
            with pytest.raises(StoreMismatch, match=f"{other.name} has changed since the index"):
                run.note([other])


@pytest.mark.parametrize("flushes", [0, 1, 2])
def test_the_sizes_of_one_that_grows_come_in_any_order(store: Store, flushes: int) -> None:
    run = KnownArchives(store)
    run.note([LOCAL])
    flush(run, store)
    for sizes in ([130, 110, 140, 120], [150, 140]):
        known = KnownArchives(store)
        before = LOCAL.size if sizes[0] == 130 else 140
        for size in sizes:
            known.note([LOCAL._replace(size=size)])
            for _ in range(flushes):
                flush(known, store)
        with pytest.raises(StoreMismatch, match=f"{before - 1} bytes, not {before}"):
            known.note([LOCAL._replace(size=before - 1)])
        flush(known, store)
