"""Which sources an index has read, and whether a file still is the one it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamer.errors import InputError, StoreMismatch
from streamer.stream import catalogue as module
from streamer.stream.catalogue import (
    Catalogue,
    SourceEntry,
    Totals,
    pack_catalogue,
    record_digest,
    unpack_catalogue,
)
from streamer.stream.files import HEAD_BYTES_MAX, Source

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


def test_a_file_that_shrank_after_it_had_grown_is_refused(page_file: Path) -> None:
    catalogue = Catalogue()
    catalogue.enter(source(page_file))
    page_file.write_bytes(LINE * 9)
    catalogue.enter(source(page_file))
    page_file.write_bytes(LINE * 5)
    with pytest.raises(StoreMismatch, match="has changed"):
        catalogue.enter(source(page_file))


def test_what_was_appended_before_counts_as_read_too(page_file: Path) -> None:
    catalogue = Catalogue()
    catalogue.enter(source(page_file))
    page_file.write_bytes(LINE * 9)
    catalogue.enter(source(page_file))
    page_file.write_bytes(LINE * 3 + LINE.upper() * 6)
    with pytest.raises(StoreMismatch, match="has changed"):
        catalogue.enter(source(page_file))


def test_a_file_that_is_gone_is_an_input_error(page_file: Path) -> None:
    catalogue = Catalogue()
    catalogue.enter(source(page_file))
    page_file.unlink()
    with pytest.raises(InputError):
        catalogue.enter(source(page_file))


def test_standard_input_is_known_by_its_name() -> None:
    catalogue = Catalogue()
    stdin = Source("-", is_regular=False)
    assert [catalogue.enter(stdin), catalogue.enter(stdin)] == [0, 0]
    assert catalogue.entries == [SourceEntry("-", "-", None)]


def test_standard_input_is_never_known_to_have_ended() -> None:
    catalogue = Catalogue()
    read_to_the_end(catalogue, catalogue.enter(Source("-", is_regular=False)))
    assert catalogue.enter(Source("-", is_regular=False)) == 0
    assert (catalogue.entries[0].position, catalogue.entries[0].finished) == (3, False)


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
    then = catalogue.snapshot()
    assert then == catalogue
    read_to_the_end(catalogue, number)
    catalogue.outputs["/out"] = 13
    catalogue.totals.dead["no_url"] += 1
    assert (then.entries[number].position, then.entries[number].finished) == (0, False)
    assert (then.outputs, then.totals.dead) == ({"/out": 12}, {"no_url": 1})


def test_a_catalogue_comes_back_from_its_bytes(page_file: Path) -> None:
    catalogue = Catalogue(outputs={"/out": 12}, totals=Totals(records=5, dead={"no_url": 1}))
    read_to_the_end(catalogue, catalogue.enter(source(page_file)))
    catalogue.enter(Source("-", is_regular=False))
    assert unpack_catalogue(pack_catalogue(catalogue)) == catalogue
    assert unpack_catalogue(b"") == Catalogue()


def test_equal_lines_have_equal_digests_and_others_do_not() -> None:
    assert record_digest(LINE) == record_digest(LINE[:-1]) == record_digest(LINE[:-1] + b"\r\n")
    assert (
        len({record_digest(line) for line in (b"", LINE, LINE[:-2], b" " + LINE, LINE.upper())})
        == 5
    )
