"""The catalogue: the sources of an index by number, and how far and what of each has been judged.

A page ref holds its source's number, so numbers are given once and never again. A file is known by
its path and beginning. A digest of all bytes that were judged tells whether they still are the
same: then the file goes on where it ended; one that has changed is refused, since its records no
longer are the ones that were judged. A pipe has no name of its own: it is known by the digests at
the ends of its first records, and one that begins otherwise is another source. Each partition of a
topic is a source; the topic is known by its name and its id, which it has only until it is made
anew.

An index may be moved or restored at another place, with its inputs and outputs or without: a file
under a new path is the one that was known under another if that is gone, or led to it from where
the index lay, and if it holds what is known of that.
"""

from __future__ import annotations

import itertools
import os
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import msgspec

from streamer.errors import StoreMismatch
from streamer.model import SOURCES_MAX, Location, split_ref
from streamer.pages.bytestream import Mark, Trail
from streamer.pages.files import FileIdentity, Source
from streamer.run.outputs import STANDARD_OUTPUT, begun_by, content_digest, output_key
from streamer.run.stages import Locate
from streamer.run.totals import Totals

SECOND_JUDGEMENTS = "dead letters"  # no path is: those are resolved, or name standard input
ADDED = "added"  # nor is this, in verdicts on pages that a program adds


class SourceEntry(msgspec.Struct):
    """One source: its name in verdicts, its identity (None: a pipe), what was read of it.

    `position` is the ordinal of the first record that is not judged yet, `mark` the place in the
    expanded stream before it, and the digest of all bytes up to there. `finished` tells whether the
    file had ended there, `status` is the file's as it was then (files.status_of). `heads` are the
    places behind the first records of a pipe, and `partition` numbers pipes of one name.

    `topic_id` is "" for files; for a partition of a topic `name` is the topic's, and positions are
    offsets.

    `mapping` is the id of the field mapping under which it was read last. `rescued` tells of which
    records the dead letters have been judged after all: begin, end, begin, end, ..., ascending.
    """

    name: str
    path: str
    identity: tuple[int, str, int] | None
    position: int = 0
    mark: Mark = Mark()
    finished: bool = False
    status: tuple[int, ...] = ()
    heads: list[Mark] = []
    partition: int = 0
    topic_id: str = ""
    mapping: str = ""
    rescued: list[int] = []

    def is_rescued(self, ordinal: int) -> bool:
        """Tell whether the dead letter of a record has been judged after all."""
        return bool(bisect_right(self.rescued, ordinal) % 2)

    def rescue(self, ordinal: int) -> None:
        """Note that it has."""
        if self.is_rescued(ordinal):
            return
        for limit in (ordinal, ordinal + 1):
            at = bisect_right(self.rescued, limit)
            if at and self.rescued[at - 1] == limit:  # a neighbour's, which is none any more
                del self.rescued[at - 1]
            else:
                self.rescued.insert(at, limit)


class Catalogue(msgspec.Struct, dict=True):  # a dict for what is cached
    """The replay's own part of an index's state, stored with each flush.

    `outputs` holds the bytes of each output file that belong to the flushed state, `digests` what
    they are, by resolved paths; `order` the id of the log in whose order a topic was read, "" for
    none. `folder` is where the index lies, `folder_before` where it lay before it was moved.
    """

    entries: list[SourceEntry] = []
    outputs: dict[str, int] = {}
    totals: Totals = msgspec.field(default_factory=Totals)
    order: str = ""
    digests: dict[str, str] = {}
    folder: str = ""
    folder_before: str = ""

    def lie_in(self, folder: Path) -> None:
        """Take note of where the index lies now."""
        now = str(folder.resolve())
        if now != self.folder:
            self.folder, self.folder_before = now, self.folder

    def _path_before(self, path: str) -> str:
        """Return where a file would have lain before the index was moved, if it was with it."""
        if not self.folder_before:
            return path
        way = os.path.relpath(path, self.folder)
        return os.path.normpath(Path(self.folder_before, way))

    def known_length(self, name: str, fingerprint: str) -> int | None:
        """Return how much of an output is of the index's state; None if nothing is.

        `fingerprint` is the index's, which its verdicts carry.

        Raises:
            StoreMismatch: the file holds something else than the index has written to it.
        """
        key = output_key(name)
        if key not in self.outputs:
            self._rename_output(key, fingerprint)
        length, digest = self.outputs.get(key), self.digests.get(key)
        found = content_digest(Path(name), length or 0)
        if found and digest and found != digest:
            raise StoreMismatch(
                f"{name} is not the file that the index has written: it holds something else. "
                "Put the file back, or name another one for what is still to come."
            )
        return length

    def _rename_output(self, key: str, fingerprint: str) -> None:
        """Know an output by the path `key`, if it lay elsewhere before."""
        path, before = Path(key), self._path_before(key)
        if key == STANDARD_OUTPUT or not path.is_file() or not path.stat().st_size:
            return
        same = [
            known
            for known, digest in self.digests.items()
            if digest and content_digest(path, self.outputs[known]) == digest
        ]
        if not same and self.outputs.get(before) == 0 and begun_by(path, fingerprint):
            same = [before]  # nothing of it was flushed yet
        if same:
            known = max(same, key=self.outputs.__getitem__)
            self.outputs[key] = self.outputs[known]
            self.digests[key] = self.digests.get(known, "")
            if not _exists(known):
                del self.outputs[known]
                self.digests.pop(known, None)

    def locator(self) -> Locate:
        """Return a function from a page ref to its place."""
        places: list[tuple[str, int]] = []

        def locate(ref: int) -> Location:
            source, sequence = split_ref(ref)
            if source >= len(places):
                places[:] = [(entry.name, entry.partition) for entry in self.entries]
            name, partition = places[source]
            return Location(name, partition, sequence)

        return locate

    def enter(self, source: Source) -> int:
        """Return the number of the file `source`, entering it if it is new.

        Raises:
            StoreMismatch: the file is another one than the index has read under this path.
            InputError: the file cannot be read.
        """
        for number in self._by_path[os.path.realpath(source.name)]:
            entry = self.entries[number]
            if entry.identity and entry.finished and entry.status == source.status():
                return number  # which nobody has written to
        identity = source.identity()
        assert identity is not None, source
        known = (identity.size_bytes, identity.head_digest, identity.head_bytes)
        if identity.size_bytes:
            self._rename_source(identity, source)
        for number in self._by_path[identity.path]:
            entry = self.entries[number]
            if entry.identity:
                _check_same(entry, source)
                entry.finished, entry.identity = False, known
                return number
        return self._add(SourceEntry(source.name, identity.path, known))

    def enter_stream(self, name: str, look: Callable[[int], bytes]) -> int:
        """Return the number of a pipe, of which `look` gives the first bytes, entering a new one.

        Of those that have this name it is the one that begins with the same records.

        Raises:
            StoreMismatch: there are too many sources.
        """
        known = [
            (number, entry)
            for number, entry in enumerate(self.entries)
            if entry.path == name and entry.identity is None and not entry.topic_id
        ]
        head = look(max((entry.heads[-1].offset for _, entry in known if entry.heads), default=0))
        for number, entry in known:
            if entry.position and _begins_alike(entry.heads, head):
                return number
        for number, entry in known:
            if not entry.position:
                return number
        return self._add(SourceEntry(name, name, None, partition=len(known)))

    def enter_partition(self, topic: str, topic_id: str, partition: int) -> int:
        """Return the number of a topic's partition, entering it if it is new.

        Raises:
            StoreMismatch: the topic was made anew since the index read it.
        """
        for number, entry in enumerate(self.entries):
            if entry.topic_id and (entry.name, entry.partition) == (topic, partition):
                if entry.topic_id != topic_id:
                    raise StoreMismatch(
                        f"The index has read the topic {topic} with the id {entry.topic_id}, now "
                        f"it has the id {topic_id}: it was made anew, and its offsets name other "
                        "pages. Start over with a new --index."
                    )
                return number
        return self._add(SourceEntry(topic, "", None, partition=partition, topic_id=topic_id))

    def enter_second_judgements(self) -> int:
        """Return the number under which records are judged that had been dead letters before."""
        for number, entry in enumerate(self.entries):
            if entry.path == SECOND_JUDGEMENTS:
                return number
        return self._add(SourceEntry(SECOND_JUDGEMENTS, SECOND_JUDGEMENTS, None, finished=True))

    def enter_added(self) -> int:
        """Return the number of the source of pages that a program adds one by one."""
        for number, entry in enumerate(self.entries):
            if entry.path == ADDED:
                return number
        return self._add(SourceEntry(ADDED, ADDED, None, finished=True))

    def copied(self) -> Catalogue:
        """Return a copy that no later change of this one reaches."""
        return unpack_catalogue(pack_catalogue(self))  # five times as fast as copy.deepcopy

    def _rename_source(self, identity: FileIdentity, source: Source) -> None:
        """Know a file by its path now, if it lay elsewhere before and goes on as what was read."""
        path = identity.path
        if self._by_path[path] or not (self._gone or self.folder_before):
            return
        head = identity.head_bytes, identity.head_digest
        gone = self._gone[head] + self._gone[_name(path)]
        moved = [number for number in gone if not _exists(self.entries[number].path)]  # none is new
        moved += [n for n in self._by_path[self._path_before(path)] if self.entries[n].identity]
        moved = [number for number in moved if _is_continued(self.entries[number], source)]
        if moved:
            self._move(max(moved, key=lambda number: _likeness(self.entries[number], path)), path)

    def _move(self, number: int, path: str) -> None:
        """Know a source by another path from now on."""
        entry = self.entries[number]
        self._by_path[entry.path].remove(number)
        self._by_path[path].append(number)
        entry.path = path

    @cached_property
    def _by_path(self) -> defaultdict[str, list[int]]:
        """The numbers of the sources by their paths."""
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for number, entry in enumerate(self.entries):
            numbers[entry.path].append(number)
        return numbers

    @cached_property
    def _gone(self) -> defaultdict[str | tuple[int, str], list[int]]:
        """The files that were gone when this run began, by their beginning and by their name."""
        gone: defaultdict[str | tuple[int, str], list[int]] = defaultdict(list)
        for number, entry in enumerate(self.entries):
            if entry.identity and entry.identity[0] and not _exists(entry.path):
                _, digest, covered = entry.identity
                gone[covered, digest].append(number)
                gone[_name(entry.path)].append(number)
        return gone

    def _add(self, entry: SourceEntry) -> int:
        if len(self.entries) >= SOURCES_MAX:
            raise StoreMismatch(f"An index takes {SOURCES_MAX} sources at most. Build a new index.")
        self._by_path[entry.path].append(len(self.entries))
        self.entries.append(entry)
        return len(self.entries) - 1


def _name(path: str) -> str:
    return path.rpartition("/")[2]  # of many thousand: pathlib takes ten times as long


def _exists(path: str) -> bool:
    """Tell whether there is something at a path; where that cannot be told, there is."""
    try:
        os.stat(path)  # noqa: PTH116 - of many thousand
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        pass
    return True


def _likeness(entry: SourceEntry, path: str) -> tuple[int, int]:
    """Return how likely a file lies at `path` now: how much of the path is equal, and its size."""
    pairs = zip(reversed(Path(entry.path).parts), reversed(Path(path).parts), strict=False)
    equal = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))
    return equal, entry.identity[0] if entry.identity else 0


def _is_continued(entry: SourceEntry, source: Source) -> bool:
    """Tell whether a file begins with what is known of one and is no shorter."""
    if entry.identity is None:
        return True
    return FileIdentity(entry.path, *entry.identity).continued_by(source.name)


def _check_same(entry: SourceEntry, source: Source) -> None:
    """Raise StoreMismatch where a file's beginning tells; compressed, it may differ in vain."""
    if not source.is_converted() and not _is_continued(entry, source):
        raise StoreMismatch(changed(source.name, "its beginning or its size is another than then"))


def _begins_alike(heads: list[Mark], head: bytes) -> bool:
    """Tell whether a stream whose first bytes are `head` begins with the records at `heads`.

    One that ends before must end behind one of them, and is to be told apart from then on.
    """
    trail = Trail()
    for number, mark in enumerate(heads):
        part = head[trail.offset : mark.offset]
        if trail.offset + len(part) == mark.offset - 1:
            part += b"\n"  # a last line counts without
        if trail.offset + len(part) < mark.offset:
            return bool(number) and not part.strip()
        trail.take(part)
        if trail.mark() != mark:
            return False
    return bool(heads)


def changed(name: str, what: str) -> str:
    """Return the message about a file that is not the one the index has read."""
    return (
        f"{name} has changed since the index read it: {what}. Give the new pages under another "
        "name, or start over with a new --index."
    )


def pack_catalogue(catalogue: Catalogue) -> bytes:
    """Return the catalogue as bytes."""
    return msgspec.msgpack.encode(catalogue)


def own_catalogue(data: bytes, index: str) -> Catalogue:
    """Return the catalogue of the index called `index`; an empty one for b"".

    Raises:
        StoreMismatch: the index is a worker's, which keeps no catalogue.
    """
    if data and "entries" not in msgspec.msgpack.decode(data):
        raise StoreMismatch(
            f"The index {index} is a worker's shard. Name another folder with --index."
        )
    return unpack_catalogue(data)


def unpack_catalogue(data: bytes) -> Catalogue:
    """Return the catalogue in `data`; an empty one for b""."""
    return msgspec.msgpack.decode(data, type=Catalogue) if data else Catalogue()
