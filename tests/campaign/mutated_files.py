"""Files of tables, archives and lists of records, damaged where their structure is.

Each function takes a random generator and gives files that are read together, and what must be
read of them however the rest is damaged. Equal generators give equal bytes.
"""

# ruff: noqa: PLR0911 - a kind of damage by its number
from __future__ import annotations

import csv
import datetime as dt
import io
import json
import zipfile
from functools import partial
from gzip import compress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa
from pyarrow import parquet

from tests.campaign.mutators import FIRST, crawled, damaged_bytes, html_pages, warc, warc_record
from tests.helpers.cdx import HEADER, Archive, archive

if TYPE_CHECKING:
    from random import Random

TABLE_TIME = dt.datetime(2026, 11, 25, tzinfo=dt.UTC)
TABLES = (".parquet", ".arrow", ".feather")
ODD_NUMBERS = (0, 1, 8, 9, 12, 14, 99, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)
ODD_PLACES = (
    "0", "-1", "-", "", "1", "7", "1e3", "0x10", "+5", " 5", "5.0", "٣", "null", "99999999",
    "16777000", "99999999999999", "999999999999999", "9" * 30, "9" * 5_000,
)  # fmt: skip
ODD_NAMES = (
    "", "-", ".", "..", "/", "//", "\0", "a" * 300, "é", "none.warc.gz", "../files", "x.warc.gz/y",
    "file:///etc/hostname", "http://", "s3://", "a.warc.gz\n", "/dev/null",
)  # fmt: skip


class Files(NamedTuple):
    """Files by their names, and which of them, or which folder, is read.

    Attributes:
        sound: URLs of pages that must be read.
        records: how many there are; None where damage leaves that open.
    """

    files: dict[str, bytes]
    read: str
    sound: list[str]
    records: int | None = None


# ---- tables and rows -----------------------------------------------------------------------------


def table_bytes(rng: Random, whole: Any, kind: str) -> bytes:
    """Return a table as a file of a kind, in parts of seven rows."""
    made = io.BytesIO()
    if kind == ".parquet":
        packing = rng.choice(("none", "snappy", "zstd", "gzip"))
        parquet.write_table(whole, made, row_group_size=7, compression=packing)
    else:
        new = pa.ipc.new_stream if kind == ".arrow" else pa.ipc.new_file
        with new(made, whole.schema) as stream:
            stream.write_table(whole, max_chunksize=7)
    return made.getvalue()


def table(rng: Random) -> tuple[str, bytes]:
    """Return the suffix and the bytes of a damaged table."""
    rows = [msgspec.json.decode(rng.choice(crawled())) for _ in range(rng.randrange(1, 20))]
    for row in rows:
        row |= {"bytes": rng.randbytes(4), "list": [1.5] * 3, "time": TABLE_TIME}
    kind = rng.choice(TABLES)
    return kind, damaged_bytes(rng, table_bytes(rng, pa.Table.from_pylist(rows), kind))


def rows(rng: Random) -> tuple[str, bytes]:
    """Return the suffix and the bytes of a damaged text in columns."""
    kind, delimiter = rng.choice(((".csv", ","), (".tsv", "\t")))
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow(("url", "body"))
    for _ in range(rng.randrange(20)):
        page = msgspec.json.decode(rng.choice(crawled()))
        writer.writerow((page.get("url"), page.get("body"), *["more"] * (rng.random() < 0.1)))
    data = text.getvalue().encode()
    odd = rng.choice((b'"', b"\n", b"\r", b"\0", b"\xff", delimiter.encode(), b'"""'))
    at = rng.randrange(len(data))
    return kind, damaged_bytes(rng, data[:at] + odd + data[at:])


def tables(rng: Random) -> Files:
    """Return a folder of tables: one untouched, one with other columns, one cut or mixed up."""
    first, second, third = (_pages_table(rng, number) for number in range(3))
    kinds = rng.choices(TABLES, k=3)
    made = [
        table_bytes(rng, each, kind)
        for each, kind in zip((first, second, third), kinds, strict=True)
    ]
    sound = first["url"].to_pylist()
    made[1] = table_bytes(rng, _other_columns(rng, second), kinds[1])
    made[2] = _cut_table(rng, made[2], rng.choice(made[:2]))
    files = {f"{n}{kind}": data for n, (kind, data) in enumerate(zip(kinds, made, strict=True))}
    return Files({f"in/{name}": data for name, data in files.items()}, "in", sound)


def _pages_table(rng: Random, number: int) -> Any:
    count = rng.randrange(1, 20)
    return pa.table(
        {
            "url": [f"urn:table:{number}:{row}" for row in range(count)],
            "body": rng.choices(html_pages(), k=count),
            "meta": [{"tags": ["x"] * (row % 3)} for row in range(count)],
        }
    )


def _other_columns(rng: Random, whole: Any) -> Any:
    """Return a table whose columns lack one, have another type, or are named otherwise."""
    kind, name = rng.randrange(8), rng.choice(("url", "body", "meta"))
    if kind == 0:
        return whole.drop_columns([name])
    if kind == 1:
        return whole.append_column(name, whole["body"])  # twice
    if kind == 2:
        names = rng.choice((["body", "url", "meta"], ["", "\0", "\ud7ff"], ["URL", "é", "meta"]))
        return whole.rename_columns(names)
    if kind == 3:
        return whole.slice(0, 0)
    values: list[Any] = [None] * len(whole)
    if kind == 4:
        values = rng.choice(([1] * len(whole), [[b"x", None]] * len(whole), [True] * len(whole)))
    column = whole[name] if kind > 5 else pa.array(values)
    if kind > 5 and name != "meta":
        column = column.combine_chunks()
        column = column.dictionary_encode() if kind == 6 else column.cast(pa.large_binary())
    return whole.set_column(whole.schema.get_field_index(name), name, column)


def _cut_table(rng: Random, data: bytes, other: bytes) -> bytes:
    """Return a table without what its end says, with another's end, or under a wrong magic."""
    kind = rng.randrange(8)
    tail = int.from_bytes(data[-8:-4], "little") + 8
    tail = tail if tail < len(data) else min(len(data), 400)
    body, end = data[:-tail], data[-tail:]
    if kind == 0:
        return b""
    if kind == 1:
        return body[: rng.randrange(len(body) + 1)] + end
    if kind == 2:
        return body + damaged_bytes(rng, end)
    if kind == 3:
        return body[:-1] + other[-len(end) - 1 :]
    if kind == 4:
        length = rng.choice(ODD_NUMBERS).to_bytes(4, "little")
        return data[:-8] + length + data[-4:]
    if kind == 5:
        return rng.choice((b"ORC", b"PARE", b"PAR1", b"Obj\1", b"ARROW1\0\0", b"\0" * 8)) + data[4:]
    if kind == 6:
        at = rng.randrange(4, 400) % len(data)
        number = rng.choice(ODD_NUMBERS).to_bytes(4, "little")
        return data[:at] + number + data[at + 4 :]
    return data[: rng.randrange(len(data))]


# ---- WACZ ----------------------------------------------------------------------------------------


def wacz(rng: Random) -> Files:
    """Return an archive of WARC files; its parts or its lists of these are damaged."""
    page = b"<p>one page that nobody has touched at all"
    first = compress(warc_record("resource", FIRST, page, ("Content-Type", "text/html")))
    made, is_whole = io.BytesIO(), rng.random() < 0.3
    method = rng.choice(
        (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    )
    with zipfile.ZipFile(made, "w", method) as opened:
        opened.writestr("archive/0.warc.gz", first)
        for number in range(1, rng.randrange(2, 4)):
            name = rng.choice((f"archive/é{number}.warc", f"archive/{number}.warc.gz", "x.json"))
            data = warc(rng)
            packed = compress(data) if name.endswith(".gz") and rng.random() < 0.8 else data
            opened.writestr(f"{number}{name}" if name == "x.json" else name, packed)
    data = made.getvalue()
    if not is_whole:
        data = _other_zip(rng, data) if rng.random() < 0.8 else damaged_bytes(rng, data)
    return Files({"x.wacz": data}, "x.wacz", [FIRST] if is_whole else [])


def _other_zip(rng: Random, data: bytes) -> bytes:
    """Return a ZIP archive with other numbers in one to three of its headers."""
    for _ in range(rng.randint(1, 3)):
        magic = rng.choice((b"PK\3\4", b"PK\1\2", b"PK\1\2", b"PK\5\6"))
        places = [at for at in range(len(data)) if data.startswith(magic, at)]
        if places:
            at = rng.choice(places) + rng.randrange(4, 46, 2)
            size = rng.choice((1, 2, 4))
            number = rng.choice((*ODD_NUMBERS, rng.randrange(1 << 32), len(data)))
            data = data[:at] + number.to_bytes(8, "little")[:size] + data[at + size :]
    return data


# ---- CDX -----------------------------------------------------------------------------------------


def cdx(rng: Random) -> Files:
    """Return archives and a list of their records; all but the first archive may be damaged."""
    sound_archive = _archive(rng, "sound.warc.gz")
    other = _archive(rng, "a.warc.gz")
    files = {sound_archive.name: sound_archive.data}
    damage = rng.randrange(5)
    if damage:
        data = other.data
        files["a.warc.gz"] = (data, data, damaged_bytes(rng, data), _cut(rng, data))[damage - 1]
    kind = rng.randrange(4)
    lines, sound = [], []
    for made in (sound_archive, other, sound_archive):
        for number in range(len(made.places)):
            url = _url(made.name, number)
            line = _line(made, number, url, kind)
            if made is other and rng.random() < 0.7:
                line = _changed_line(rng, other, number, kind)
            elif made is not other or damage in {1, 2}:
                sound.append(url)
            lines.append(line)
    if rng.random() < 0.1:
        lines.insert(len(lines) // 2, rng.choice((b"\n", b" \n", HEADER, b"!OpenWayback\n")))
    head = HEADER if kind == 2 else b""
    data = head + b"".join(lines)
    if rng.random() < 0.1:
        data = data.removesuffix(b"\n")
    records = data.count(b"\n") + (not data.endswith(b"\n"))
    name = rng.choice(("x.cdxj", "x.cdxj.gz")) if kind < 2 else rng.choice(("x.cdx", "x.cdx.gz"))
    packed = compress(data, 1) if name.endswith(".gz") else data
    return Files(files | {name: packed}, name, sound, records)


def _url(name: str, number: int) -> str:
    return f"urn:{name}:{number}"


def _archive(rng: Random, name: str) -> Archive:
    """Return an archive of one to four pages, compressed one by one or not at all."""
    records = []
    for number in range(rng.randint(1, 4)):
        body = rng.choice(html_pages()).encode()
        kind = ("Content-Type", "text/html")
        records.append(warc_record("resource", _url(name, number), body, kind))
    packed = partial(compress, compresslevel=1, mtime=0)
    return archive(name, records, packed if rng.random() < 0.7 else bytes)


def _line(made: Archive, number: int, url: str, kind: int) -> bytes:
    """Return a line: with a key and JSON, JSON alone, or in columns."""
    if kind > 1:
        return made.columns(number, url, "text/html")
    line = made.line(number, url, mime="text/html")
    return line if kind else line[line.find(b"{") :]


def _changed_line(rng: Random, made: Archive, number: int, kind: int) -> bytes:
    """Return the line of a record, with a place or an archive that it does not have."""
    start, length = made.places[number]
    change = rng.randrange(9)
    places, name = list(made.places), made.name
    if change == 0:
        places[number] = start, rng.choice((length - 1, length + 1, length // 2, len(made.data)))
    elif change == 1:  # in the middle of a record, or of two
        places[number] = start + rng.choice((1, 2, 9, length // 2, length - 1)), length
    elif change == 2:
        places[number] = len(made.data) + rng.choice((-1, 0, 1, 1 << 40)), length
    elif change == 3:
        places[number] = rng.choice(made.places)
    elif change == 4:
        name = rng.choice(ODD_NAMES)
    line = _line(made._replace(places=places, name=name), number, _url(made.name, number), kind)
    if change == 5:
        old = rng.choice((f"{start}", f"{length}"))
        new = rng.choice(ODD_PLACES)
        line = line.replace(old.encode(), new.encode())
    elif change == 6 and kind < 2:
        line = _odd_object(rng, line)
    elif change > 6:
        line = damaged_bytes(rng, line.rstrip(b"\n")) + b"\n"
    return line


def _odd_object(rng: Random, line: bytes) -> bytes:
    """Return a line whose object has values of other types, lacks one, or is deep."""
    at = line.find(b"{")
    found = json.loads(line[at:])
    name = rng.choice([*found])
    value: Any = rng.choice((None, -1, 1.5, True, [], {}, 10**20, [[[]]] * 9, "x" * 70_000, "404"))
    found = {key: each for key, each in found.items() if key != name} | (
        {} if rng.random() < 0.3 else {name: value}
    )
    text = json.dumps(found).encode()
    if rng.random() < 0.2:
        text = text[:-1] + b', "deep": ' + b"[" * 20_000 + b"}"
    return line[:at] + text + b"\n"


def _cut(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]
