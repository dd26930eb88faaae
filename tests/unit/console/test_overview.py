"""The overview: its figures, charts, and the line that says how the crawl is."""

import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from streamer import Deduplicator
from streamer.console.answers import ConsoleData
from streamer.console.fold import FoldState, PartitionLag
from streamer.console.index import IndexReader
from streamer.console.overview import (
    LETTERS_MIN,
    CrawlState,
    HistoryBar,
    OverviewQuery,
    crawl_state,
    overview,
)
from streamer.model import DeadLetter, Verdict
from tests.helpers.verdict_lines import duplicate, letter, place, unique, url_of
from tests.unit.console.conftest import folded
from tests.unit.console.test_server import ask
from tests.unit.run.test_page_check import KEPT


def test_the_overview_counts_all_and_warns_of_a_large_cluster(data: ConsoleData) -> None:
    found = overview(data, OverviewQuery())
    assert (found.pages, found.unique, found.duplicates, found.letters) == (19, 3, 16, 5)
    assert [(row.url, row.duplicates) for row in found.clusters] == [
        (url_of(0), 15),
        (url_of(1), 1),
    ]
    assert found.folded
    (warning,) = found.state.warnings
    assert warning.startswith("One cluster holds 84% of all pages (16 pages)")
    assert url_of(0) in warning


def test_an_empty_crawl_has_an_overview(data: ConsoleData) -> None:
    data.view.make_again().close()
    found = overview(data, OverviewQuery())
    assert (found.pages, found.clusters, found.state.warnings) == (0, [], [])


def test_verdicts_that_are_not_shown_are_warned_of(tmp_path: Path) -> None:
    with folded(tmp_path, unique(0), unique(0, "https://else.example/")) as data:
        notices = ("A file of the folder is skipped.",)
        notice, warning = overview(replace(data, notices=notices), OverviewQuery()).state.warnings
        assert (notice,) == notices
        assert "v.jsonl:2: this verdict cannot be read, as its page has had another" in warning


def test_an_index_that_is_gone_is_a_warning(tmp_path: Path, data: ConsoleData) -> None:
    folder = tmp_path / "index"
    with Deduplicator(folder) as dedup:
        list(dedup.add(KEPT[:2]))
    data = replace(data, index=IndexReader(folder))
    shutil.rmtree(folder)
    found = overview(data, OverviewQuery())
    assert (found.index, found.pages) == (None, 19)
    assert found.state.warnings[0].startswith("The index cannot be read now. ")


@pytest.mark.parametrize(("pages", "step"), [(10, 1000), (61_001, 2000)], ids=["few", "many"])
def test_verdicts_of_files_are_counted_in_order(tmp_path: Path, pages: int, step: int) -> None:
    lines = [unique(0), *(duplicate(n, of=0) for n in range(1, pages))]
    with folded(tmp_path, *lines) as data:
        history = overview(data, OverviewQuery()).history
    assert (history.unit, history.step) == ("pages", step)
    assert history.bars[0] == HistoryBar("page 1", 1, min(pages, step) - 1, 0, 0)
    assert sum(bar.unique + bar.similar + bar.equal for bar in history.bars) == pages
    assert len(history.bars) == -(-pages // step)


def bars_of(data: ConsoleData, **query: int) -> tuple[int, list[str]]:
    history = overview(data, OverviewQuery(**query)).history
    return history.slots, [bar.start for bar in history.bars]


def test_a_range_of_the_verdicts_is_shown(tmp_path: Path) -> None:
    lines = [unique(0), *(duplicate(n, of=0) for n in range(1, 62_001))]
    with folded(tmp_path, *lines) as data:
        assert bars_of(data)[0] == 2
        assert bars_of(data, newest=2) == (1, ["page 61,001", "page 62,001"])
        assert bars_of(data, first=3, last=4) == (1, ["page 3,001", "page 4,001"])
        assert bars_of(data, first=62, last=999) == (1, ["page 62,001"])
        assert bars_of(data, first=999) == (1, ["page 62,001"])
        assert bars_of(data, newest=999) == bars_of(data)
        page = ask(data, "/overview").text
        assert 'href="/overview?first=2&amp;last=3" aria-label="Only from page 2,001 on"' in page
        assert 'href="/overview?newest=10">last 10,000</a>' in page
        part = ask(data, "/overview?first=3&last=4").text
        assert "page 5,001: " not in part
        assert "<span>each bar of 1,000 pages</span>" in part
        assert 'data-source="/overview/live?first=3&amp;last=4"' in part


def state_of(data: ConsoleData) -> CrawlState:
    with data.read() as view:
        return crawl_state(data, view)


def test_a_crawl_without_faults_is_well_and_has_the_name_of_its_pages(tmp_path: Path) -> None:
    with folded(tmp_path, unique(0), duplicate(1, of=0)) as data:
        state = state_of(data)
        named = state_of(replace(data, name="news"))
    said = "2 pages are judged, 1 of them are unique."
    assert state == CrawlState("pages.jsonl", "well", said, [])
    assert named.name == "news"


def test_a_crawl_of_many_files_has_the_name_of_the_first(tmp_path: Path) -> None:
    lines = [
        msgspec.structs.replace(unique(n), page=place(n, f"/data/crawl/{n}.warc")) for n in range(3)
    ]
    with folded(tmp_path, *lines) as data:
        assert state_of(data).name == "crawl/0.warc and 2 more"


def test_what_keeps_the_fold_comes_before_all_else(data: ConsoleData) -> None:
    state = state_of(replace(data, fold=lambda: FoldState(trouble="The brokers are away.")))
    assert (state.level, state.says) == ("broken", "The brokers are away.")
    assert [warning[:11] for warning in state.warnings] == ["The brokers", "One cluster"]


def test_while_verdicts_are_read_their_warnings_wait(data: ConsoleData) -> None:
    state = state_of(replace(data, fold=FoldState))
    assert state.level == "reading"
    assert state.says.startswith("Reading the verdicts: 19 so far.")
    assert len(state.warnings) == 1
    done = state_of(data)
    assert (done.level, done.says) == ("look", done.warnings[0])


def test_a_crawl_that_has_not_begun_waits_for_its_run(tmp_path: Path) -> None:
    with folded(tmp_path) as data:
        state = state_of(data)
    assert (state.name, state.level) == ("no pages yet", "reading")
    assert state.says.startswith("No page has been judged yet.")


@pytest.mark.parametrize(("letters", "level"), [(LETTERS_MIN - 1, "well"), (LETTERS_MIN, "look")])
def test_many_dead_letters_are_said_with_a_remedy(tmp_path: Path, letters: int, level: str) -> None:
    lines: list[Verdict | DeadLetter] = [unique(0), *(letter(n + 1) for n in range(letters))]
    with folded(tmp_path, *lines) as data:
        state = state_of(data)
    assert state.level == level
    said = "100 of 101 records are dead letters, most of them missing_url. Check --fields."
    assert (state.says == said) == (level == "look")


@pytest.mark.parametrize(("rate", "level"), [(0.0, "look"), (5.0, "well"), (None, "well")])
def test_messages_without_a_worker_are_said(tmp_path: Path, rate: float | None, level: str) -> None:
    lags = [PartitionLag(0, 2000, 1234), PartitionLag(1, 10, None)]
    with folded(tmp_path, unique(0)) as data:
        fold = FoldState(is_done=True, rate=rate, lags=lags)
        state = state_of(replace(data, fold=lambda: fold))
    assert state.level == level
    assert state.says.startswith("1,234 messages are not signed") == (level == "look")
