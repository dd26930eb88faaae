"""Which index is in a folder: its files, and the state of its newest flush.

The witness says which flush is the newest; a database that has an older one has lost its end.
"""

from contextlib import closing
from pathlib import Path

import msgspec

from streamer import errors
from streamer.index.codec import FORMAT, STATE_KEY, StoreMeta, format_of
from streamer.stored.database import Database
from streamer.stored.witness import NAME as WITNESS
from streamer.stored.witness import read_places, read_witness


def has_index(folder: Path) -> bool:
    """Return whether `folder` has an index, or what is left of one."""
    others = any(file.name != WITNESS for file in index_files(folder))
    return others or any(number is not None for number in read_places(folder) or ())


def index_files(folder: Path) -> list[Path]:
    """Return the files of an index; its secret is not among them."""
    return [*folder.glob(WITNESS), *folder.glob("store/*")]


def describe_unwitnessed(path: Path) -> errors.StoreDamaged:
    """Return the error about an index without a witness.

    Raises:
        StoreMismatch: it is none, or has another format.
    """
    if _has_database(path):
        with closing(Database.look(path)) as database:
            _load(path, database)
    return errors.damage_error(path.parent / WITNESS, "it is missing")


def open_newest(path: Path) -> tuple[Database | None, StoreMeta | None]:
    """Return the database as it is now, and its state; None where there is no flush yet.

    The witness is read before and after, since a writer may be active.
    """
    before = read_witness(path.parent)
    if before is None:
        raise describe_unwitnessed(path)
    if not _has_database(path):
        if before:
            raise errors.damage_error(path / "CURRENT", "it is missing")
        return None, None
    database = Database.look(path)
    with errors.on_failure(database.close):
        meta = _load(path, database)
        seq, after = meta.seq if meta else 0, read_witness(path.parent) or 0
        if not before <= seq <= after + 1:
            raise errors.damage_error(path, f"it has flush {seq}, and {after} was written to it")
    return database, meta


def _has_database(path: Path) -> bool:
    with errors.explain_failures(path):
        return errors.is_there(path / "CURRENT")


def _load(path: Path, database: Database) -> StoreMeta | None:
    """Return the state that a database has, None of an empty one."""
    last = database.last()
    if last is None:
        return None
    key, value = last
    if key != STATE_KEY:
        why = f"{path} holds something else than an index. Use another --index."
        raise errors.StoreMismatch(why)
    try:
        if (other := format_of(value)) != FORMAT:
            raise errors.StoreMismatch(
                f"The index {path} has format {other}, this version reads {FORMAT}. Use the "
                "version that wrote it, or give this one another folder: a replay builds the index "
                "from its files there."
            )
        return msgspec.msgpack.decode(value, type=StoreMeta)
    except msgspec.MsgspecError as error:
        raise errors.damage_error(path, f"its state does not fit: {error}") from error
