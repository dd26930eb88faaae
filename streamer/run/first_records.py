"""The first records of a source: whether they are what they are taken for.

Where all records of the first chunk of a source fail in one way, the field mapping does not fit
them, as a rule, or they are no pages at all, and a run over the rest would make dead letters of
everything. So the run ends before anything of that chunk counts as read. Fewer than ten records
are no sign of anything, nor is what follows records that were read under the same mapping, unless
it is the archives that fail: these may be looked for in the wrong place now.
"""

from collections.abc import Sequence

import msgspec

from streamer.errors import InvalidPage, SettingsError
from streamer.pages.chunk import RejectedRecord
from streamer.pages.mapping import FieldMapping
from streamer.pages.message import read_message

_RECORDS_MIN = 10
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
    """Refuses sources whose first records all fail; all partitions of a topic are one source."""

    def __init__(self, mapping: FieldMapping, *, keep_going: bool) -> None:
        self._mapping = mapping
        self._keep_going = keep_going
        self._passed: set[str] = set()

    def check(
        self, name: str, pages: int, dead: Sequence[RejectedRecord], *, known: bool = False
    ) -> None:
        """Look at a chunk of a source: the number of its pages, and the records that fail.

        Only the first chunk of a source that has any of these is looked at. `known`: records of it
        were read under this mapping in another run.

        Raises:
            SettingsError: ten records or more fail in the same way, and none is a page.
        """
        if self._keep_going or name in self._passed or not (pages or dead):
            return
        # A record that is cut off says nothing of the mapping.
        dead = [each for each in dead if each.code != "truncated_input"]
        ways = {each.code + each.detail * (each.code == "wrong_type") for each in dead}
        fail_alike = len(dead) >= _RECORDS_MIN and len(ways) == 1
        if fail_alike and not pages and not (known and dead[0].code not in _OF_ARCHIVES):
            raise SettingsError(
                f"The first {len(dead):,} records of {name} all fail with {dead[0].code} "
                f"({dead[0].detail or f'as the first one, record {dead[0].sequence}'}): "
                f"{self._reason(dead[0])}. Nothing of them is recorded as read; correct that, or "
                "give --keep-going to make dead letters of them."
            )
        self._passed.add(name)

    def _reason(self, example: RejectedRecord) -> str:
        """Return what is probably wrong, with the names of the fields that the record has."""
        if reason := _REASONS.get(example.code):
            return reason
        wrong_type = example.code == "wrong_type"
        field = example.detail.partition(":")[0] if wrong_type else _FIELD_CODES.get(example.code)
        places = _places(self._mapping, field) if field else ""
        names = field_names(example.value)
        if not places or not names:
            return "the input, or --fields or --preset, is probably not the one that was meant"
        return (
            f"--fields or --preset probably does not fit, it looks for the {field} at {places}, "
            f"and record {example.sequence} has {', '.join(names)}"
        )


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
