"""The formats of page files: how each is known, and what is said of files that are none.

A file is WARC or ARC by its first bytes or its name, and JSON by its name; standard input and pipes
are recognised by their first bytes.
"""

import re
from functools import partial

from streamer.compression import ARROW_ENDINGS, PARQUET_ENDINGS
from streamer.pages.cdx import CdxRecords, begins_cdx
from streamer.pages.lines import LetterRecords, open_json_lines, small_lines
from streamer.pages.members import GZIP_MAGIC, ZSTD_MAGIC
from streamer.pages.page_files import TYPES, PageFileRecords, small_page
from streamer.pages.records import Format
from streamer.pages.rows import TAB, open_rows
from streamer.pages.tables import needs_arrow, open_table_records
from streamer.pages.wacz import open_wacz
from streamer.pages.warc import WarcRecords, begins_file


def _tables(kind: str, suffixes: tuple[str, ...], magic: bytes) -> Format:
    rows = partial(open_table_records, kind=kind)
    return Format(kind, suffixes, rows, lambda head: head.startswith(magic), (), check=needs_arrow)


def _archives(kind: str, *suffixes: str) -> Format:
    records, begins = partial(WarcRecords, kind=kind), partial(begins_file, kind)
    return Format(kind, suffixes, records, begins=begins, is_message=False)


def _rows(kind: str, suffix: str, delimiter: str) -> Format:
    return Format(kind, (suffix,), partial(open_rows, delimiter=delimiter), rank=1, is_utf8=True)


def is_of_messages(name: str) -> bool:
    """Return by its name whether a source has messages; WARC records and single pages are none."""
    kind = format_by_name(name.lower().removesuffix(".zst"))  # as a pipe may be called
    return kind is None or kind.is_message


JSON_LINES = Format(
    "JSON lines", (".jsonl", ".ndjson", ".json"), open_json_lines, small=small_lines, is_utf8=True
)
PARQUET = _tables("Parquet", PARQUET_ENDINGS, b"PAR1")
ARROW = _tables("Arrow", ARROW_ENDINGS, b"ARROW1")
WACZ = Format("WACZ", (".wacz",), open_wacz, packed=(), is_message=False)
CDX = Format("CDX", (".cdx", ".cdxj"), CdxRecords, begins=begins_cdx, rank=1, is_message=False)
PAGE_FILES = Format(
    "HTML or text",
    tuple(TYPES),
    PageFileRecords,
    rank=2,
    is_message=False,
    small=small_page,
    small_bytes_max=1 << 20,
)
_LETTER = re.compile(
    rb'\{"page":\{"topic":"(?:[^"\\]|\\.)*","partition":\d+,"offset":\d+\},"code":"'
)
_letters = partial(LetterRecords, is_message=is_of_messages)
LETTERS = Format("dead letters", (".dead.jsonl",), _letters, begins=_LETTER.match, rank=3)
FORMATS = (
    JSON_LINES,
    LETTERS,
    _archives("WARC", ".warc", ".wet"),
    _archives("ARC", ".arc"),
    WACZ,
    PARQUET,
    ARROW,
    _rows("CSV", ".csv", ","),
    _rows("TSV", ".tsv", TAB),
    CDX,
    PAGE_FILES,
)
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_TO_LINES = 'write its rows as JSON lines, as {"url": ..., "body": ...}, and give these'
_TO_FILES = "unpack it and give the page files in it"
_TO_BYTES = "decompress it, and pipe the result into -"
_ZIP_MAGIC = b"PK\x03\x04"
UTF16 = "text in UTF-16"
POINTER = "a pointer of Git LFS to a file"
_FOREIGN = (  # place, bytes, what it is, what to do
    (0, b"ORC", "an ORC file", _TO_LINES),
    (0, b"Obj\x01", "an Avro file", _TO_LINES),
    (0, b"SQLite format 3\x00", "an SQLite database", _TO_LINES),
    (0, _ZIP_MAGIC, "a ZIP archive", _TO_FILES),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", _TO_FILES),
    (0, b"Rar!\x1a\x07", "a RAR archive", _TO_FILES),
    (257, b"ustar", "a tar archive", _TO_FILES),
    (0, b"\xfd7zXZ\x00", "compressed with xz", _TO_BYTES),
    (0, b"BZh", "compressed with bzip2", _TO_BYTES),
    (0, b"\x04\x22\x4d\x18", "compressed with lz4", _TO_BYTES),
    (0, b"\xff\x06\x00\x00sNaPpY", "compressed with snappy", _TO_BYTES),
    (0, GZIP_MAGIC + b"\x08", "compressed twice", _TO_BYTES),
    (0, ZSTD_MAGIC, "compressed twice", _TO_BYTES),
    (0, b"version https://git-lfs.", POINTER, "fetch the file itself with git lfs pull"),
    (0, b"%PDF-", "a PDF file", "give its text as JSON lines"),
    (0, b"\xff\xfe\x00\x00", "text in UTF-32", "convert it to UTF-8 with iconv"),
    (0, b"\xff\xfe", UTF16, "convert it to UTF-8 with iconv"),
    (0, b"\xfe\xff", UTF16, "convert it to UTF-8 with iconv"),
)


def format_by_name(name: str) -> Format | None:
    """Return the format by a file's name; None: none."""
    if found := _BY_SUFFIX.search(name):
        return _OF_SUFFIX[found[0].lower()]
    return CDX if _COMMON_CRAWLS.search(name) else None


def format_by_head(head: bytes) -> Format | None:
    """Return the format by a file's first bytes, whatever its name is."""
    return next((each for each in FORMATS if each.begins(head)), None)


def format_of(name: str, head: bytes) -> Format:
    """Return the format of a file that is read, by its first bytes, or else by its name.

    A page may be about WARC files, and begin as one does.
    """
    named = format_by_name(name)
    return named if named is PAGE_FILES else format_by_head(head) or named or JSON_LINES


def has_records(name: str) -> bool:
    """Return by its name whether a file holds pages as records, and is not one itself."""
    return format_by_name(name) not in {None, PAGE_FILES}


def fault_of(head: bytes, named: Format | None = None) -> str:
    """Return what to say of a file by its first bytes, if they are of a kind that is not read.

    A WACZ file is a ZIP archive, and a file with one page may have any charset.
    """
    for place, magic, what, remedy in _FOREIGN:
        is_own = (named, magic) == (WACZ, _ZIP_MAGIC) or (named, what) == (PAGE_FILES, UTF16)
        if head.startswith(magic, place) and not is_own:
            return f"is {what}, which is not read; {remedy}"
    return ""


def fault_of_lines(head: bytes) -> str:
    """Return what to say of lines by their first bytes, if these are no text."""
    if head.lstrip()[:1] not in {b"{", b"["} and (found := _BINARY.search(head)):
        return (
            f"is binary data (byte {found.start()} is 0x{found[0].hex()}) and neither JSON lines "
            "nor WARC nor ARC; give one of these"
        )
    return ""


_OF_SUFFIX = {
    suffix + packed: each
    for each in FORMATS
    for suffix in each.suffixes
    for packed in ("", *each.packed)
}
_BY_SUFFIX = re.compile(
    f"(?:{'|'.join(map(re.escape, sorted(_OF_SUFFIX, key=len, reverse=True)))})$", re.IGNORECASE
)
_COMMON_CRAWLS = re.compile(r"(?:^|/)cdx-\d{5}\.gz$")  # the parts of its index
KNOWN_NAMES = "; ".join(
    ", ".join(each.suffixes) + (f" (also {', '.join(each.packed)})" if each.packed else "")
    for each in FORMATS
)
