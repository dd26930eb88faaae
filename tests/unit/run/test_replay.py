"""The replay: all records of an input go through an engine into output files, whatever ends it."""

from contextlib import ExitStack, closing
from pathlib import Path

import msgspec
import pytest

from streamer.assembly import open_engine, open_index, page_parser
from streamer.config import load_settings
from streamer.errors import SettingsError
from streamer.pages.files import open_sources
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
DECISIONS = [(0, "unique"), (1, "duplicate"), (2, "unique")]


class Folder:
    """Files of pages, an index and outputs in a folder, which replays go over again and again."""

    def __init__(self, path: Path) -> None:
        self.pages, self.letters, self._path = path / "pages.jsonl", path / "dead.jsonl", path
        self.write(LINES)

    def write(self, lines: list[dict[str, str]]) -> None:
        self.pages.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    def run(self, *more: Path, interrupted: bool = False) -> tuple[Outcome, list[tuple[int, str]]]:
        """Replay the pages, and files after them; return the outcome, and what verdicts say."""
        settings, index = load_settings(head_pages=2), self._path / "index"
        parser = page_parser(settings)
        with ExitStack() as stack:
            folder = stack.enter_context(open_index(index, settings))
            catalogue = open_catalogue(folder.store, folder.path)
            references = ReferenceIndexes((), folder.fingerprint)
            opened = open_engine(folder, catalogue, settings, parser, references)
            replay = Replay(stack.enter_context(opened), 2)
            if interrupted:
                replay.interrupt()
            outputs = []
            for name in (str(self._path / "v.jsonl"), str(self.letters)):
                output = OutputFile.open(name, catalogue.known_length(name), index=index)
                outputs.append(stack.enter_context(closing(output)))
            sources = open_sources([str(path) for path in (self.pages, *more)]).sources
            outcome = replay.run(FileInput(sources), outputs[0], outputs[1])
        lines = (self._path / "v.jsonl").read_bytes().splitlines()
        found = map(msgspec.json.decode, lines)
        return outcome, [(each["page"]["offset"], each["verdict"]) for each in found]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_each_record_has_a_verdict_or_a_dead_letter_and_is_counted(folder: Folder) -> None:
    outcome, decisions = folder.run()
    assert decisions == DECISIONS
    letter = msgspec.json.decode(folder.letters.read_bytes())
    assert (letter["page"]["offset"], letter["code"]) == (3, "missing_body")
    totals = outcome.totals
    assert (totals.records, totals.unique, totals.dead) == (4, 2, {"missing_body": 1})
    assert outcome.examples["missing_body"].startswith("record 3 of ")
    assert not outcome.interrupted


def test_a_run_over_judged_records_adds_nothing_and_one_over_more_goes_on(folder: Folder) -> None:
    folder.run()
    outcome, decisions = folder.run()
    assert (outcome.totals.records, decisions) == (0, DECISIONS)
    folder.write([*LINES, LINES[2]])
    outcome, decisions = folder.run()
    assert (outcome.totals.records, decisions[3:]) == (1, [(4, "duplicate")])


def test_an_interrupted_run_says_so_and_the_next_one_goes_on(folder: Folder) -> None:
    outcome, decisions = folder.run(interrupted=True)
    assert (outcome.interrupted, outcome.totals.records, decisions) == (True, 0, [])
    assert folder.run()[1] == DECISIONS


def test_a_source_whose_first_records_all_fail_is_not_begun(folder: Folder) -> None:
    folder.write([LINES[3]] * 12)
    with pytest.raises(SettingsError, match="missing_body"):
        folder.run()
    assert not folder.letters.read_bytes()


def test_the_small_file_that_has_lost_characters_is_named(folder: Folder, tmp_path: Path) -> None:
    for name, text in (("x", "p"), ("y", "\ufffd"), ("z", "q")):
        (tmp_path / f"{name}.html").write_text(f"<p>{text * 9} {TEXT}")
    outcome, decisions = folder.run(*(tmp_path / f"{name}.html" for name in "xyz"))
    assert len(decisions) == len(LINES[:3]) + 3
    assert [Path(name).name for name in outcome.report.lost_text] == ["y.html"]
