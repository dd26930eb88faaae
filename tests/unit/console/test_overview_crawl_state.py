from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from streamer.console.answers import ConsoleData
from streamer.console.fold import FoldState, PartitionLag
from streamer.console.overview import LETTERS_MIN, CrawlState, crawl_state
from streamer.model import DeadLetter, Verdict
from tests.helpers.verdict_lines import duplicate, letter, place, unique
from tests.unit.console.conftest import folded


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
