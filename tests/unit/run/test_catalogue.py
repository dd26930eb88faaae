"""Which sources an index has read, and whether a file still is the one it was."""

from __future__ import annotations

import io
import os
import shutil
import time
from typing import TYPE_CHECKING

import pytest

from streamer.errors import InputError, StoreMismatch
from streamer.model import DEAD_LETTER_SCHEMA, page_ref
from streamer.pages.bytestream import Trail
from streamer.pages.files import HEAD_BYTES_MAX, Source
from streamer.run import catalogue as module
from streamer.run.catalogue import (
    CANDIDATES_MAX,
    ENTRIES_A_BLOCK,
    Catalogue,
    SourceEntry,
    pack_catalogue,
    unpack_catalogue,
)
from streamer.run.outputs import content_digest
from streamer.run.totals import Totals

if TYPE_CHECKING:
    from pathlib import Path

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


def pipe(catalogue: Catalogue, content: bytes) -> int:
    """Enter a pipe and judge its lines; return its number."""
    number = catalogue.enter_stream("-", io.BytesIO(content).read)
    entry, trail = catalogue.entries[number], Trail()
    for line in content.splitlines(keepends=True):
        trail.take(line)
        entry.heads.append(trail.mark())
    entry.position, entry.mark = len(entry.heads), trail.mark()
    return number


def test_sources_are_numbered_in_the_order_of_their_first_coming(
    tmp_path: Path, page_file: Path
) -> None:
    other = tmp_path / "other.jsonl"
    other.write_bytes(LINE)
    catalogue = Catalogue()
    assert [catalogue.enter(source(path)) for path in (page_file, other, page_file)] == [0, 1, 0]
    assert [entry.name for entry in catalogue.entries] == [str(page_file), str(other)]


def test_a_file_is_known_again_by_another_spelling_of_its_path(
    tmp_path: Path, page_file: Path
) -> None:
    link = tmp_path / "link.jsonl"
    link.symlink_to(page_file)
    catalogue = Catalogue()
    spellings = (page_file, tmp_path / "." / ".." / tmp_path.name / "pages.jsonl", link)
    assert [catalogue.enter(source(path)) for path in spellings] == [0, 0, 0]
    assert [entry.name for entry in catalogue.entries] == [str(page_file)]


def test_no_two_sources_have_one_name_in_verdicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = Catalogue()
    for day in ("one", "two"):
        (tmp_path / day).mkdir()
        (tmp_path / day / "x.jsonl").write_bytes(f'{{"day": "{day}"}}\n'.encode())
        monkeypatch.chdir(tmp_path / day)
        catalogue = later(catalogue)  # another program, which begins in another folder
        catalogue.enter(source("x.jsonl"))
    second = tmp_path / "two" / "x.jsonl"
    read_to_the_end(catalogue, 1)
    moved(second, tmp_path / "three.jsonl")
    catalogue = later(catalogue)
    catalogue.enter(source(tmp_path / "three.jsonl"))
    second.write_bytes(b'{"day": "another"}\n')
    assert catalogue.enter(source(second)) == 2
    assert pipe(catalogue, b"1\n") == 3
    assert pipe(catalogue, b"2\n") == 4
    locate = catalogue.locator()
    places = [locate(page_ref(number, 7)) for number in range(5)]
    assert [(place.topic, place.partition) for place in places] == [
        ("x.jsonl", 0), (str(second), 0), (str(second), 1), ("-", 0), ("-", 1),
    ]  # fmt: skip


def test_a_file_that_has_not_changed_stays_finished(page_file: Path) -> None:
    catalogue = Catalogue()
    read_to_the_end(catalogue, catalogue.enter(source(page_file)))
    assert catalogue.enter(source(page_file)) == 0
    assert (catalogue.entries[0].position, catalogue.entries[0].finished) == (3, True)


@pytest.mark.parametrize("size", [3, HEAD_BYTES_MAX // len(LINE) + 10])
def test_a_file_that_has_grown_goes_on_where_it_ended(page_file: Path, size: int) -> None:
    page_file.write_bytes(LINE * size)
    catalogue = Catalogue()
    read_to_the_end(catalogue, catalogue.enter(source(page_file)))
    for _ in range(2):
        with page_file.open("ab") as file:
            file.write(LINE * 1000)
        catalogue.entries[0].finished = True
        assert catalogue.enter(source(page_file)) == 0
        assert (catalogue.entries[0].position, catalogue.entries[0].finished) == (3, False)


@pytest.mark.parametrize(
    "content",
    [LINE * 2, b"", b"X" + LINE * 4, LINE * 2 + LINE.replace(b"u", b"v"), LINE + b" " * 200],
)
def test_a_file_that_has_changed_is_refused_with_the_remedy(
    page_file: Path, content: bytes
) -> None:
    catalogue = Catalogue()
    catalogue.enter(source(page_file))
    page_file.write_bytes(content)
    with pytest.raises(
        StoreMismatch, match=r"has changed since .* under another name, or start over"
    ) as caught:
        catalogue.enter(source(page_file))
    assert str(page_file) in str(caught.value)


@pytest.mark.parametrize("content", [LINE * 5, LINE * 3 + LINE.upper() * 6])
def test_what_was_appended_before_counts_as_read_too(page_file: Path, content: bytes) -> None:
    catalogue = Catalogue()
    catalogue.enter(source(page_file))
    page_file.write_bytes(LINE * 9)
    catalogue.enter(source(page_file))
    page_file.write_bytes(content)
    with pytest.raises(StoreMismatch, match="has changed"):
        catalogue.enter(source(page_file))


def test_a_file_that_is_gone_is_an_input_error(page_file: Path) -> None:
    catalogue = Catalogue()
    catalogue.enter(source(page_file))
    page_file.unlink()
    with pytest.raises(InputError):
        catalogue.enter(source(page_file))


def later(catalogue: Catalogue) -> Catalogue:
    """Return the catalogue as another run finds it."""
    return unpack_catalogue(pack_catalogue(catalogue))


def moved(path: Path, to: Path) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    return path.rename(to)


@pytest.mark.parametrize(
    ("name", "grown"),
    [
        *(("archive/pages.jsonl", n) for n in (0, 5, HEAD_BYTES_MAX // len(LINE) + 10)),
        ("other.jsonl", 0),
    ],
)
def test_a_file_that_was_moved_or_renamed_is_the_same_source(
    tmp_path: Path, page_file: Path, name: str, grown: int
) -> None:
    catalogue = Catalogue()
    read_to_the_end(catalogue, catalogue.enter(source(page_file)))
    there = moved(page_file, tmp_path / name)
    with there.open("ab") as file:
        file.write(LINE * grown)
    for _ in range(2):
        catalogue = later(catalogue)
        assert catalogue.enter(source(there)) == 0
        entry = catalogue.entries[0]
        assert (entry.name, entry.path) == (str(page_file), str(there))
        assert entry.position == 3


def test_a_copy_beside_its_original_is_a_source_of_its_own(tmp_path: Path, page_file: Path) -> None:
    catalogue = Catalogue()
    catalogue.enter(source(page_file))
    catalogue = later(catalogue)
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(page_file.read_bytes())
    assert catalogue.enter(source(copy)) == 1
    assert catalogue.enter(source(page_file)) == 0


@pytest.mark.parametrize("content", [LINE.upper() * 3, LINE * 2, b""])
def test_another_file_in_the_place_of_one_that_is_gone_is_a_source_of_its_own(
    tmp_path: Path, page_file: Path, content: bytes
) -> None:
    catalogue = Catalogue()
    catalogue.enter(source(page_file))
    catalogue = later(catalogue)
    page_file.unlink()
    other = tmp_path / "new" / "pages.jsonl"
    other.parent.mkdir()
    other.write_bytes(content)
    assert catalogue.enter(source(other)) == 1


def test_an_empty_file_that_is_gone_is_continued_by_none(tmp_path: Path, page_file: Path) -> None:
    empty = tmp_path / "sub" / "pages.jsonl"
    empty.parent.mkdir()
    empty.touch()
    catalogue = Catalogue()
    catalogue.enter(source(empty))
    empty.unlink()
    assert later(catalogue).enter(source(page_file)) == 1


def test_equal_files_of_a_folder_that_was_moved_keep_their_numbers(tmp_path: Path) -> None:
    names = ["a/pages.jsonl", "b/pages.jsonl", "b/same.jsonl"]
    catalogue = Catalogue()
    for name in names:
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(LINE * 3)
        catalogue.enter(source(path))
    moved(tmp_path / "in", tmp_path / "elsewhere" / "in")
    there = [source(tmp_path / "elsewhere" / "in" / name) for name in reversed(names)]
    catalogue = later(catalogue)
    assert [catalogue.enter(each) for each in there] == [2, 1, 0]


@pytest.mark.parametrize("alike", ["name", "content", "both"])
def test_a_file_is_compared_with_few_of_many_that_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alike: str
) -> None:
    def write(folder: str, number: int, content: bytes) -> Source:
        name = f"{folder}{number}.jsonl" if alike == "content" else "pages.jsonl"
        path = tmp_path / folder / f"{folder}{number}" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(LINE if alike != "name" else content)
        return source(path)

    catalogue, many = Catalogue(), 100
    for number in range(many):
        catalogue.enter(write("old", number, b"%03d" % number))
    shutil.rmtree(tmp_path / "old")
    catalogue, compared = later(catalogue), list[SourceEntry]()
    is_continued = module._is_continued  # noqa: SLF001 - what reads a file

    def counted(entry: SourceEntry, own: Source) -> bool:
        compared.append(entry)
        return is_continued(entry, own)

    monkeypatch.setattr(module, "_is_continued", counted)
    numbers = [catalogue.enter(write("new", i, b"other %03d" % i)) for i in range(many)]
    assert len(compared) <= 2 * CANDIDATES_MAX * many
    assert len(set(numbers)) == many
    assert (max(numbers) >= many) == (alike == "name")


def test_a_flush_writes_the_blocks_of_entries_that_have_changed() -> None:
    count = 2 * ENTRIES_A_BLOCK + 1
    old = Catalogue(entries=[SourceEntry(f"{i}", f"/{i}", None) for i in range(count)])
    catalogue = later(old)  # as a state of an earlier version has them
    state, blocks = catalogue.to_flush()
    assert (state.entries, state.apart, len(blocks)) == ([], count, 3)
    assert catalogue == old
    assert catalogue.to_flush()[1] == []
    catalogue.to_change(ENTRIES_A_BLOCK).position = 7
    assert [key for key, _ in catalogue.to_flush()[1]] == [blocks[1][0]]


def test_a_copy_that_lies_to_a_restored_index_as_its_original_did_is_the_same_source(
    tmp_path: Path, page_file: Path
) -> None:
    catalogue = Catalogue()
    catalogue.set_folder(tmp_path / "index")
    catalogue.enter(source(page_file))
    restored = tmp_path / "restored" / "pages.jsonl"
    restored.parent.mkdir()
    restored.write_bytes(page_file.read_bytes())
    catalogue = later(catalogue)
    catalogue.set_folder(tmp_path / "restored" / "index")
    assert catalogue.enter(source(restored)) == 0


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


def test_a_file_that_was_written_to_is_read_again_though_its_time_was_set_back(
    page_file: Path,
) -> None:
    lines = HEAD_BYTES_MAX // len(LINE) + 10
    page_file.write_bytes(LINE * lines)
    catalogue = Catalogue()
    read_to_the_end(catalogue, catalogue.enter(source(page_file)))
    time.sleep(0.02)  # longer than a tick of the clock of file systems
    before = page_file.stat()
    page_file.write_bytes(LINE * (lines - 1) + LINE.upper())  # behind what the digest covers
    os.utime(page_file, ns=(before.st_atime_ns, before.st_mtime_ns))
    catalogue.enter(source(page_file))
    assert not catalogue.entries[0].finished


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


FINGERPRINT = "0123456789abcdef"
VERDICTS = b'{"verdict":"unique","index":"0123456789abcdef"}\n' * 300


def wrote(path: Path, length: int) -> Catalogue:
    """Return the catalogue of an index beside `path` that has published so much to it."""
    catalogue = Catalogue()
    catalogue.set_folder(path.parent / "index")
    catalogue.outputs[str(path)] = length
    catalogue.digests[str(path)] = content_digest(path, length)
    return later(catalogue)


@pytest.fixture
def verdicts(tmp_path: Path) -> Path:
    path = tmp_path / "here" / "verdicts.jsonl"
    path.parent.mkdir()
    path.write_bytes(VERDICTS)
    return path


@pytest.mark.parametrize("length", [len(VERDICTS), 9000, 48, 1])
def test_an_output_that_was_moved_is_known_by_what_it_holds(
    tmp_path: Path, verdicts: Path, length: int
) -> None:
    catalogue = wrote(verdicts, length)
    there = moved(verdicts, tmp_path / "there" / "other.jsonl")
    assert catalogue.known_length(str(there), FINGERPRINT) == length
    assert catalogue.outputs == {str(there): length}
    assert catalogue.digests == {str(there): content_digest(there, length)}


def test_a_copy_of_an_output_may_be_continued_and_so_may_the_original(
    tmp_path: Path, verdicts: Path
) -> None:
    catalogue = wrote(verdicts, 9000)
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(verdicts.read_bytes())
    assert catalogue.known_length(str(copy), FINGERPRINT) == 9000
    assert catalogue.known_length(str(verdicts), FINGERPRINT) == 9000


@pytest.mark.parametrize("name", ["verdicts.jsonl", "other.jsonl"])
@pytest.mark.parametrize("content", [VERDICTS[:8999], b"x" + VERDICTS[1:], VERDICTS[:8999] + b"x"])
def test_an_output_that_holds_something_else_is_not_the_indexs(
    tmp_path: Path, verdicts: Path, content: bytes, name: str
) -> None:
    catalogue = wrote(verdicts, 9000)
    catalogue.set_folder(tmp_path / "there" / "index")
    there = moved(verdicts, tmp_path / "there" / name)
    there.write_bytes(content)
    assert catalogue.known_length(str(there), FINGERPRINT) is None


def test_a_known_output_that_has_been_replaced_is_refused(verdicts: Path) -> None:
    catalogue = wrote(verdicts, 9000)
    verdicts.write_bytes(VERDICTS.upper())
    with pytest.raises(StoreMismatch, match=r"holds something else\. Put the file back, or name"):
        catalogue.known_length(str(verdicts), FINGERPRINT)


@pytest.mark.parametrize(
    ("content", "known"),
    [
        (VERDICTS[:1000], 0),
        (b'{"code":"no_url","schema":"%s"}\n' % DEAD_LETTER_SCHEMA.encode(), 0),
        (VERDICTS.replace(b"0123456789abcdef", b"fedcba9876543210"), None),
        (LINE, None),
    ],
)
def test_an_output_of_which_nothing_was_flushed_is_known_by_its_way_and_its_first_line(
    tmp_path: Path, verdicts: Path, content: bytes, known: int | None
) -> None:
    verdicts.write_bytes(content)
    catalogue = wrote(verdicts, 0)
    there = moved(verdicts, tmp_path / "there" / "verdicts.jsonl")
    assert catalogue.known_length(str(there), FINGERPRINT) is None, "the index was not moved"
    catalogue.set_folder(tmp_path / "there" / "index")
    assert catalogue.known_length(str(there), FINGERPRINT) == known


def test_an_index_that_does_not_know_what_its_outputs_hold_knows_them_by_their_paths(
    tmp_path: Path, verdicts: Path
) -> None:
    catalogue = Catalogue(outputs={str(verdicts): 9000})
    assert catalogue.known_length(str(verdicts), FINGERPRINT) == 9000
    assert catalogue.known_length(str(tmp_path / "new.jsonl"), FINGERPRINT) is None
    assert catalogue.known_length("-", FINGERPRINT) is None
