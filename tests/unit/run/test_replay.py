"""The replay: all records of an input go through an engine into output files, whatever ends it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec
import pytest

from streamer.assembly import open_engine, open_index, page_parser
from streamer.config import load_settings
from streamer.errors import SettingsError
from streamer.pages.files import Source
from streamer.run.catalogue import open_catalogue
from streamer.run.outputs import OutputFile
from streamer.run.reading import FileInput
from streamer.run.reference_indexes import ReferenceIndexes
from streamer.run.replay import Outcome, Replay

TEXT = "the ferry to the island leaves at noon on every day of the week but one "
LINES = [
    {"url": "http://a.example/", "body": TEXT * 3},
    {"url": "http://b.example/", "body": TEXT * 3},
    {"url": "http://c.example/", "body": "an entirely different text about other things at all"},
    {"url": "http://d.example/"},
]


class Folder:
    """A crawl, an index and outputs in a folder, which replays go over again and again."""

    def __init__(self, path: Path) -> None:
        self.pages, self.verdicts = path / "pages.jsonl", path / "v.jsonl"
        self.letters, self._path = path / "v.jsonl.dead.jsonl", path
        self.write(LINES)

    def write(self, lines: list[dict[str, str]]) -> None:
        self.pages.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    def run(
        self, *, keep_going: bool = False, before: Callable[[Replay], None] = lambda _job: None
    ) -> Outcome:
        """Run a replay; `before` gets it first."""
        settings, index = load_settings(head_pages=2), self._path / "index"
        with ExitStack() as stack:
            folder = stack.enter_context(open_index(index, settings))
            catalogue = open_catalogue(folder.store, folder.path)
            references = ReferenceIndexes((), folder.fingerprint)
            engine = stack.enter_context(
                open_engine(folder, catalogue, settings, page_parser(settings), references)
            )
            verdicts, letters = (
                stack.enter_context(
                    closing(
                        OutputFile.open(str(each), catalogue.known_length(str(each)), index=index)
                    )
                )
                for each in (self.verdicts, self.letters)
            )
            job = Replay(engine, 2, keep_going=keep_going)
            before(job)
            source = Source(str(self.pages), is_regular=True)
            return job.run(FileInput([source]), verdicts, letters)

    @property
    def said(self) -> list[tuple[int, str]]:
        """Return the record and the decision of each verdict, as written."""
        found = map(msgspec.json.decode, self.verdicts.read_bytes().splitlines())
        return [(each["page"]["offset"], each["verdict"]) for each in found]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_each_record_has_a_verdict_or_a_dead_letter_and_is_counted(folder: Folder) -> None:
    outcome = folder.run()
    assert folder.said == [(0, "unique"), (1, "duplicate"), (2, "unique")]
    letter = msgspec.json.decode(folder.letters.read_bytes())
    assert (letter["page"]["offset"], letter["code"]) == (3, "missing_body")
    totals = outcome.totals
    assert (totals.records, totals.unique, totals.dead) == (4, 2, {"missing_body": 1})
    assert outcome.examples["missing_body"].startswith("record 3 of ")
    assert not outcome.interrupted


def test_a_run_over_judged_records_adds_nothing_and_one_over_more_goes_on(folder: Folder) -> None:
    folder.run()
    before = folder.verdicts.read_bytes(), folder.letters.read_bytes()
    assert folder.run().totals.records == 0
    assert (folder.verdicts.read_bytes(), folder.letters.read_bytes()) == before
    folder.write([*LINES, LINES[2]])
    assert folder.run().totals.records == 1
    assert folder.said[-1] == (4, "duplicate")


def test_an_interrupted_run_says_so_and_the_next_one_goes_on(folder: Folder) -> None:
    outcome = folder.run(before=Replay.interrupt)
    assert (outcome.interrupted, outcome.totals.records, folder.said) == (True, 0, [])
    folder.run()
    assert folder.said == [(0, "unique"), (1, "duplicate"), (2, "unique")]


def test_a_source_whose_first_records_all_fail_is_not_begun(folder: Folder) -> None:
    folder.write([LINES[3]] * 12)
    with pytest.raises(SettingsError, match="missing_body"):
        folder.run()
    assert not folder.letters.exists() or not folder.letters.read_bytes()
    assert folder.run(keep_going=True).totals.dead == {"missing_body": 12}
