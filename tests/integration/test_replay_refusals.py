"""A command that is refused leaves everything as it was: no file more, none less, none changed."""

from pathlib import Path

import pytest

from streamer.run.index_folder import store_folder
from streamer.stored.store import Store
from tests.helpers.growing_index import everything
from tests.helpers.place import Place, page
from tests.integration.test_page_outputs import warc_record

NEW_OUTPUTS = ("--verdicts", "new/folder/v.jsonl", "--index", "new/index")
KNOWN = ("--verdicts", "v.jsonl", "--index", "index")
WITHOUT_INDEX = ("--verdicts", "new/v.jsonl")

REFUSALS = {
    "no such input": ("none.jsonl",),
    "an input of no known kind": ("notes.doc",),
    "a folder without pages": ("empty",),
    "a missing input after a good one": ("pages.jsonl", "none.jsonl"),
    "no input at all": (),
    "verdicts are the input": ("pages.jsonl", "--verdicts", "pages.jsonl"),
    "dead letters are the input": ("pages.jsonl", "--dead-letters", "pages.jsonl"),
    "dead letters are the verdicts": ("pages.jsonl", "--dead-letters", "./v", "--verdicts", "v"),
    "dead letters of another index": ("pages.jsonl", "--dead-letters", "foreign.jsonl"),
    "verdicts of another index": (
        "pages.jsonl", "--verdicts", "foreign.jsonl", "--dead-letters", "new/d",
    ),
    "verdicts at a URL": ("pages.jsonl", "--verdicts", "s3://bucket/v.jsonl"),
    "a URL with a password": ("https://user:word@127.0.0.1/pages.jsonl",),
    "verdicts in a missing folder": ("pages.jsonl", "--verdicts", "typo/v.jsonl"),
    "verdicts with an unknown ending": ("pages.jsonl", "--verdicts", "v.db"),
    "dead letters with the ending of a table": ("pages.jsonl", "--dead-letters", "d.csv"),
    "kept pages with an unknown ending": ("pages.jsonl", "--kept", "new/k.db"),
    "the summary is a file of somebody else": ("pages.jsonl", "--summary", "notes.txt"),
    "verdicts below a file": ("pages.jsonl", "--verdicts", "notes.txt/v.jsonl"),
    "dead letters below a file": ("pages.jsonl", "--dead-letters", "notes.txt/d.jsonl"),
    "dead letters are a folder": ("pages.jsonl", "--dead-letters", "empty"),
    "verdicts where none may write": ("pages.jsonl", "--verdicts", "/proc/v.jsonl"),
    "kept pages are the input": ("pages.jsonl", "--kept", "./pages.jsonl"),
    "kept pages are the verdicts": ("pages.jsonl", "--kept", "./v", "--verdicts", "v"),
    "kept pages are the duplicates": ("pages.jsonl", "--kept", "new/k", "--duplicates", "new/k"),
    "kept pages are dead letters": (
        "pages.jsonl", "--kept", "new/k", "--dead-letters", "new/../new/k",
    ),
    "kept pages of another index": (
        "pages.jsonl", "--kept", "foreign.jsonl", "--dead-letters", "new/d",
    ),
    "kept pages below a file": ("pages.jsonl", "--kept", "notes.txt/k.jsonl"),
    "kept pages are a folder": ("pages.jsonl", "--kept", "empty"),
    "kept pages of lines and archives": ("pages.jsonl", "page.warc", "--kept", "new/k"),
    "kept lines in an archive": ("pages.jsonl", "--kept", "new/k.warc.gz"),
    "kept records of an archive among lines": ("page.warc", "--duplicates", "new/k.jsonl"),
    "the summary is the kept pages": ("pages.jsonl", "--summary", "k", "--kept", "k"),
    "the summary in a missing folder": ("pages.jsonl", "--summary", "none/s.json"),
    "the summary is a folder": ("pages.jsonl", "--summary", "empty"),
    "the summary is the verdicts": ("pages.jsonl", "--summary", "same", "--verdicts", "same"),
    "the summary is an input": ("pages.jsonl", "--summary", "pages.jsonl"),
    "an unknown method": ("pages.jsonl", "--method", "magic"),
    "an unknown option of a method": (
        "pages.jsonl", "--method", "bottom_k", "--method-option", "x=1",
    ),
    "an unknown canonical option": ("pages.jsonl", "--canonical", "x=1"),
    "a threshold above 1": ("pages.jsonl", "--threshold", "1.5"),
    "no key file": ("pages.jsonl", "--key-file", "none"),
    "a key file that is none": ("pages.jsonl", "--key-file", "notes.txt"),
    "no settings file": ("pages.jsonl", "--config", "none.toml"),
    "an unknown preset": ("pages.jsonl", "--preset", "magic"),
    "a mapping that is none": ("pages.jsonl", "--fields", "{}"),
    "two mappings": ("pages.jsonl", "--fields", '{"body": "/body"}', "--preset", "page"),
    "a field to carry that is none": ("pages.jsonl", "--carry", "/~"),
    "options of a topic without one": ("pages.jsonl", "--partitions", "0"),
    "files and a topic": ("pages.jsonl", "--from-topic", "pages"),
    "no broker": ("--from-topic", "pages", "--brokers", "localhost:1"),
    "a share above 1": ("pages.jsonl", "--fail-on-dead-letters", "2"),
    "first records that all fail": ("odd.jsonl",),
}  # fmt: skip


@pytest.fixture
def place(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return a folder with pages, an index with verdicts, and what is in the way."""
    monkeypatch.setattr("streamer.kafka.reader.ANSWER_SECONDS", 0.0)
    monkeypatch.chdir(tmp_path)
    assert place.streamer("replay", place.write("old.jsonl", page(1)), *KNOWN) == 0
    place.write("pages.jsonl", page(1), page(2))
    place.write("odd.jsonl", *[b'{"uri": "http://a.example/"}\n'] * 20)
    place.write("foreign.jsonl", b"of another index\n")
    place.write("notes.txt", b"notes\n").chmod(0o600)
    place.write("notes.doc", b"notes\n")
    place.write("page.warc", warc_record(1))
    (tmp_path / "empty").mkdir()
    (tmp_path / "new" / "folder").mkdir(parents=True)
    return place


@pytest.mark.parametrize("arguments", REFUSALS.values(), ids=REFUSALS)
def test_a_refused_replay_leaves_everything_as_it_was(
    place: Place, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    before = everything(place.folder)
    for outputs in (NEW_OUTPUTS, KNOWN, WITHOUT_INDEX):
        given = [name for name in ("--verdicts", "--index") if name in arguments]
        pairs = zip(outputs[::2], outputs[1::2], strict=True)
        own = [each for pair in pairs if pair[0] not in given for each in pair]
        if "foreign.jsonl" in arguments and "--index" not in outputs:
            continue  # without an index any file is written again
        code = place.streamer("replay", *arguments, *own)
        assert code in (1, 2, 3), (code, own, capsys.readouterr().err)
        assert everything(place.folder) == before, own


def test_another_key_other_settings_or_a_changed_file_leave_an_index_alone(place: Place) -> None:
    place.write("old.jsonl", page(5))
    before = everything(place.folder)
    outputs = ("--verdicts", "v.jsonl", "--dead-letters", "new/d.jsonl", "--index", "index")
    for arguments in (
        ("pages.jsonl", "--key-file", "key"),
        ("pages.jsonl", "--bands", "20"),
        ("old.jsonl",),
    ):
        assert place.streamer("replay", *arguments, *outputs) == 3, arguments
        assert everything(place.folder) == before, arguments


def test_an_index_in_use_keeps_the_key_and_the_files_of_its_user(place: Place) -> None:
    folder = place.folder / "busy"
    folder.mkdir()
    store = Store.open(store_folder(folder))
    before = everything(place.folder)
    arguments = ("pages.jsonl", "--index", folder, "--verdicts", "new/v", *place.key)
    assert place.streamer("replay", *arguments) == 1
    assert everything(place.folder) == before
    store.close()


def test_an_index_folder_that_was_there_and_empty_stays_and_is_empty(place: Place) -> None:
    assert place.streamer(
        "replay", "pages.jsonl", "--index", "empty", "--verdicts", "foreign.jsonl"
    ) == 2  # fmt: skip
    assert not list(Path("empty").iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ("tune", "--sample", "pages.jsonl", "--plot", "none/curve.svg"),
        ("compare", "notes.txt", "foreign.jsonl.txt", "--html", "none/page.html"),
        ("collection", "build", "pages.jsonl", "--out", "none/words.json"),
        ("clusters", "v.jsonl", "--out", "none/clusters.csv"),
        ("clusters", "v.jsonl", "--out", "empty"),
        ("clusters", "v.jsonl", "--out", "foreign.jsonl"),
        ("hints", "v.jsonl", "--out", "foreign.jsonl"),
        ("collection", "build", "pages.jsonl", "--out", "foreign.jsonl"),
        ("verify", "pages.jsonl", "--index", "index", "--json", "foreign.jsonl"),
        ("dead-letters", "show", "v.jsonl", "--out", "foreign.jsonl"),
        ("compare", "notes.txt", "foreign.jsonl.txt", "--html", "foreign.jsonl"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_an_output_that_cannot_be_written_is_found_before_the_work(
    place: Place, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    place.write("foreign.jsonl.txt", b"other notes\n")
    before = everything(place.folder)
    assert place.streamer(*arguments) in (1, 2)
    said = capsys.readouterr()
    assert said.out == "", "nothing was worked out before"
    assert arguments[-1] in " ".join(said.err.split())
    assert everything(place.folder) == before
