import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamer import Deduplicator, Verdict
from streamer.console.index import IndexReader
from streamer.console.view import QueryTooLong
from streamer.errors import InputError, StreamerError
from streamer.run.page_check import PageChecker
from tests.helpers.added import added, message_of
from tests.helpers.commands import run
from tests.helpers.wait import wait_until
from tests.unit.console.conftest import texts_of
from tests.unit.run.test_page_check import KEPT, page
from tests.unit.test_deduplicator import text_of

PAGES = [*KEPT[:5], page(10, 0), page(11, 1, text_of(99, 5))]


@pytest.fixture
def crawl(tmp_path: Path) -> tuple[Path, list[Verdict]]:
    """Return the folder of an index, and its verdicts."""
    folder = tmp_path / "index"
    with Deduplicator(folder) as dedup:
        return folder, list(added(dedup, PAGES))


@pytest.fixture
def index(crawl: tuple[Path, list[Verdict]]) -> Iterator[IndexReader]:
    index = IndexReader(crawl[0])
    yield index
    index.close()


def test_facts_are_of_the_last_flush(crawl: tuple[Path, list[Verdict]], index: IndexReader) -> None:
    facts = index.facts()
    assert (facts.kept_pages, facts.threshold) == (5, 0.8)
    assert facts.fingerprint == crawl[1][0].index
    assert facts.disk_bytes == sum(file.stat().st_size for file in (crawl[0] / "store").iterdir())
    assert datetime.now(UTC) - datetime.fromisoformat(facts.flushed) < timedelta(hours=1)
    with Deduplicator(crawl[0]) as dedup:
        list(dedup.add(KEPT[5:7]))
    assert index.facts().kept_pages == 7


def test_of_the_indexes_of_partitions_the_one_with_the_nearest_page_answers(tmp_path: Path) -> None:
    key, halves = tmp_path / "key", (KEPT[:3], KEPT[3:7])
    key.write_text("5a" * 32)
    for number, pages in enumerate(halves):
        with Deduplicator(tmp_path / f"workers/shard-{number}", key_file=key) as dedup:
            last = list(added(dedup, pages))[-1]  # which the other one, of partition 0, has not
    index = IndexReader(tmp_path / "workers", key_file=key)
    try:
        assert index.facts().kept_pages == 7
        for pages in halves:
            found = index.check(message_of(pages[0]))
            assert (found.representative and found.representative.url) == pages[0]["url"]
        with pytest.raises(InputError, match="no longer keeps the page at added:3"):
            index.explain(last, 60)
    finally:
        index.close()


def test_a_page_is_explained(crawl: tuple[Path, list[Verdict]], index: IndexReader) -> None:
    kept, copy, near = crawl[1][0], crawl[1][5], crawl[1][6]
    found = index.explain(kept, 60)
    assert found.why.startswith("No kept page shares a key")
    assert found.similarity is not None
    assert found.similarity < 0.8
    assert index.explain(copy, 60).why.startswith("The page has the words")
    said = index.explain(near, 60)
    assert (said.nearest_url, said.similarity) == (KEPT[1]["url"], near.similarity)
    assert said.margin == round((near.similarity or 0) - 0.8, 4)
    assert said.text == []


def test_an_explanation_ends_in_time(crawl: tuple[Path, list[Verdict]], index: IndexReader) -> None:
    with pytest.raises(QueryTooLong):
        index.explain(crawl[1][0], -1)
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(QueryTooLong):
        index.explain(crawl[1][0], 60, stopped)


def test_a_foreign_one_is_refused(crawl: tuple[Path, list[Verdict]], index: IndexReader) -> None:
    other = msgspec.structs.replace(crawl[1][0], index="0123456789abcdef")
    with pytest.raises(StreamerError, match="index with other settings"):
        index.explain(other, 60)


@pytest.mark.parametrize("shows_text", [True, False])
def test_the_text_of_a_page_is_shown_where_it_may_be(tmp_path: Path, shows_text: bool) -> None:
    lines: list[dict[str, Any]] = [
        {"url": "https://a.example/", "body": f"<p>one</p>\n\n <p>{text_of(1)}"},
        {"url": "https://b.example/", "body": text_of(2)},
    ]
    pages = tmp_path / "crawl.jsonl"
    texts = texts_of(pages, *lines)
    folder, verdicts = tmp_path / "index", tmp_path / "v.jsonl"
    run("replay", pages, "--verdicts", verdicts, "--index", folder)
    judged = msgspec.json.decode(verdicts.read_bytes().splitlines()[0], type=Verdict)
    found = IndexReader(folder, texts=texts, shows_text=shows_text).explain(judged, 60)
    assert "".join(part.text for part in found.text).startswith("one\nw") == shows_text
    assert found.why.startswith("No kept page shares a key")


def test_a_check_is_answered_by_the_flush_before_while_a_newer_one_is_opened(
    crawl: tuple[Path, list[Verdict]], index: IndexReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    message, opened = message_of(KEPT[7]), threading.Event()
    assert not index.check(message).is_duplicate
    opening = PageChecker.__init__

    def open_later(*given: Any, **named: Any) -> None:
        assert opened.wait(60)
        opening(*given, **named)

    monkeypatch.setattr(PageChecker, "__init__", open_later)
    with Deduplicator(crawl[0]) as dedup:
        list(dedup.add(KEPT[7:8]))
    assert not index.check(message).is_duplicate
    opened.set()
    wait_until(lambda: index.check(message).is_duplicate)


def test_an_index_that_cannot_be_opened_again_is_reported(
    crawl: tuple[Path, list[Verdict]], index: IndexReader
) -> None:
    message = message_of(KEPT[7])
    index.check(message)
    with Deduplicator(crawl[0]) as dedup:
        list(dedup.add(KEPT[7:8]))
    (crawl[0] / "secret.key").unlink()

    def is_refused() -> bool:
        try:
            index.check(message)
        except StreamerError:
            return True
        return False

    wait_until(is_refused)
