"""The catalogue: the sources of an index by number, and how far and what of each has been judged.

A page ref holds its source's number, so numbers are given once and never again. A file is known by
its path and beginning. A digest of all bytes that were judged shows whether they still are the
same: then the file goes on where it ended; one that has changed is refused, since its records no
longer are the ones that were judged. A file in an object store or on a web server is known by its
URL, and as unchanged by its size and version; under another version what was judged is compared. A
pipe has no name of its own: it is known by the digests at the ends of its first records, and one
that begins otherwise is another source. Each partition of a topic is a source; the topic is known
by its name and its id, which it has only until it is made again.

Where files or outputs were moved, the user says so (`move`). A new file that looks like one that is
gone is refused: its pages would become duplicates of themselves.
"""

# A file is not read again while its size, times and inode are unchanged; an inode's change time
# cannot be set. XXH3 of 128 bits (0.3 us per 4 kB) detects mistakes, not forgeries. A name for each
# pipe would do as well as its first records, but a killed run that is repeated without it would
# call its first pages duplicates.

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from streamer.errors import InputError, SettingsError, StoreMismatch, damage_error, is_utf8
from streamer.index.codec import SOURCES, Entry, StoreMeta, entry_key
from streamer.model import SOURCES_MAX, Location, split_ref
from streamer.pages.bytestream import Mark, Trail
from streamer.pages.identity import FileIdentity, folder_resolver
from streamer.run.output_checks import Made, content_digest, file_state, output_key
from streamer.run.stages import Locate
from streamer.run.totals import Totals
from streamer.stored.store import Store

if TYPE_CHECKING:
    from streamer.pages.files import Source  # which imports all formats

ENTRIES_A_BLOCK = 256
ADDED = "added"  # of pages that a program adds; no path is, as those are resolved


class SourceEntry(msgspec.Struct, omit_defaults=True):
    """One source: its name in verdicts, its identity (None: a pipe), what was read of it.

    `position` is the ordinal of the first record that is not judged yet, `mark` the place in the
    expanded stream before it, and the digest of all bytes up to there. `finished` says whether the
    file had ended there, `status` is the file's as it was then (`status_of`). `heads` are the
    places after the first records of a pipe, and `partition` numbers sources of one name.

    `topic_id` is "" for files; for a partition of a topic `name` is the topic's, and positions are
    offsets.

    `mapping` is the id of the field mapping under which it was read last.
    """

    name: str
    path: str
    identity: FileIdentity | None
    position: int = 0
    mark: Mark = Mark()
    finished: bool = False
    status: tuple[int, ...] = ()
    heads: list[Mark] = []
    partition: int = 0
    topic_id: str = ""
    mapping: str = ""


class Catalogue(msgspec.Struct, dict=True):  # a dict for what is cached
    """The replay's own part of an index's state, stored with each flush.

    `outputs` holds the bytes of each output file that belong to the flushed state, `digests` what
    they are, by resolved paths; `order` the id of the log in whose order a topic was read, "" for
    none.

    Entries are stored apart, in blocks of which a flush writes those that have changed; `apart`
    says in the state how many they are.

    `roles` names the option of each output that pages themselves are written to. `made` has the
    last two states of each file that is made when a run ends: a kill may leave either.

    The order of judgement is that of the sources, unless `by_turns`: a source was judged further
    when a later one, up to `last_source`, had been.
    """

    entries: list[SourceEntry] = []
    outputs: dict[str, int] = {}
    totals: Totals = msgspec.field(default_factory=Totals)
    order: str = ""
    digests: dict[str, str] = {}
    apart: int = 0
    roles: dict[str, str] = {}
    made: dict[str, list[Made]] = {}
    last_source: int = -1
    by_turns: bool = False

    def __post_init__(self) -> None:
        self._changed = set[int]()  # blocks of entries that the next flush is to write
        self._resolved = folder_resolver()

    def note_order(self, source: int) -> None:
        """Note that records of a source are judged now."""
        self.by_turns |= source < self.last_source
        self.last_source = max(source, self.last_source)

    def move(self, prefixes: Iterable[str]) -> None:
        """Know files and outputs by their new paths; each of `prefixes` is OLD=NEW.

        A path may contain a = itself, so the first OLD counts under which something is known.

        Raises:
            SettingsError: one of them has no =.
        """
        for given in prefixes:
            if "=" not in given:
                why = f"--moved {given} is not OLD=NEW. Give the old path and the new."
                raise SettingsError(why)
            for at in (place for place, character in enumerate(given) if character == "="):
                if self._move(given[:at], given[at + 1 :]):
                    break

    def _move(self, old: str, new: str) -> bool:
        """Replace a prefix of the paths where nothing is any more; return whether any has it."""
        old, new = (os.path.realpath(path).rstrip("/") for path in (old, new))

        def renamed(path: str) -> str:
            is_below = path == old or path.startswith(f"{old}/")
            return new + path[len(old) :] if is_below and not os.path.lexists(path) else path

        moved = [n for n, entry in enumerate(self.entries) if entry.path != renamed(entry.path)]
        for number in moved:
            entry = self.to_change(number)
            entry.path = renamed(entry.path)
        known = {*self.outputs}
        for name in ("outputs", "digests", "roles", "made"):
            setattr(self, name, {renamed(key): own for key, own in getattr(self, name).items()})
        return bool(moved) or known != {*self.outputs}

    def known_length(self, name: str) -> int | None:
        """Return how much of an output is of the index's state; None if nothing is.

        Raises:
            StoreMismatch: the file holds something else than the index has written to it.
        """
        key = output_key(name)
        length, digest = self.outputs.get(key), self.digests.get(key)
        found = content_digest(Path(name), length or 0)
        if found and digest and found != digest:
            raise StoreMismatch(
                f"{name} is not the file that the index has written: it holds something else. "
                "Put the file back, or name another one for what is still to come."
            )
        return length

    def note_made(self, name: str, part: Path) -> bool:
        """Note that a file becomes what `part` is; return whether that was not noted before."""
        states, now = self.made.get(output_key(name), []), file_state(part)
        self.made[output_key(name)] = [file_state(Path(name)), now]
        return now not in states

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
        path = self._resolved(source.name)
        if not (path.isascii() or is_utf8(Path(path))):
            raise InputError(f"{source.name}: its path {path!r} is not UTF-8; rename the folder")
        for number in self._by_path.get(path, ()):
            entry = self.entries[number]
            if entry.identity and entry.finished and entry.status == source.status():
                return number  # which nobody has written to
        identity = source.identity()
        assert identity is not None, source
        for number in self._by_path[path]:
            entry = self.entries[number]
            if entry.identity:
                if source.remote is None:  # else its records are compared when they are read
                    _check_same(entry, source)
                self.to_change(number)
                entry.finished, entry.identity = False, identity
                return number
        self._check_not_moved(source.name, path, identity)
        return self._add(self._name_apart(SourceEntry(source.name, path, identity)))

    def is_same(self, number: int, source: Source) -> bool:
        """Return whether a file is the source of a number still, by its status or its beginning.

        Raises:
            InputError: the file cannot be read.
        """
        entry = self.entries[number]
        return entry.status == source.status() or _is_continued(entry, source)

    def enter_stream(self, name: str, look: Callable[[int], bytes]) -> int:
        """Return the number of a pipe, of which `look` gives the first bytes, entering a new one.

        Of those that have this name it is the one that begins with the same records.

        Raises:
            StoreMismatch: there are too many sources.
        """
        named = [(n, each) for n, each in enumerate(self.entries) if each.path == name]
        known = [(n, each) for n, each in named if each.identity is None and not each.topic_id]
        head = look(max((entry.heads[-1].offset for _, entry in known if entry.heads), default=0))
        begun = [n for n, each in known if each.position and _begins_alike(each.heads, head)]
        if found := [*begun, *(number for number, entry in known if not entry.position)]:
            return found[0]
        return self._add(self._name_apart(SourceEntry(name, name, None)))

    def enter_partition(self, topic: str, topic_id: str, partition: int) -> int:
        """Return the number of a topic's partition, entering it if it is new.

        Raises:
            StoreMismatch: the topic was made again since the index read it.
        """
        for number, entry in enumerate(self.entries):
            if entry.topic_id and (entry.name, entry.partition) == (topic, partition):
                if entry.topic_id != topic_id:
                    raise StoreMismatch(
                        f"The index has read the topic {topic} with the id {entry.topic_id}, now "
                        f"it has the id {topic_id}: it was made again, and its offsets name other "
                        "pages. Start over with a new --index."
                    )
                return number
        return self._add(SourceEntry(topic, "", None, partition=partition, topic_id=topic_id))

    def enter_added(self) -> int:
        """Return the number of the source of pages that a program adds one by one."""
        for number, entry in enumerate(self.entries):
            if entry.path == ADDED:
                return number
        return self._add(SourceEntry(ADDED, ADDED, None, finished=True))

    def copied(self) -> Catalogue:
        """Return a copy that no later change of this one reaches."""
        return unpack_catalogue(pack_catalogue(self))  # five times as fast as copy.deepcopy

    def to_change(self, number: int) -> SourceEntry:
        """Return an entry, which the next flush is to write."""
        self._changed.add(number // ENTRIES_A_BLOCK)
        return self.entries[number]

    def to_flush(self) -> tuple[Catalogue, list[Entry]]:
        """Return what a flush writes: a copy without entries, and the blocks that have changed.

        They count as written from here on: where a flush fails, the catalogue has to be read again.
        """
        state = msgspec.structs.replace(self, entries=[], apart=len(self.entries)).copied()
        starts = [block * ENTRIES_A_BLOCK for block in sorted(self._changed)]
        parts = [self.entries[start : start + ENTRIES_A_BLOCK] for start in starts]
        keys = (entry_key(SOURCES, start // ENTRIES_A_BLOCK) for start in starts)
        blocks = [*zip(keys, map(msgspec.msgpack.encode, parts), strict=True)]
        self._changed.clear()
        return state, blocks

    def read_entries(self, store: Store) -> None:
        """Read the entries that are stored apart from the state.

        Raises:
            StoreDamaged: one is missing or does not fit.
        """
        if not self.apart:
            return
        try:
            for _, block in entry_blocks(store, self.apart):
                self.entries += msgspec.msgpack.decode(block, type=list[SourceEntry])
        except msgspec.MsgspecError as error:
            what = f"a block of its sources does not fit: {error}"
            raise damage_error(store.path, what) from error
        if len(self.entries) != self.apart:
            raise damage_error(store.path, f"it has {len(self.entries)} of {self.apart} sources")
        self.apart = 0
        self._changed.clear()

    def _check_not_moved(self, name: str, resolved: str, identity: FileIdentity) -> None:
        """Raise StoreMismatch where a new file looks like one that was judged and is gone."""
        for path in self._judged.get(identity, ()):
            if not os.path.lexists(path):
                old, new = Path(path), Path(resolved)
                while old.name == new.name and old.name:  # what both have at their ends
                    old, new = old.parent, new.parent
                raise StoreMismatch(
                    f"{name} has the size and the beginning of {path}, which the index has judged "
                    f"and which is not there any more: give `replay` --moved {old}={new} if it was "
                    "moved, or a new --index."
                )

    @cached_property
    def _judged(self) -> dict[FileIdentity, list[str]]:
        """The paths of the files of which something was judged when the run began."""
        paths: defaultdict[FileIdentity, list[str]] = defaultdict(list)
        for entry in self.entries:
            if entry.identity and entry.identity.head_bytes and entry.position:
                paths[entry.identity].append(entry.path)
        return paths

    @cached_property
    def _by_path(self) -> defaultdict[str, list[int]]:
        """The numbers of the sources by their paths."""
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for number, entry in enumerate(self.entries):
            numbers[entry.path].append(number)
        return numbers

    @cached_property
    def _named(self) -> Counter[str]:
        """How many files and pipes have a name."""
        return Counter(entry.name for entry in self.entries if not entry.topic_id)

    def _name_apart(self, entry: SourceEntry) -> SourceEntry:
        """Return the entry of a new file or pipe under a name that no other one has.

        Two folders may have files of one name, as it was given there. The second one is called by
        its path. If that is taken too, as by a file that was moved, it is another partition, as
        pipes of one name are.
        """
        if self._named[entry.name]:
            entry.name = entry.path
        entry.partition = self._named[entry.name]
        self._named[entry.name] += 1
        return entry

    def _add(self, entry: SourceEntry) -> int:
        if len(self.entries) >= SOURCES_MAX:
            raise StoreMismatch(f"An index takes {SOURCES_MAX} sources at most. Build a new index.")
        self._by_path[entry.path].append(len(self.entries))
        self.entries.append(entry)
        self.to_change(len(self.entries) - 1)
        return len(self.entries) - 1


def _is_continued(entry: SourceEntry, source: Source) -> bool:
    """Return whether a file begins with what is known of one and is no shorter."""
    if entry.identity is None:
        return True
    return entry.identity.is_continued_by(source.name)


def _check_same(entry: SourceEntry, source: Source) -> None:
    """Raise StoreMismatch where a file's beginning differs; not of a compressed file."""
    with source.open() as records:
        is_converted = records.is_converted
    if not is_converted and not _is_continued(entry, source):
        what = "its beginning or its size is another than then"
        raise StoreMismatch(describe_change(source.name, what))


def _begins_alike(heads: list[Mark], head: bytes) -> bool:
    """Return whether a stream whose first bytes are `head` begins with the records at `heads`.

    One that ends before must end after one of them, and is distinguished from then on.
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


def describe_change(name: str, what: str) -> str:
    """Return the message about a file that is not the one the index has read."""
    return (
        f"{name} has changed since the index read it: {what}. Give the new pages under another "
        "name, or start over with a new --index."
    )


def pack_catalogue(catalogue: Catalogue) -> bytes:
    """Return the catalogue as bytes."""
    return msgspec.msgpack.encode(catalogue)


def is_of_replay(meta: StoreMeta) -> bool:
    """Return whether an index is that of a replay or a program: it has sources of its own."""
    return "entries" in msgspec.msgpack.decode(meta.owner)


def open_catalogue(store: Store, folder: Path) -> Catalogue:
    """Return the catalogue of a replay's index in `folder`; an empty one where nothing is flushed.

    Raises:
        StoreDamaged: a part of it is missing or does not fit.
        StoreMismatch: the index is a worker's, which keeps no catalogue.
    """
    if store.meta is None:
        return Catalogue()
    if not is_of_replay(store.meta):
        why = f"The index {folder} is a worker's shard. Name another folder with --index."
        raise StoreMismatch(why)
    return read_catalogue(store, store.meta)


def unpack_catalogue(data: bytes) -> Catalogue:
    """Return the catalogue in `data`; an empty one for b""."""
    return msgspec.msgpack.decode(data, type=Catalogue) if data else Catalogue()


def read_catalogue(store: Store, meta: StoreMeta) -> Catalogue:
    """Return the catalogue of an index that is open for reading.

    Raises:
        StoreDamaged: a part of it is missing or does not fit.
    """
    catalogue = unpack_catalogue(meta.owner)
    catalogue.read_entries(store)
    return catalogue


def entry_blocks(store: Store, entries: int) -> list[Entry]:
    """Return the blocks of so many entries, as they are stored.

    Raises:
        StoreDamaged: one is missing.
    """
    found = []
    for block in range(-(-entries // ENTRIES_A_BLOCK)):
        key = entry_key(SOURCES, block)
        if (data := store.note(key)) is None:
            raise damage_error(store.path, f"block {block} of its sources is missing")
        found.append((key, data))
    return found
