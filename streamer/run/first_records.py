"""The first records of a source: whether they are what they are taken for.

Where the first records of a source all fail in one way, the field mapping does not fit them, as a
rule, or they are no pages at all, and a run over the rest would make dead letters of everything. So
the first records that fail are held back, and do not count as read, until one is a page, or fails
in another way. A thousand that do not end the run, and so does a source of ten or more that has no
others; fewer than ten do only where neither the run nor the index has anything else. A source that
the index has read under the same mapping before is not held up, unless it is by the archives that
its lines name: these may be looked for in the wrong place now.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from streamer.errors import InvalidPage, SettingsError
from streamer.pages.chunk import Rejected
from streamer.pages.extract import read_message
from streamer.pages.mapping import FieldMapping
from streamer.run.catalogue import Catalogue

RECORDS_MAX = 1_000
_RECORDS_MIN = 10  # fewer are no sign of anything
_HELD_BYTES_MAX = 64 << 20  # of what is read and held back
_NAMES_MAX = 20
_NAME_CHARACTERS_MAX = 40

_FIELD_CODES = {"missing_url": "url", "missing_body": "body", "bad_base64": "body"}
_OF_ARCHIVES = {"archive_unreadable", "wrong_record"}
_REASONS = {
    "invalid_json": "it is probably not what it is taken for, JSON with one object a record",
    "not_an_object": "it is probably not what it is taken for, JSON with one object a record",
    "no_registry": "its messages name their schema; give the registry with --registry-url",
    "unknown_schema": "--registry-url is probably that of another registry",
    "archive_unreadable": "--cdx-base is probably not where its archives are",
    "bad_cdx_line": "it is probably no CDX, or lacks the columns for file, offset and length",
    "wrong_record": "its archives are probably others than those that it was made of",
    "schema_unavailable": "the registry refuses their schema; look at the rights of "
    "--registry-username",
    "empty_body": "its pages have no text, or --fields or --preset looks in the wrong place",
}


class FirstRecords:
    """Tells which sources' records may be taken; all partitions of a topic are one source here."""

    def __init__(self, catalogue: Catalogue, mapping: FieldMapping, *, keep_going: bool) -> None:
        self._catalogue = catalogue
        self._mapping = mapping
        self._id = mapping.id
        self._keep_going = keep_going
        self._passed: set[str] = set()  # sources with a page, or with different failures
        self._way = ""  # how all records on trial fail; "" where none are
        self._first: tuple[str, Rejected] | None = None  # the first one on trial, and its source
        self._count = self._bytes = 0

    @property
    def undecided(self) -> bool:
        """Return whether what was read has to be held back."""
        return bool(self._way)

    def see(self, source: int, pages: int, dead: Sequence[Rejected], held_bytes: int) -> None:
        """Look at what was read next, which takes so many bytes while it is held back.

        `pages` counts those that a rule leaves out, too. Skipped records say nothing of a mapping,
        but take memory as well. Where too much is held for a few failures, they are no sign of
        anything, and the source passes.

        Raises:
            SettingsError: all records so far fail in the same way.
        """
        entry = self._catalogue.entries[source]
        # What is cut off says nothing of its mapping, and ends the reading of its source anyway.
        dead = [each for each in dead if each.code != "truncated_input"]
        if not self._way and (
            self._keep_going
            or entry.name in self._passed
            or (entry.mapping == self._id and self._goes_on(entry.name, pages, dead))
        ):
            return
        ways = {_way(each) for each in dead}
        if self._first and self._first[0] == entry.name:
            ways.add(self._way)
        if pages or len(ways) > 1:
            self._pass(entry.name)
            return
        if dead and self._first and self._way not in ways:
            self._pass(self._first[0])  # it was short, and this one fails in its own way
            self.see(source, pages, dead, held_bytes)
            return
        if dead and self._first is None:
            self._way = _way(dead[0])
            self._first = (entry.name, dead[0])
        if self._first is None:
            return
        self._count += len(dead)
        self._bytes += held_bytes
        if self._count >= RECORDS_MAX or self._bytes >= _HELD_BYTES_MAX:
            self._stop_unless_few()
            self._pass(self._first[0])

    def _goes_on(self, name: str, pages: int, dead: Sequence[Rejected]) -> bool:
        """Return whether a source of a known mapping need not be held up by its archives."""
        codes = {each.code for each in dead}
        if pages or codes - _OF_ARCHIVES:
            self._passed.add(name)
        return bool(pages or codes - _OF_ARCHIVES or not codes)

    def see_end(self, source: int) -> None:
        """Look at the end of a source.

        Raises:
            SettingsError: as `see`.
        """
        entry = self._catalogue.entries[source]
        if self._way and not entry.topic_id:
            self._stop_unless_few()
            if self._passed:
                self._pass(entry.name)

    def see_all(self) -> None:
        """Look at the end of everything.

        Raises:
            SettingsError: as `see`; now however few they are, unless the index has pages.
        """
        if self._way:
            self._stop_unless_few()
            totals = self._catalogue.totals
            if not (totals.unique or totals.duplicates):
                raise SettingsError(self._message())
            self._pass("")

    def _pass(self, name: str) -> None:
        self._passed.add(name)
        self._way, self._first = "", None
        self._count = self._bytes = 0

    def _stop_unless_few(self) -> None:
        if self._count >= _RECORDS_MIN:
            raise SettingsError(self._message())

    def _message(self) -> str:
        assert self._first is not None, self._way
        name, example = self._first
        return (
            f"The first {self._count:,} records of {name} all fail with {example.code} "
            f"({example.detail or 'as the first one, record ' + str(example.sequence)}): "
            f"{self._reason(example)}. Nothing of them is recorded as read; correct that, or give "
            "--keep-going to make dead letters of them."
            if self._count > 1
            else f"The only record of {name} fails with {example.code} ({example.detail}): "
            f"{self._reason(example)}. It is not recorded as read; correct that, or give "
            "--keep-going to make a dead letter of it."
        )

    def _reason(self, example: Rejected) -> str:
        """Return what is probably wrong, with the names of the fields that the record has."""
        reason = _REASONS.get(example.code)
        if reason:
            return reason
        field = _FIELD_CODES.get(example.code)
        if field is None and example.code == "wrong_type":
            field = example.detail.partition(":")[0]
        places = _places(self._mapping, field) if field else ""
        names = field_names(example.value)
        if not places or not names:
            return "the input, or --fields or --preset, is probably not the one that was meant"
        return (
            f"--fields or --preset probably does not fit, it looks for the {field} at {places}, "
            f"and record {example.sequence} has {', '.join(names)}"
        )


def _way(rejected: Rejected) -> str:
    """Return in which way a record fails: its code, and what has a wrong type."""
    if rejected.code == "wrong_type":
        return f"{rejected.code} {rejected.detail}"
    return rejected.code


def _places(mapping: FieldMapping, field: str) -> str:
    """Return where a mapping looks for a field, as pointers."""
    fields = ("body", "body_base64") if field == "body" else (field,)
    found = [tokens for name in fields for tokens in getattr(mapping, name, ())]
    return " or ".join(_pointer(tokens) for tokens in found)


def field_names(value: bytes) -> list[str]:
    """Return the pointers of a message's fields, two levels deep; none if it is no JSON object."""
    names: list[str] = []
    try:
        for name, raw in read_message(value).items():
            try:
                inner = list(msgspec.json.decode(raw, type=dict[str, msgspec.Raw]))
            except (msgspec.MsgspecError, RecursionError):
                inner = []
            names += [_pointer((name, each)) for each in inner] or [_pointer((name,))]
    except InvalidPage:
        return []
    more = [f"{len(names) - _NAMES_MAX:,} more"] if len(names) > _NAMES_MAX else []
    return names[:_NAMES_MAX] + more


def _pointer(tokens: tuple[str, ...]) -> str:
    """Return tokens as a JSON Pointer that can be shown."""
    parts = (token.replace("~", "~0").replace("/", "~1") for token in tokens)
    shown = (part[:_NAME_CHARACTERS_MAX] for part in parts)
    return "".join(f"/{part}" if part.isprintable() else f"/{part!r}" for part in shown)
