"""Which sources an index has read, and whether a file still is the one it was."""

import io
import re
from pathlib import Path

import pytest

from streamer.errors import InputError, SettingsError, StoreMismatch
from streamer.model import page_ref
from streamer.pages.bytestream import Trail
from streamer.pages.files import Source
from streamer.pages.identity import HEAD_BYTES_MAX, FileIdentity
from streamer.run import catalogue as module
from streamer.run.catalogue import (
    ENTRIES_A_BLOCK,
    Catalogue,
    SourceEntry,
    pack_catalogue,
    unpack_catalogue,
)
from streamer.run.output_checks import content_digest
from streamer.run.totals import Totals

LINE = b'{"url":"u","body":"b"}\n'


@pytest.fixture
def page_file(tmp_path: Path) -> Path:
    path = tmp_path / "pages.jsonl"
    path.write_bytes(LINE * 3)
    return path


def source(path: Path | str) -> Source:
    return Source(str(path), is_regular=True)


def read_to_the_end(catalogue: Catalogue, number: int) -> None:
    entry = catalogue.entries[number]
    entry.position, entry.finished = 3, True
    entry.status = source(entry.path).status()


def with_read(path: Path) -> Catalogue:
    """Return the catalogue of an index that has read a file to its end."""
    catalogue = Catalogue()
    read_to_the_end(catalogue, catalogue.enter(source(path)))
    return catalogue


def pipe(catalogue: Catalogue, content: bytes) -> int:
    """Enter a pipe and judge its lines; return its number."""
    number = catalogue.enter_stream("-", io.BytesIO(content).read)
    entry, trail = catalogue.entries[number], Trail()
    for line in content.splitlines(keepends=True):
        trail.take(line)
        entry.heads.append(trail.mark())
    entry.position, entry.mark = len(entry.heads), trail.mark()
    return number


def test_a_file_is_known_by_another_spelling_of_its_path(tmp_path: Path, page_file: Path) -> None:
    link = tmp_path / "link.jsonl"
    link.symlink_to(page_file)
    catalogue = Catalogue()
    spellings = (page_file, tmp_path / "." / ".." / tmp_path.name / "pages.jsonl", link)
    assert [catalogue.enter(source(path)) for path in spellings] == [0, 0, 0]
    assert [entry.name for entry in catalogue.entries] == [str(page_file)]


def test_a_file_in_a_folder_whose_name_is_no_text_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "no\udcffutf8"
    folder.mkdir()
    (folder / "pages.jsonl").write_bytes(LINE)
    monkeypatch.chdir(folder)
    with pytest.raises(InputError, match="not UTF-8; rename"):
        Catalogue().enter(source("pages.jsonl"))


def test_no_two_sources_have_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = Catalogue()
    for day in ("one", "two"):
        (tmp_path / day).mkdir()
        (tmp_path / day / "x.jsonl").write_bytes(f'{{"day": "{day}"}}\n'.encode())
        monkeypatch.chdir(tmp_path / day)
        catalogue = later(catalogue)  # another program, which begins in another folder
        catalogue.enter(source("x.jsonl"))
    second = tmp_path / "two" / "x.jsonl"
    read_to_the_end(catalogue, 1)
    third = moved(second, tmp_path / "three.jsonl")
    catalogue = later(catalogue)
    catalogue.move([f"{second}={third}"])
    assert catalogue.enter(source(third)) == 1
    second.write_bytes(b'{"day": "another"}\n')
    assert catalogue.enter(source(second)) == 2
    assert pipe(catalogue, b"1\n") == 3
    assert pipe(catalogue, b"2\n") == 4
    locate = catalogue.locator()
    places = [locate(page_ref(number, 7)) for number in range(5)]
    assert [(place.topic, place.partition) for place in places] == [
        ("x.jsonl", 0), (str(second), 0), (str(second), 1), ("-", 0), ("-", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("size", [3, HEAD_BYTES_MAX // len(LINE) + 10])
def test_a_file_that_has_grown_goes_on_where_it_ended(page_file: Path, size: int) -> None:
    page_file.write_bytes(LINE * size)
    catalogue = with_read(page_file)
    for _ in range(2):
        with page_file.open("ab") as file:
            file.write(LINE * 1000)
        catalogue.entries[0].finished = True
        assert catalogue.enter(source(page_file)) == 0
        assert (catalogue.entries[0].position, catalogue.entries[0].finished) == (3, False)


@pytest.mark.parametrize(
    ("grown", "content"),
    [
        *((LINE * 3, each) for each in (LINE * 2, b"", b"X" + LINE * 4, LINE + b" " * 200)),
        (LINE * 3, LINE * 2 + LINE.replace(b"u", b"v")),
        (LINE * 9, LINE * 5),  # what was appended before counts as read too
        (LINE * 9, LINE * 3 + LINE.upper() * 6),
    ],
)
def test_a_changed_file_is_refused(page_file: Path, grown: bytes, content: bytes) -> None:
    catalogue = Catalogue()
    for held in (LINE * 3, grown):
        page_file.write_bytes(held)
        catalogue.enter(source(page_file))
    page_file.write_bytes(content)
    said = rf"{page_file} has changed since .* under another name, or start over"
    with pytest.raises(StoreMismatch, match=said):
        catalogue.enter(source(page_file))


def later(catalogue: Catalogue) -> Catalogue:
    """Return the catalogue as another run finds it."""
    return unpack_catalogue(pack_catalogue(catalogue))


def moved(path: Path, to: Path) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    return path.rename(to)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("in/other.jsonl", "{0}/in/pages.jsonl={0}/in/other.jsonl"),
        ("in=2/pages.jsonl", "{0}/in={0}/in=2"),
        ("archive/in/pages.jsonl", "{0}={0}/archive"),
    ],
)
@pytest.mark.parametrize("grown", [0, 5, HEAD_BYTES_MAX // len(LINE) + 10])
def test_a_file_that_was_moved_is_refused_and_is_one_source_once_that_is_told(
    tmp_path: Path, name: str, change: str, grown: int
) -> None:
    folder = tmp_path / "day=1"
    old = folder / "in" / "pages.jsonl"
    old.parent.mkdir(parents=True)
    old.write_bytes(LINE * 3)
    catalogue, change = with_read(old), change.format(folder)
    new = moved(old, folder / name)
    with pytest.raises(StoreMismatch, match=re.escape(f"--moved {change} if it was moved")):
        later(catalogue).enter(source(new))
    with new.open("ab") as file:
        file.write(LINE * grown)
    for _ in range(2):  # the same command may be given again
        catalogue = later(catalogue)
        catalogue.move([change])
        assert catalogue.enter(source(new)) == 0
        entry = catalogue.entries[0]
        assert (entry.name, entry.path, entry.position) == (str(old), str(new), 3)


def test_a_prefix_is_one_of_names_and_needs_both_paths(tmp_path: Path) -> None:
    files = [tmp_path / folder / "pages.jsonl" for folder in ("in", "input")]
    known = FileIdentity(1, "", 1)
    catalogue = Catalogue(entries=[SourceEntry("x", str(path), known) for path in files])
    catalogue.move([f"{tmp_path}/in/={tmp_path}/out", "/elsewhere=/there"])
    assert [entry.path for entry in catalogue.entries] == [
        f"{tmp_path}/out/pages.jsonl", str(files[1]),
    ]  # fmt: skip
    with pytest.raises(SettingsError, match="--moved in is not OLD=NEW"):
        catalogue.move(["in"])


def test_a_copy_beside_its_original_is_a_source_of_its_own(tmp_path: Path, page_file: Path) -> None:
    catalogue = later(with_read(page_file))
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(page_file.read_bytes())
    assert catalogue.enter(source(copy)) == 1
    assert catalogue.enter(source(page_file)) == 0


@pytest.mark.parametrize("content", [LINE.upper() * 3, LINE * 2, b""])
def test_another_file_in_the_place_of_one_that_is_gone_is_a_source_of_its_own(
    tmp_path: Path, page_file: Path, content: bytes
) -> None:
    catalogue = later(with_read(page_file))
    page_file.unlink()
    other = tmp_path / "new" / "pages.jsonl"
    other.parent.mkdir()
    other.write_bytes(content)
    assert catalogue.enter(source(other)) == 1


def test_a_flush_writes_the_blocks_of_entries_that_have_changed() -> None:
    count = 2 * ENTRIES_A_BLOCK + 1
    catalogue = Catalogue(entries=[SourceEntry(f"{i}", f"/{i}", None) for i in range(count)])
    for number in range(count):
        catalogue.to_change(number)
    state, blocks = catalogue.to_flush()
    assert (state.entries, state.apart, len(blocks)) == ([], count, 3)
    assert len(catalogue.entries) == count
    assert catalogue.to_flush()[1] == []
    catalogue.to_change(ENTRIES_A_BLOCK).position = 7
    assert [key for key, _ in catalogue.to_flush()[1]] == [blocks[1][0]]


def test_a_pipe_is_known_by_how_it_begins() -> None:
    catalogue = Catalogue()
    one, two = b"one\ntwo\n", b"one\nTWO\n"
    assert [pipe(catalogue, one), pipe(catalogue, two)] == [0, 1]
    assert [entry.partition for entry in catalogue.entries] == [0, 1]
    for content, number in (
        (one, 0),
        (two + b"three", 1),
        (one.rstrip(), 0),
        (b"one\n", 0),
        (b"on", 2),
        (b"one\ntw", 2),
        (b"", 2),
    ):
        assert catalogue.copied().enter_stream("-", io.BytesIO(content).read) == number


def test_a_pipe_of_which_nothing_was_judged_gives_its_number_to_the_next() -> None:
    catalogue = Catalogue()
    assert catalogue.enter_stream("-", lambda _: b"") == 0
    assert catalogue.entries == [SourceEntry("-", "-", None)]
    assert pipe(catalogue, LINE) == 0
    assert catalogue.enter_stream("fifo", io.BytesIO(LINE).read) == 1


def test_there_is_an_end_to_the_numbers(
    page_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SOURCES_MAX", 1)
    catalogue = Catalogue()
    assert catalogue.enter(source(page_file)) == 0
    other = tmp_path / "other.jsonl"
    other.write_bytes(LINE)
    with pytest.raises(StoreMismatch, match=r"takes 1 sources at most\. Build a new index"):
        catalogue.enter(source(other))
    assert catalogue.enter(source(page_file)) == 0


def test_a_snapshot_of_a_catalogue_stays_as_it_was(page_file: Path) -> None:
    catalogue = Catalogue(outputs={"/out": 12}, totals=Totals(records=5, dead={"no_url": 1}))
    number = catalogue.enter(source(page_file))
    pipe(catalogue, LINE)
    then = catalogue.copied()
    assert then == catalogue
    read_to_the_end(catalogue, number)
    catalogue.outputs["/out"] = 13
    catalogue.totals.dead["no_url"] += 1
    assert (then.entries[number].position, then.entries[number].finished) == (0, False)
    assert (then.outputs, then.totals.dead) == ({"/out": 12}, {"no_url": 1})
    assert unpack_catalogue(b"") == Catalogue()


VERDICTS = b'{"verdict":"unique","index":"0123456789abcdef"}\n' * 300


def test_an_output_is_known_under_a_new_path_if_it_holds_the_same(tmp_path: Path) -> None:
    old, new = tmp_path / "here" / "verdicts.jsonl", tmp_path / "there" / "verdicts.jsonl"
    old.parent.mkdir()
    old.write_bytes(VERDICTS)
    catalogue, key = Catalogue(), str(old)
    catalogue.outputs[key], catalogue.digests[key] = 9000, content_digest(old, 9000)
    catalogue.roles[key] = "kept"
    catalogue = later(catalogue)
    moved(old, new)
    assert catalogue.known_length(str(new)) is None
    catalogue.move([f"{old.parent}={new.parent}"])
    assert catalogue.known_length(str(new)) == 9000
    assert [*catalogue.outputs, *catalogue.digests, *catalogue.roles] == [str(new)] * 3
    new.write_bytes(VERDICTS.replace(b"unique", b"UNIQUE"))
    with pytest.raises(StoreMismatch, match="it holds something else"):
        catalogue.known_length(str(new))
