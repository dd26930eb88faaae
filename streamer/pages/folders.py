"""Which files of a folder are about its pages, and are none: they are passed over, and counted.

Tools leave files next to their data: logs of tables, marks of success, indexes, settings of a site.
Such a file is known by its name and place, a JSON document also by its content: next to files of
other formats it is no page if it has no field for a page's body. With `--include` only hidden files
and those that a table has removed are passed over, and none that a pattern of a path fits.
"""

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from streamer.errors import InputError, needs_extra
from streamer.pages.extras import parquet

UNKNOWN, BESIDE, EXCLUDED, NO_BODY = "unknown_format", "beside_pages", "excluded", "no_page_body"
LINK, NO_FILE = "link_to_a_folder", "pipe_or_device"  # are not followed, as a name has several
DOCUMENT_BYTES_MAX = 16 << 20  # of JSON that is read to see what it is
_REMOVED = "removed_from_delta_table"
_ARCHIVES = {"WARC", "ARC", "WACZ"}
_TEXT = "HTML or text"
_HIDDEN = re.compile(r"(?:^|/)\.")
_UNDERSCORED = re.compile(r"(?:^|/)_")  # what Hadoop and its like do not read
_ASSETS = re.compile(r"(?:^|/)_(?:static|sources|images|downloads)/")
_DATASET = re.compile(
    r"(?:^|/)(?:dataset_infos?|dataset_dict|dataset-metadata|datapackage(?:-digest)?|croissant"
    r"|package|package-lock|tsconfig|composer)\.json$|(?:^|/)cache-[0-9a-f_]+\.arrow$"
)
_PERHAPS_DATASET = re.compile(r"(?:^|/)(?:state|metadata|schema|stats|manifest)\.json$")
_SITE = re.compile(
    r"(?:^|/)(?:robots|humans|ads|app-ads|security|llms|llms-full)\.txt$"
    r"|(?:^|/)(?:index|search|search[-_]?index|feed|versions|asset-manifest|page-data)\.json$"
)
_CRAWL = re.compile(r"(.*/|)(?:pages|logs|reports|indexes|warc-cdx|downloads|profiles|crawls)/")
_CRAWLED = re.compile(r"(.*/|)(?:archives?|warcs?)/.*\.(?:warc|arc|wacz)(?:\.gz)?$")
_ICEBERG = re.compile(r"(.*/|)metadata/[^/]+\.metadata\.json$")
_DELTA = re.compile(r"(.*/|)_delta_log/(\d{20})(\.json|\.checkpoint(?:\.\d+\.\d+)?\.parquet)$")

Read = Callable[[str], bytes]


class FolderChoice(NamedTuple):
    """What is wanted of folders.

    Attributes:
        include, exclude: patterns of paths below the folder, or of names.
        bodies: the fields that hold a page's body; none: they are not known.
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    bodies: frozenset[str] = frozenset()


ANY = FolderChoice()


def _fits(path: str, patterns: Iterable[str]) -> bool:
    names = path, path.rpartition("/")[2]
    return any(fnmatchcase(name, each) for each in patterns for name in names)


def passed_over(
    formats: Mapping[str, str], choice: FolderChoice, read: Read, name: str = ""
) -> dict[str, str]:
    """Return of the files of a folder those that are no pages, and of what kind each is.

    `formats` has the format of each name, "" for none, by the path below the folder `name`.
    `read` returns the bytes of one.

    Raises:
        InputError: the log of a Delta table cannot be read, or rows in its files are deleted.
    """
    try:
        parts = _delta_parts(formats, read)
    except InputError as error:
        raise InputError(f"{name.rstrip('/')}/{error}") from error
    names = {path: path.lower() for path in formats}
    crawls = {found[1] for each in names.values() if (found := _CRAWLED.match(each))}
    iceberg = tuple(
        f"{found[1]}metadata/" for each in names.values() if (found := _ICEBERG.match(each))
    )
    has_html = any(each.endswith((".html", ".htm", ".xhtml")) for each in names.values())
    is_mixed = any(kind and not path.endswith(".json") for path, kind in formats.items())
    places = [pattern for pattern in choice.include if "/" in pattern]
    over = {}
    for path, kind in formats.items():
        lower, is_archive = names[path], kind in _ARCHIVES
        table = next((root for root in parts if path.startswith(root)), None)
        is_table = not is_archive and kind != _TEXT
        rules: dict[str, object] = {
            "hudi_metadata": ".hoodie/" in path,
            "hidden": _HIDDEN.search(path)
            or _ASSETS.search(lower)
            or (is_table and _UNDERSCORED.search(path)),
            _REMOVED: kind == "Parquet" and table is not None and path not in parts[table],
            "iceberg_metadata": lower.startswith(iceberg),
        }
        if not choice.include:
            crawl = None if is_archive else _CRAWL.match(lower)
            rules |= {
                "crawl_metadata": crawl and crawl[1] in crawls,
                "dataset_metadata": _DATASET.search(lower)
                or (is_mixed and _PERHAPS_DATASET.search(lower)),
                "site_metadata": has_html and _SITE.search(lower),
            }
        if _fits(path, choice.exclude) or (choice.include and not _fits(path, choice.include)):
            over[path] = EXCLUDED
        elif not _fits(path, places) and (applying := [each for each in rules if rules[each]]):
            over[path] = applying[0]
    return over


def lacks_body(data: bytes, bodies: frozenset[str]) -> bool:
    """Return whether data is one JSON document that is no page, and no list of pages."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False  # lines, as it seems
    first = found[0] if isinstance(found, list) and found else found
    return not (isinstance(first, dict) and bodies & first.keys())


class _DeltaFile(msgspec.Struct):
    path: str
    deletionVector: dict[str, object] | None = None  # noqa: N815 - as Delta calls it


class _Action(msgspec.Struct):
    """A line of a Delta log, as far as it says which files are of the table."""

    add: _DeltaFile | None = None
    remove: _DeltaFile | None = None


def _delta_parts(formats: Iterable[str], read: Read) -> dict[str, set[str]]:
    """Return the files of each Delta table, by its folder; the deepest folders come first."""
    logs: dict[str, dict[int, dict[str, list[str]]]] = {}
    for path in formats:
        if found := _DELTA.match(path):
            root, version, ending = found.groups()
            versions = logs.setdefault(root, {}).setdefault(int(version), {})
            versions.setdefault(ending.rpartition(".")[2], []).append(path)
    deepest = sorted(logs, key=len, reverse=True)
    return {root: {root + part for part in _parts_now(logs[root], read)} for root in deepest}


def _parts_now(versions: Mapping[int, Mapping[str, list[str]]], read: Read) -> set[str]:
    """Return the paths of a table's files: its newest checkpoint, and the commits after that."""
    parts: set[str] = set()
    start = max((each for each, files in versions.items() if "parquet" in files), default=-1)
    for version in sorted(each for each in versions if each >= start):
        for name in versions[version]["parquet" if version == start else "json"]:
            for action in _actions(name, read(name)):
                if action.add is not None:
                    _check_whole(name, action.add)
                    parts.add(unquote(action.add.path))
                if action.remove is not None:
                    parts.discard(unquote(action.remove.path))
    if start < 0 and 0 not in versions:
        log = versions[min(versions)]["json"][0]
        raise InputError(
            f"{log}: the log of this Delta table does not begin here, and has no checkpoint that "
            "is read. Export its rows, or name its files with --include"
        )
    return parts


def _actions(name: str, data: bytes) -> list[_Action]:
    """Return the actions of a commit or a checkpoint."""
    try:
        if not name.endswith(".parquet"):
            return msgspec.json.Decoder(_Action).decode_lines(data)
        with needs_extra("parquet", "Reading a Delta table"):
            rows = parquet.read_table(io.BytesIO(data), columns=["add"]).to_pylist()
        return [msgspec.convert(row, _Action) for row in rows]
    except (msgspec.MsgspecError, UnicodeDecodeError, OSError, ValueError) as error:
        why = f"{name}: cannot be read as a Delta log ({error}); copy it again"
        raise InputError(why) from error


def _check_whole(name: str, part: _DeltaFile) -> None:
    if part.deletionVector is not None:
        raise InputError(
            f"{name}: this Delta table marks rows of {part.path} as deleted (deletion vectors), "
            "which is not read. Rewrite it without (REORG TABLE ... APPLY (PURGE)), or export it"
        )
