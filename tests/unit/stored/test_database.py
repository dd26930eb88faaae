"""The database: what is written is there as a whole, and is read without leaving a trace."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from streamer.index.codec import BANDS, ROWS, STATE_KEY, URLS, Entry, entry_key
from streamer.stored.database import INGESTED, Database
from streamer.stored.database_files import remove_copy

STATE = (STATE_KEY, b"state")


def rows(*numbers: int, size: int = 3) -> list[Entry]:
    return [(entry_key(ROWS, number), b"%d" % number * size) for number in numbers]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with closing(Database.write_to(tmp_path / "store")) as opened:
        yield opened


def test_a_reader_sees_what_was_written_before_it_opened(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with closing(Database.write_to(path)) as writer:
        writer.write([rows(0)], STATE)
        with closing(Database.look(path)) as reader:
            writer.write([rows(1)], (STATE_KEY, b"later"))
            assert (reader.last(), [*reader.scan(ROWS)]) == (STATE, rows(0))
        before = {file.name for file in path.iterdir()}
        Database.look(path).close()
        assert {file.name for file in path.iterdir()} == before


def test_what_is_replaced_has_its_newest_value_and_what_is_removed_none(database: Database) -> None:
    key = entry_key(URLS, 5)
    database.write([], STATE, replaced=[(key, b"old")])
    database.write([], STATE, replaced=[(key, b"new")])
    assert database.newest(URLS, [key]) == [b"new"]
    database.remove(URLS, [key])
    database.settle()
    assert database.newest(URLS, [key]) == [None]
    database.put_note(b"c\0", b"note")
    database.put_note(b"c\0", b"")
    assert database.note(b"c\0") is None


def test_a_file_that_a_killed_process_was_handing_over_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with closing(Database.write_to(path)) as killed:
        killed.ingest(BANDS, [[(entry_key(BANDS, 0), b"first")]])
    (own,) = path.glob("*.sst")
    (path / INGESTED).hardlink_to(own)  # it is the database's, and still has its first name
    with closing(Database.write_to(path)) as opened:
        opened.ingest(BANDS, [[(entry_key(BANDS, 1), b"second")]])
    with closing(Database.look(path)) as found:
        assert found.values(BANDS, [0, 1]) == [b"first", b"second"]


def test_a_checkpoint_is_a_database_that_can_be_removed(tmp_path: Path, database: Database) -> None:
    database.write([rows(0, 1)], STATE)
    copy, other = tmp_path / "copy", tmp_path / "other"
    database.checkpoint(copy)
    with closing(Database.look(copy)) as found:
        assert (found.last(), [*found.scan(ROWS)]) == (STATE, rows(0, 1))
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    assert [remove_copy(copy), remove_copy(other)] == [True, False]
    assert (copy.exists(), other.exists()) == (False, True)
