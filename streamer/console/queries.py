"""The queries of the view: SQL with named columns, and the records that become of their rows.

A query takes what it needs by name. Of ten million pages none reads more than it shows: lists stand
in the order of an index, and counts are those of the fold. Where SQLite could choose, CROSS JOIN
says that it begins with the table before it.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from streamer.console.fold import url_key
from streamer.model import SIMILARITY_ONE, Decision, Location, Verdict
from streamer.run.verdict_lines import ReadVerdict

_OFFSET_DIGITS = 13  # of 2**40; Python refuses to read thousands

INPUTS = "SELECT path, position, lines, seen_bytes, passed_over, note FROM input ORDER BY path"

VERDICT_COUNTS = "SELECT verdict, basis, pages, text_bytes FROM verdict_count"

# Verdicts over time: each bar is of so many slots.
HISTORY_BOUNDS = "SELECT min(slot), max(slot) FROM history"
HISTORY = """
SELECT (slot - :first) / :slots AS bar,
    iif(verdict = 'unique', 'unique', iif(basis = 'signature', 'similar', 'equal')) AS kind,
    sum(pages) AS pages
FROM history WHERE slot BETWEEN :first AND :last GROUP BY bar, kind
"""

# A hundred bars; the last one has 1, too.
SIMILARITY_BARS = """
SELECT min(similarity / 100, 99) / 100.0 AS least, sum(pages) AS pages
FROM similarity_count GROUP BY least ORDER BY least
"""

# Verdicts, by one of the conditions below; lists go on after the number `after`.
VERDICTS = """
SELECT page.number AS number, source.topic, source.partition, page.offset, page.url AS url,
    page.basis, page.similarity AS similarity, page.cluster, cluster.url AS other_url,
    other.topic AS other_topic, other.partition AS other_partition, other.other AS other_index,
    cluster.offset AS other_offset, page.same_url, page.text_bytes,
    fingerprint.name AS "index", ifnull(page.more, '{{}}') AS more
FROM page
CROSS JOIN source ON source.number = page.source
CROSS JOIN fingerprint ON fingerprint.number = page.fingerprint
LEFT JOIN cluster ON cluster.ref = page.cluster
LEFT JOIN source AS other ON other.number = cluster.source
WHERE {condition} ORDER BY {order} LIMIT :limit OFFSET :offset
"""
OF_ALL = "page.number > :after"
OF_URL = "page.url_key = :url_key AND page.url = :url AND page.number > :after"
OF_REF = "page.ref = :ref AND page.number > :after"
OF_HOST = "page.host = (SELECT number FROM host WHERE name = :host) AND page.number > :after"
OF_CLUSTER = "page.cluster = :ref AND page.number > :after"
RECENT_DUPLICATES = "page.number > :recent_from AND +page.cluster IS NOT NULL"

# Pages whose URL begins with a text, of the host that it names, or has it anywhere.
OF_PREFIX = f"{OF_HOST} AND substr(page.url, 1, length(:text)) = :text"
OF_PART = "page.number > :after AND instr(lower(page.url), lower(:text)) > 0"

SOURCES = """
SELECT count(DISTINCT topic) AS topics, (
    SELECT topic FROM source WHERE other = '' ORDER BY number LIMIT 1
) AS first FROM source WHERE other = ''
"""
FIND_SOURCE = "SELECT number FROM source WHERE name = :name"

CLUSTERS = """
SELECT source.name || ':' || cluster.offset AS place, cluster.url AS url,
    host.name AS host, cluster.duplicates AS duplicates
FROM {among}
CROSS JOIN source ON source.number = cluster.source
CROSS JOIN host ON host.number = cluster.host
WHERE {condition} ORDER BY {order}, cluster.ref LIMIT :limit OFFSET :offset
"""
# Of the newest pages only, so that no more of them are read.
GROWING = """(
    SELECT cluster AS ref, count(*) AS recent FROM page
    WHERE number > :recent_from AND +cluster IS NOT NULL GROUP BY +cluster
) AS growing CROSS JOIN cluster ON cluster.ref = growing.ref"""
NEWEST_PAGE = "SELECT ifnull(max(number), 0) AS number FROM page"
RECENT_OF_CLUSTER = """
SELECT count(*) AS pages FROM page WHERE cluster = :ref AND number > :recent_from
"""
CLUSTER_OF_ALL = "cluster.duplicates > 0"
CLUSTER_OF_HOST = "cluster.host = (SELECT number FROM host WHERE name = :host)"
CLUSTER_OF_HOSTS = "instr(host.name, :host) > 0"
CLUSTER_OF_PART = "instr(lower(cluster.url), lower(:url)) > 0"
CLUSTER_OF_REF = "cluster.ref = :ref"
FIND_HOST = "SELECT number FROM host WHERE name = :host"

HOSTS = """
SELECT name AS host, pages, duplicates, 1.0 * duplicates / max(pages, 1) AS share FROM host
WHERE {condition} ORDER BY {order}, number LIMIT :limit OFFSET :offset
"""
HAS_HOST_PART = "instr(name, :host) > 0"
_FROM_A_ON = {"host", "url", "number"}  # others are in order from the largest on


def order_by(sort: str, reverse: str) -> str:
    """Return what SQL orders a list by: a column, whose natural order may be reversed."""
    return f"{sort} {'ASC' if (sort in _FROM_A_ON) != (reverse == 'yes') else 'DESC'}"


LETTER_CODES = """
SELECT code, sum(letters) AS letters, count(*) AS sources FROM letter_count
GROUP BY code ORDER BY letters DESC, code
"""
LETTERS = """
SELECT letter.number, source.name || ':' || letter.offset AS place, letter.code, letter.detail,
    letter.record_key AS "key", letter.record, letter.value_bytes
FROM letter
CROSS JOIN source ON source.number = letter.source
WHERE {condition} ORDER BY letter.number LIMIT :limit
"""
LETTER_OF_CODE = "letter.code = :code AND letter.number > :after"
LETTER_OF_REF = "letter.ref = :ref"


class InputState(msgspec.Struct, frozen=True):
    """How far an input is folded; `note` says what keeps the fold from the rest.

    `passed_over` verdicts are on places that had another URL before: of another crawl, whose input
    has the same name, such as `-`.
    """

    path: str
    position: int
    lines: int
    seen_bytes: int
    passed_over: int
    note: str


class VerdictCount(msgspec.Struct, frozen=True):
    """How many pages have a verdict on this basis, and the bytes of their texts."""

    verdict: str
    basis: str
    pages: int
    text_bytes: int


class SimilarityBar(msgspec.Struct, frozen=True):
    """The duplicates by signature with a similarity from `least` on, .01 wide."""

    least: float
    pages: int


class ClusterRow(msgspec.Struct, frozen=True):
    """A cluster by its representative; `duplicates` is how many pages have that."""

    place: str
    url: str
    host: str
    duplicates: int


class HostRow(msgspec.Struct, frozen=True):
    """The pages of a host, and which share of them are duplicates of any page."""

    host: str
    pages: int
    duplicates: int
    share: float


class CodeRow(msgspec.Struct, frozen=True):
    """The dead letters of a code, and the sources that they are from."""

    code: str
    letters: int
    sources: int


class LetterRow(msgspec.Struct, frozen=True):
    """A dead letter; `record` is the beginning of its record, read as UTF-8."""

    number: int
    place: str
    code: str
    detail: str
    key: str | None
    record: str
    value_bytes: int


class NumberedVerdict(msgspec.Struct, frozen=True):
    """A verdict as published, and its number in the order of the fold."""

    number: int
    verdict: Verdict
    cluster: int | None


_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(ReadVerdict).decode
_Record = TypeVar("_Record", bound=msgspec.Struct)
Value = str | int | float | None


def records(
    connection: sqlite3.Connection, query: str, record: type[_Record], **values: Value
) -> list[_Record]:
    """Return the rows of a query as records of this type, which has the names of its columns.

    Bytes are read as UTF-8.
    """
    rows = map(dict, connection.execute(query, values))
    return [record(**{name: _text(value) for name, value in row.items()}) for row in rows]


def _text(value: Value | bytes) -> Value:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def clusters(
    connection: sqlite3.Connection, condition: str, *, order: str = "duplicates DESC",
    among: str = "cluster", **values: Value,
) -> list[ClusterRow]:  # fmt: skip
    """Return the clusters that a condition holds for."""
    written = CLUSTERS.format(among=among, condition=condition, order=order)
    return records(connection, written, ClusterRow, **{"limit": 1, "offset": 0, **values})


def hosts(
    connection: sqlite3.Connection, condition: str, order: str, limit: int = 1, offset: int = 0,
    **values: Value,
) -> list[HostRow]:  # fmt: skip
    """Return the hosts that a condition holds for."""
    written, of = HOSTS.format(condition=condition, order=order), {"limit": limit, "offset": offset}
    return records(connection, written, HostRow, **of, **values)


def number(connection: sqlite3.Connection, query: str, **values: Value) -> int | None:
    """Return the one number of a query; None where it has no row, or NULL."""
    row = connection.execute(query, values).fetchone()
    return None if row is None else row[0]


def verdicts(
    connection: sqlite3.Connection,
    condition: str,
    limit: int,
    *,
    after: int = 0,
    order: str = "page.number",
    **values: Value,
) -> list[NumberedVerdict]:
    """Return the verdicts that a condition holds for."""
    query = VERDICTS.format(condition=condition, order=order)
    if isinstance(url := values.get("url"), str):
        values["url_key"] = url_key(url)
    found = connection.execute(query, {"after": after, "limit": limit, "offset": 0, **values})
    return [NumberedVerdict(row["number"], _verdict(row), row["cluster"]) for row in found]


def _verdict(row: sqlite3.Row) -> Verdict:
    """Return the verdict that a row was folded from."""
    other: dict[str, Any] | None = None
    if row["cluster"] is not None:
        place = Location(row["other_topic"], row["other_partition"], row["other_offset"])
        other = {"page": place, "url": row["other_url"]}
        other |= {"index": row["other_index"]} if row["other_index"] else {}
    same = "url", "basis", "text_bytes", "index"
    similarity = row["similarity"]
    fields = {name: row[name] for name in same} | {
        "page": Location(row["topic"], row["partition"], row["offset"]),
        "verdict": Decision.DUPLICATE if other else Decision.UNIQUE,
        "similarity": None if similarity is None else similarity / SIMILARITY_ONE,
        "representative": other,
        "same_url": bool(row["same_url"]),
    }
    # The JSON of the other fields is taken over as it was published.
    more = row["more"].encode().removeprefix(b"{")
    return _decode(_encode(fields)[:-1] + (b"}" if more == b"}" else b"," + more))


def letters(
    connection: sqlite3.Connection, condition: str, limit: int, *, after: int = 0, **values: Value
) -> list[LetterRow]:
    """Return the dead letters that a condition holds for."""
    query = LETTERS.format(condition=condition)
    return records(connection, query, LetterRow, after=after, limit=limit, **values)


def refs_of(connection: sqlite3.Connection, place: str) -> Iterator[int]:
    """Yield the refs of the pages at a place, as SOURCE:NUMBER; several where names are alike."""
    name, colon, offset = place.rpartition(":")
    digits = offset.isascii() and offset.isdecimal() and len(offset) <= _OFFSET_DIGITS
    if colon and digits and int(offset) >> 40 == 0:
        for row in connection.execute(FIND_SOURCE, {"name": name}):
            yield row["number"] << 40 | int(offset)
